"""A question about one image as a prompt in the model's own chat template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlbench.adapter_kit.prompts import Prompt
from vlbench.errors import CannotDo


class ChatTemplate:
    """The chat template of a processor: a user shows an image and asks, the assistant answers.

    Whatever the template writes before an answer, such as an empty thought, is part of every
    prompt; a mere blank is part of the answer. Raises CannotDo for a processor without a template,
    and for a template that writes an answer elsewhere than after its generation prompt.
    """

    def __init__(self, processor: Any, name: str) -> None:
        self._processor = processor
        self._name = name
        if not processor.chat_template:
            what = "has no chat template, so its prompts are unknown"
            raise CannotDo(f"{name} {what}; put one into its folder as chat_template.jinja")
        lead = self._before_answer("Yes")
        self._thought, self._blank = (lead, "") if lead.strip() else ("", lead)

    def __call__(self, question: str) -> Prompt:
        """Return the question as the user's message."""
        rendered = self._render(question) + self._thought
        # A tokenizer adds special tokens that the template did not.
        first = self._processor.tokenizer.bos_token
        adds_special = not (first and rendered.startswith(first))
        return Prompt(rendered, rendered, adds_special, self._blank)

    def _render(self, question: str, answer: str | None = None) -> str:
        asked = [{"type": "image"}, {"type": "text", "text": question}]
        chat: list[Mapping[str, Any]] = [{"role": "user", "content": asked}]
        if answer is not None:
            chat.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
        rendered: str = self._processor.apply_chat_template(
            chat, add_generation_prompt=answer is None, tokenize=False
        )
        return rendered

    def _before_answer(self, text: str) -> str:
        """Return what the template writes between the generation prompt and an answer."""
        question = "Which?"
        prompt, whole = self._render(question), self._render(question, text)
        start = whole.find(text, len(prompt))
        if not whole.startswith(prompt) or start < 0:
            what = "writes an answer elsewhere than after its generation prompt"
            raise CannotDo(f"the chat template of {self._name} {what}")
        return whole[len(prompt) : start]
