"""Prompts of generative models as ids: a question about one image that contains a text."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from PIL.Image import Image

from vlbench.adapter_kit.text import Spans, token_span
from vlbench.adapter_kit.vlm import template_child
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

# Model inputs that have one entry per token of the prompt.
PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")

# Options of image processors that split a picture into tiles.
TILING = ("do_image_splitting", "crop_to_patches")

# The placeholder for the question while the template is rendered. It would reveal a template that
# changes case, blanks or quotes.
QUESTION = '"vLBench\'s  QUESTIon" <1 & 2>'
ANSWER = "Yes"


class TooLongError(DataError):
    """A prompt that has more tokens than may be read."""


class Prompt(NamedTuple):
    """A question about an image, ready for an answer.

    The tokenizer reads `read`, with a placeholder for the image, and adds special tokens if
    `adds_special`; the processor makes `read` from `given`. An answer begins with `blank`, or is
    tokenised apart from the prompt if `blank` is None; `after` follows it.
    """

    read: str
    given: str
    adds_special: bool
    blank: str | None
    after: str = ""


class Tail(NamedTuple):
    """The ids of a prompt after its image, and for each id the characters of the text, or None."""

    ids: list[int]
    spans: Spans


class AnswerIds(NamedTuple):
    """The ids that an answer adds to a prompt; they replace the prompt's last `replaced` ids."""

    text: str
    replaced: int
    ids: list[int]


class Prompts:
    """A processor, a question with {} for a text, and the format of the prompt.

    Raises CannotDo for a processor that does not fit the format or whose tokens have no spans, and
    SpecError unless the question contains {} once.
    """

    def __init__(
        self,
        processor: Any,
        name: str,
        question: str,
        form: Callable[[Any, str], Callable[[str], Prompt]],
    ) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.name = name
        if question.count("{}") != 1:
            raise SpecError(f"question '{question}' needs {{}} once, where the text goes")
        self._before, self._after = question.split("{}")
        self._form = form(processor, name)
        if not self.tokenizer.is_fast:
            raise CannotDo(f"{name} has no fast tokenizer, so its tokens have no spans")
        if not getattr(processor, "image_token", None):
            raise CannotDo(f"{name} has no placeholder for an image, so the text cannot be found")
        self._placeholder: int = self.tokenizer.convert_tokens_to_ids(processor.image_token)
        added = self.tokenizer.added_tokens_decoder.items()
        # The unknown token is not a special token that a text may contain.
        unknown = self.tokenizer.unk_token_id
        self._special = {i for i, token in added if token.special and i != unknown}

    def prompt(self, text: str) -> Prompt:
        """Return the question about a text."""
        return self._form(f"{self._before}{text}{self._after}")

    def answer(self, text: str, *, ends: bool = False) -> AnswerIds:
        """Return the ids that an answer, with the blank before it, adds to a prompt.

        If `ends`, they include the end of the turn. Raises DataError for an answer that has no
        tokens, or a special token.
        """
        self._refuse_special(text)
        prompt, end = self.prompt(""), self._end if ends else []
        if prompt.blank is None:
            replaced, ids = 0, self.tokenizer(text, add_special_tokens=False).input_ids
        else:
            answered = prompt._replace(read=f"{prompt.read}{prompt.blank}{text}")
            rows = [self._encode(one).input_ids for one in (prompt, answered)]
            same = common_run(rows)
            replaced, ids = len(rows[0]) - same, rows[1][same:]
        if not [*ids, *end]:
            raise DataError(f"the answer '{text}' has no token of {self.name}")
        return AnswerIds(text, replaced, [*ids, *end])

    @cached_property
    def _end(self) -> list[int]:
        """The ids that end an answer: up to the first special token after it, else the text's end.

        Raises CannotDo for a tokenizer that has no end token.
        """
        after = self.tokenizer(self.prompt("").after, add_special_tokens=False).input_ids
        special = [i for i, number in enumerate(after) if number in self._special]
        if special:
            return list(after[: special[0] + 1])
        if self.tokenizer.eos_token_id is None:
            raise CannotDo(f"{self.name} has no token for the end of an answer")
        return [self.tokenizer.eos_token_id]

    def ids(self, text: str) -> list[int]:
        """Return the ids of a whole prompt without image."""
        self._refuse_special(text)
        return list(self._encode(self.prompt(text)).input_ids)

    def read(self, image: Image, text: str, *, tiles: bool = True) -> tuple[dict[str, Any], int]:
        """Return the inputs of the model for one pair, on the CPU, and the length of the tail.

        With `tiles` False, no tiles are made if the processor allows it. Raises DataError for an
        image that the processor refuses, and as `tail` does.
        """
        prompt, tail = self.prompt(text), self.tail(text).ids
        options = {"add_special_tokens": prompt.adds_special, "return_tensors": "pt"}
        if not tiles:
            images = self.processor.image_processor
            options |= {name: False for name in TILING if hasattr(images, name)}
        try:
            # PaliGemma's processor reads a tensor in a way that NumPy deprecates.
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                inputs = dict(self.processor(images=[image], text=[prompt.given], **options))
        except (ValueError, TypeError, ZeroDivisionError, RuntimeError) as error:
            size = "{} x {}".format(*image.size)
            raise DataError(f"{self.name} rejects an image of {size} pixels: {error}") from error
        # Some processors add the targets of a loss.
        inputs.pop("labels", None)
        if inputs["input_ids"][0, -len(tail) :].tolist() != tail:
            raise CannotDo(f"the processor of {self.name} rewrites the text after the image")
        return inputs, len(tail)

    def tail(self, text: str) -> Tail:
        """Return the part of a prompt after its image.

        Raises DataError for a text with a special token, and CannotDo if the text does not follow
        the image unchanged.
        """
        prompt = self.prompt(text)
        start = prompt.read.rfind(f"{self._before}{text}{self._after}") + len(self._before)
        if start < len(self._before):
            raise CannotDo(f"the prompt of {self.name} changes the text: {text[:40]!r}")
        tokens = self._encode(prompt, return_offsets_mapping=True)
        spans = [
            _inside(prompt.read, offsets, start, len(text)) for offsets in tokens["offset_mapping"]
        ]
        ids = tokens.input_ids
        self._refuse_special(text)
        if self._placeholder not in ids:
            raise CannotDo(f"the prompt of {self.name} leaves out the image")
        after = len(ids) - ids[::-1].index(self._placeholder)
        if any(spans[:after]):
            raise CannotDo(f"the prompt of {self.name} puts the text before the image")
        return Tail(ids[after:], spans[after:])

    def _refuse_special(self, text: str) -> None:
        for number in self.tokenizer(text, add_special_tokens=False, verbose=False).input_ids:
            if number in self._special:
                token = self.tokenizer.convert_ids_to_tokens(number)
                raise DataError(
                    f"text {text[:40]!r} contains {token}, a special token of {self.name}"
                )

    def cut(self, text: str, limit: int) -> str:
        """Return the text up to the end of its token number `limit`."""
        options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        ends = self.tokenizer(text, **options)["offset_mapping"]
        return text if len(ends) <= limit else text[: ends[limit - 1][1]]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text alone, without special tokens."""
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in encoded.input_ids]

    def _encode(self, prompt: Prompt, **options: Any) -> Any:
        special = prompt.adds_special
        return self.tokenizer(prompt.read, add_special_tokens=special, verbose=False, **options)


def common_run(rows: Sequence[Sequence[int]]) -> int:
    """Return the length of the longest common beginning of all rows."""
    shortest = min(map(len, rows))
    apart = (i for i in range(shortest) if len({row[i] for row in rows}) > 1)
    return next(apart, shortest)


def _inside(
    prompt: str, offsets: tuple[int, int], start: int, length: int
) -> tuple[int, int] | None:
    """Return the characters of the text that a token covers, or None if it covers none."""
    first, last = max(offsets[0], start), min(offsets[1], start + length)
    span = token_span(prompt, first, last)
    return (span[0] - start, span[1] - start) if span else None


class ChatTemplate:
    """The chat template of a processor: a user shows an image and asks, the assistant answers.

    Text that the template writes before an answer, such as an empty thought, is part of every
    prompt; a mere blank is part of the answer. The template is untrusted, so another process
    renders it, once, and questions are filled in. With `image` False the user shows no image.
    Raises CannotDo if the processor has no template, or if the template changes a question or does
    not put an answer after its generation prompt; WeightsError for a template that cannot be
    rendered within the limits.
    """

    def __init__(self, processor: Any, name: str, *, image: bool = True) -> None:
        template = processor.chat_template
        if isinstance(template, Mapping):
            template = template.get("default")
        if not template:
            what = "has no chat template, so its prompts are unknown"
            raise CannotDo(f"{name} {what}; add a chat_template.jinja to its folder")
        chats = [_chat(image=image), _chat(ANSWER, image=image)]
        variables = {**processor.tokenizer.special_tokens_map, "tools": None, "documents": None}
        request = {"template": template, "variables": variables, "chats": chats}
        rendered = _render(json.dumps(request, default=str))
        if isinstance(rendered, str):
            raise WeightsError(f"the chat template of {name} {rendered}")
        prompt, whole = rendered
        if QUESTION not in prompt:
            raise CannotDo(f"the prompt of {name} changes the text: {QUESTION!r}")
        start = whole.find(ANSWER, len(prompt))
        if not whole.startswith(prompt) or start < 0:
            what = "does not put an answer after its generation prompt"
            raise CannotDo(f"the chat template of {name} {what}")
        lead = whole[len(prompt) : start]
        self._thought, self._blank = (lead, "") if lead.strip() else ("", lead)
        self._after = whole[start + len(ANSWER) :]
        self._rendered = prompt + self._thought
        # The tokenizer adds special tokens unless the template did.
        first = processor.tokenizer.bos_token
        self._adds_special = not (first and prompt.startswith(first))

    def __call__(self, question: str) -> Prompt:
        """Return the question as the user's message."""
        prompt = self._rendered.replace(QUESTION, question)
        return Prompt(prompt, prompt, self._adds_special, self._blank, self._after)


def _chat(answer: str | None = None, *, image: bool) -> dict[str, Any]:
    """Return the variables of a template: a chat of the question, with or without an answer."""
    content = [*[{"type": "image"}] * image, {"type": "text", "text": QUESTION}]
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": content}]
    if answer is not None:
        messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return {"messages": messages, "add_generation_prompt": answer is None}


@cache
def _render(request: str) -> list[str] | str:
    """Return the texts that `template_child` renders, or the reason why it cannot."""
    # -P: files beside this module must not shadow other modules.
    command = [sys.executable, "-P", str(Path(template_child.__file__))]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if done.returncode == -signal.SIGXCPU:
        return f"takes more than {template_child.SECONDS} s"
    if done.returncode:
        end = done.stderr.strip().rpartition("\n")[2]
        return f"ended the rendering process with {done.returncode}: {end:.200}"
    answer: list[str] | dict[str, str] = json.loads(done.stdout)
    return answer["error"] if isinstance(answer, dict) else answer
