"""Prompts of generative models: a text about one image, in the model's own chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from PIL.Image import Image

from vlbench.adapter_kit.text import Spans, token_span
from vlbench.errors import CannotDo, DataError, SpecError

# Inputs of a model that have one entry per token of the prompt.
PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


class Tail(NamedTuple):
    """The ids of a prompt after its image, and for each id the characters of the text, or None."""

    ids: list[int]
    spans: Spans


class Answer(NamedTuple):
    """The ids that an answer adds to a prompt, after the last `replaced` ids of the prompt."""

    text: str
    replaced: int
    ids: list[int]


class Chat:
    """A processor with a chat template, and a question with {} for a text.

    A user shows an image and asks the question; the assistant answers. Raises CannotDo for a
    processor without a chat template or whose tokens have no spans, and SpecError for a question
    without {}. Whatever the template writes before an answer, such as an empty thought, is part of
    every prompt; a mere blank is part of the answer.
    """

    def __init__(self, processor: Any, name: str, question: str) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.name = name
        if question.count("{}") != 1:
            raise SpecError(f"question '{question}' needs {{}} once, in the place of the text")
        self._before, self._after = question.split("{}")
        if not processor.chat_template:
            what = "has no chat template, so its prompts are unknown"
            raise CannotDo(f"{name} {what}; put one into its folder as chat_template.jinja")
        if not self.tokenizer.is_fast:
            raise CannotDo(f"{name} has no fast tokenizer, so its tokens have no spans")
        if not getattr(processor, "image_token", None):
            raise CannotDo(f"{name} has no placeholder for an image, so the text cannot be found")
        self._placeholder: int = self.tokenizer.convert_tokens_to_ids(processor.image_token)
        added = self.tokenizer.added_tokens_decoder.items()
        # An unknown word is no special token that someone wrote.
        unknown = self.tokenizer.unk_token_id
        self._special = {i for i, token in added if token.special and i != unknown}
        lead = self._before_answer("Yes")
        self._thought, self._blank = (lead, "") if lead.strip() else ("", lead)

    def answer(self, text: str) -> Answer:
        """Return what an answer, with the blank before it, adds to a prompt."""
        prompt = self.prompt("")
        ids, answered = (self._encode(p).input_ids for p in (prompt, prompt + self._blank + text))
        same = common_run([ids, answered])
        return Answer(text, len(ids) - same, answered[same:])

    def prompt(self, text: str) -> str:
        """Return the question about a text, ready for an answer, with the image's placeholder."""
        return self._render(text) + self._thought

    def read(self, image: Image, text: str) -> tuple[dict[str, Any], int]:
        """Return the inputs of the model for one pair, on the CPU, and the length of the tail.

        Raises DataError for an image that the processor refuses, and as `tail` does.
        """
        prompt, tail = self.prompt(text), self.tail(text).ids
        options = {"add_special_tokens": self._adds_special(prompt), "return_tensors": "pt"}
        try:
            inputs = dict(self.processor(images=[image], text=[prompt], **options))
        except (ValueError, TypeError, ZeroDivisionError, RuntimeError) as error:
            size = "{} x {}".format(*image.size)
            raise DataError(f"{self.name} refuses an image of {size} pixels: {error}") from error
        if inputs["input_ids"][0, -len(tail) :].tolist() != tail:
            raise CannotDo(f"the processor of {self.name} rewrites the text after the image")
        return inputs, len(tail)

    def tail(self, text: str) -> Tail:
        """Return the part of a prompt after its image.

        Raises DataError for a text with a special token, and CannotDo where the text does not come
        after the image as it is.
        """
        prompt = self.prompt(text)
        start = prompt.rfind(f"{self._before}{text}{self._after}") + len(self._before)
        if start < len(self._before):
            raise CannotDo(f"the chat template of {self.name} changes the text: {text[:40]!r}")
        tokens = self._encode(prompt, return_offsets_mapping=True)
        spans = [_inside(prompt, offsets, start, len(text)) for offsets in tokens["offset_mapping"]]
        ids = tokens.input_ids
        special = [i for i, span in zip(ids, spans, strict=True) if span and i in self._special]
        if special:
            token = self.tokenizer.convert_ids_to_tokens(special[0])
            raise DataError(f"text {text[:40]!r} has {token}, a special token of {self.name}")
        if self._placeholder not in ids:
            raise CannotDo(f"the chat template of {self.name} leaves out the image")
        after = len(ids) - ids[::-1].index(self._placeholder)
        if any(spans[:after]):
            raise CannotDo(f"the chat template of {self.name} puts the text before the image")
        return Tail(ids[after:], spans[after:])

    def cut(self, text: str, limit: int) -> str:
        """Return the text up to the end of its token number `limit`."""
        options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        ends = self.tokenizer(text, **options)["offset_mapping"]
        return text if len(ends) <= limit else text[: ends[limit - 1][1]]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has by itself, without special ones."""
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in found.input_ids]

    def _render(self, text: str, answer: str | None = None) -> str:
        question = {"type": "text", "text": f"{self._before}{text}{self._after}"}
        chat: list[Mapping[str, Any]] = [{"role": "user", "content": [{"type": "image"}, question]}]
        if answer is not None:
            chat.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
        rendered: str = self.processor.apply_chat_template(
            chat, add_generation_prompt=answer is None, tokenize=False
        )
        return rendered

    def _before_answer(self, text: str) -> str:
        """Return what the template writes between the generation prompt and an answer.

        Raises CannotDo where an answer does not follow the generation prompt.
        """
        prompt, whole = self._render(""), self._render("", text)
        start = whole.find(text, len(prompt))
        if not whole.startswith(prompt) or start < 0:
            what = "writes an answer elsewhere than after its generation prompt"
            raise CannotDo(f"the chat template of {self.name} {what}")
        return whole[len(prompt) : start]

    def _adds_special(self, prompt: str) -> bool:
        """Return whether the tokenizer should add special tokens that the template did not."""
        first = self.tokenizer.bos_token
        return not (first and prompt.startswith(first))

    def _encode(self, prompt: str, **options: Any) -> Any:
        special = self._adds_special(prompt)
        return self.tokenizer(prompt, add_special_tokens=special, verbose=False, **options)


def common_run(rows: Sequence[Sequence[int]]) -> int:
    """Return how many ids all rows begin with in common."""
    shortest = min(map(len, rows))
    apart = (i for i in range(shortest) if len({row[i] for row in rows}) > 1)
    return next(apart, shortest)


def _inside(
    prompt: str, offsets: tuple[int, int], start: int, length: int
) -> tuple[int, int] | None:
    """Return which characters of the text a token has, counted in the text; None for none."""
    first, last = max(offsets[0], start), min(offsets[1], start + length)
    span = token_span(prompt, first, last)
    return (span[0] - start, span[1] - start) if span else None
