"""A program that renders a chat template within limits; it imports only jinja2.

It reads a JSON request from standard input, `template`, `variables` and `chats` (the variables of
each rendering), and writes a list of texts, or `{"error": why}`. It accepts the dialect
of transformers' templates, which are untrusted.
"""

from __future__ import annotations

import datetime as dt
import json
import resource
import sys
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Seconds of CPU time and bytes of address space. A usual template takes .1 s and 24 MB.
SECONDS, MEMORY = 2, 256 * 2**20

# The most characters of a prompt.
LONGEST = 1_000_000


class Generation(Extension):
    """The block `{% generation %}`, which marks the assistant's text and does not change it."""

    tags = {"generation"}  # noqa: RUF012 - as the library has it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the statements inside the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def refuse(message: str) -> None:
    """Raise TemplateError; a template calls this if it cannot render a chat."""
    raise TemplateError(message)


def as_json(value: Any, *, ensure_ascii: bool = False, **options: Any) -> str:
    """Return a value as JSON; unlike jinja2's filter of this name, without HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def now(form: str) -> str:
    """Return the date and time on this machine."""
    return dt.datetime.now().astimezone().strftime(form)


def render_chats(request: dict[str, Any]) -> list[str]:
    """Return the text of each chat. Raises whatever the template raises."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": now}
    template = environment.from_string(request["template"])
    return [template.render(**request["variables"], **chat) for chat in request["chats"]]


def answer(request: dict[str, Any]) -> Any:
    """Return the texts, or the reason why a template cannot be rendered."""
    try:
        texts = render_chats(request)
    except MemoryError:
        return {"error": f"takes more than {MEMORY // 2**20} MB"}
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return {"error": f"cannot be rendered: {type(error).__name__}: {error!s:.200}"}
    if any(len(text) > LONGEST for text in texts):
        return {"error": f"writes more than {LONGEST:,} characters"}
    return texts


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    if sys.platform == "linux":  # others refuse a limit of address space, or do not keep it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    json.dump(answer(request), sys.stdout)


if __name__ == "__main__":
    main()
