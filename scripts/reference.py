"""The site's reference: the command line, what plug-ins may import, and the keys of YAML files."""

from __future__ import annotations

import argparse
import inspect
import io
import re
import typing
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from catalogue import cell, prose
from papers import table

from vlbench.catalog.findings import FileValues, FindingValues
from vlbench.catalog.specs import ELSEWHERE, REQUIRED, ModelSpec, TaskSpec
from vlbench.commands.parser import ENVIRONMENT, EXIT_CODES, parser_of
from vlbench.schema import hints, parameters, words

PROMISED_NAME = re.compile(r"\bvlbench[\w.]*:\w+")
ABOUT_TASK = """Of the required keys, a group has none, and a task that `extends` another takes over
what it leaves out. `params` are the arguments of the probe, `data` those of the loader. `data_set`
names a data set of a data_sets.yaml, whose `data` the task takes over; `sets` makes a task of each
set, with the keys that the set changes."""
PLUGINS = Path(__file__).resolve().parents[1] / "docs" / "plugins.md"


def pages() -> dict[str, str]:
    """Return the text of each page of the reference by its name."""
    return {
        "command_line": "\n".join(_command_line()),
        "plugin_api": "\n".join(_plugin_api()),
        "yaml_keys": "\n".join(_yaml_keys()),
    }


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of each command, with its options, which it adds when called."""
    for action in parser._actions:  # noqa: SLF001 - argparse lists its options nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in dict.fromkeys(action.choices.values()):
                with redirect_stdout(io.StringIO()), suppress(SystemExit):
                    inner.parse_known_args(["--help"])
                yield inner
                yield from commands(inner)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options of a command that help shows, except --help itself."""
    hidden = (argparse._SubParsersAction, argparse._HelpAction)  # noqa: SLF001
    known = [one for one in parser._actions if not isinstance(one, hidden)]  # noqa: SLF001
    return [one for one in known if one.help != argparse.SUPPRESS]


def _command_line() -> Iterator[str]:
    parser = parser_of()
    about = (parser.epilog or "").splitlines()[0]
    yield f"# Command line\n\n{parser.description} {about}\n"
    yield f"## Exit codes\n\n```text\n{EXIT_CODES}```\n"
    yield f"## Environment\n\n```text\n{ENVIRONMENT}```\n"
    yield "Others are under [environment](../environment.md).\n"
    for command in commands(parser):
        about = command.description or ""
        yield f"## {command.prog}\n\n{about[:1].upper()}{prose(about[1:])}.\n"
        yield f"```text\n{command.format_usage().removeprefix('usage: ')}```\n"
        if rows := [_option(one) for one in options(command)]:
            yield from (*table(("option", "meaning"), rows), "")


def _option(action: argparse.Action) -> list[str]:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    names = action.option_strings or [str(action.metavar or action.dest)]
    shown = f"`{', '.join(names)}{f' {value}' * bool(action.option_strings and value)}`"
    said = [cell(action.help or "")] if action.help else []
    said += [f"one of {', '.join(f'`{one}`' for one in action.choices)}"] if action.choices else []
    return [shown.replace("|", r"\|"), "; ".join(said) or "-"]


def promised_names() -> list[str]:
    """Return each `module:name` promised in docs/plugins.md."""
    text = PLUGINS.read_text("utf-8").partition("## Used by")[0]
    return sorted(set(PROMISED_NAME.findall(text)))


def _plugin_api() -> Iterator[str]:
    yield "# Plug-in API\n\nWhat is promised of these names is under [plug-ins](../plugins.md).\n"
    for module, names in groupby(promised_names(), lambda name: name.partition(":")[0]):
        yield f"## `{module}`\n\n{prose(import_module(module).__doc__)}\n"
        for name in names:
            bare = name.partition(":")[2]
            yield from _entry(bare, getattr(import_module(module), bare))


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        yield f"`{value!r}`\n"
        return
    yield _described(name, value)
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        if inspect.isfunction(function) and method[0] != "_" and function.__doc__:
            yield _described(f"{name}.{method}", function)


def _described(name: str, value: Any) -> str:
    return f"```python\n{_signature(name, value)}\n```\n\n{prose(value.__doc__)}\n"


def _signature(name: str, value: Any) -> str:
    if getattr(value, "_is_protocol", False):
        return f"class {name}"
    if inspect.isclass(value) and issubclass(value, Exception):
        return f"class {name}({value.__bases__[0].__name__})"
    return f"{name}{inspect.signature(value)}"


def _yaml_keys() -> Iterator[str]:
    yield "# Keys of YAML files\n"
    yield "Keys that begin with `x-` are yours. Schemas, for editors and checks: "
    yield '<a href="../task.schema.json">task.schema.json</a> for tasks, '
    yield '<a href="../board.schema.json">board.schema.json</a> for boards.\n'
    for title, kind, also in (
        (
            "A task",
            TaskSpec,
            ABOUT_TASK,
        ),
        ("A model of models.yaml", ModelSpec, "`params` are the arguments of the adapter."),
        ("A file of findings", FileValues, ""),
        ("A finding", FindingValues, ""),
    ):
        yield f"## {title}\n\n{prose(kind.__doc__)} {also}\n"
        yield from (*table(("key", "value", "default"), _keys(kind)), "")


def _keys(kind: Callable[..., Any]) -> list[list[str]]:
    """Return for each key of a file its content and its default."""
    known = {} if typing.is_typeddict(kind) else parameters(kind)
    defaults = {name: _default(one.default) for name, one in known.items()}
    required = REQUIRED if kind is TaskSpec else getattr(kind, "__required_keys__", ())
    defaults |= dict.fromkeys(required, "required")
    kinds = {name: one for name, one in hints(kind).items() if name not in ELSEWHERE}
    return [[f"`{n}`", cell(words(k)), defaults.get(n, "-")] for n, k in kinds.items()]


def _default(value: Any) -> str:
    plain = isinstance(value, bool | int | str) and value != ""
    return f"`{value!r}`" if plain else "-"
