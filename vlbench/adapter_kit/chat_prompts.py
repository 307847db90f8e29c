"""A question about one image as a prompt in the model's own chat template."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vlbench.adapter_kit import template_child
from vlbench.adapter_kit.prompts import Prompt
from vlbench.errors import CannotDo, WeightsError

# What stands for the question while the template is rendered. A change of case, of blanks or of
# quotes would show.
QUESTION = '"vLBench\'s  QUESTIon" <1 & 2>'
ANSWER = "Yes"


class ChatTemplate:
    """The chat template of a processor: a user shows an image and asks, the assistant answers.

    Whatever the template writes before an answer, such as an empty thought, is part of every
    prompt; a mere blank is part of the answer. Anybody may have written the template, so another
    process renders it, once, and questions are filled in. Raises CannotDo for a processor without a
    template, and for a template that changes a question or writes an answer elsewhere than after
    its generation prompt, and WeightsError for one that cannot be rendered within the limits.
    """

    def __init__(self, processor: Any, name: str) -> None:
        template = processor.chat_template
        if isinstance(template, Mapping):
            template = template.get("default")
        if not template:
            what = "has no chat template, so its prompts are unknown"
            raise CannotDo(f"{name} {what}; put one into its folder as chat_template.jinja")
        chats = [_chat(), _chat(ANSWER)]
        variables = {**processor.tokenizer.special_tokens_map, "tools": None, "documents": None}
        request = {"template": template, "variables": variables, "chats": chats}
        found = _rendered(json.dumps(request, default=str))
        if isinstance(found, str):
            raise WeightsError(f"the chat template of {name} {found}")
        prompt, whole = found
        if QUESTION not in prompt:
            raise CannotDo(f"the prompt of {name} changes the text: {QUESTION!r}")
        start = whole.find(ANSWER, len(prompt))
        if not whole.startswith(prompt) or start < 0:
            what = "writes an answer elsewhere than after its generation prompt"
            raise CannotDo(f"the chat template of {name} {what}")
        lead = whole[len(prompt) : start]
        self._thought, self._blank = (lead, "") if lead.strip() else ("", lead)
        self._rendered = prompt + self._thought
        # A tokenizer adds special tokens that the template did not.
        first = processor.tokenizer.bos_token
        self._adds_special = not (first and prompt.startswith(first))

    def __call__(self, question: str) -> Prompt:
        """Return the question as the user's message."""
        prompt = self._rendered.replace(QUESTION, question)
        return Prompt(prompt, prompt, self._adds_special, self._blank)


def _chat(answer: str | None = None) -> dict[str, Any]:
    """Return what a template is rendered with: the question alone, or answered."""
    asked = [{"type": "image"}, {"type": "text", "text": QUESTION}]
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": asked}]
    if answer is not None:
        messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return {"messages": messages, "add_generation_prompt": answer is None}


@cache
def _rendered(request: str) -> list[str] | str:
    """Return the texts that `template_child` makes of a request, or why it made none."""
    # -P: what lies beside the file is none of its imports.
    command = [sys.executable, "-P", str(Path(template_child.__file__))]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if done.returncode == -signal.SIGXCPU:
        return f"takes more than {template_child.SECONDS} s"
    if done.returncode:
        end = done.stderr.strip().rpartition("\n")[2]
        return f"ended the process that rendered it, with {done.returncode}: {end:.200}"
    found: list[str] | dict[str, str] = json.loads(done.stdout)
    return found["error"] if isinstance(found, dict) else found
