"""Inputs of question generation: images with questions, regions, tokens and pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows, counted
from vlbench.probes.question_generation.bert_gen import BertGen, Example, Source

# Pixels by which a detector's boxes may extend beyond the image.
SLACK = 1.0

# Regions kept in memory, so that later epochs do not read them again.
MOST_BYTES = 1 << 30


def shown_names(split: Split, columns: Sequence[str]) -> list[frozenset[str]]:
    """Return the names of each image's things, from columns of the split, and their plurals."""
    rows = [[frozenset(map(forms, names)) for names in split[column]] for column in columns]
    return [
        frozenset(form for names in of_image for name in names for form in name)
        for of_image in zip(*rows, strict=True)
    ]


def forms(name: str) -> frozenset[str]:
    """Return a noun in lower case, and its possible regular plurals."""
    noun = name.lower()
    ending = {f"{noun[:-1]}ies"} if noun.endswith("y") else set()
    return frozenset({noun, f"{noun}s", f"{noun}es"} | ending)


def names_a_thing(question: str, names: frozenset[str]) -> bool:
    """Return whether one of the question's words is among the names.

    Questions about a thing and itself do not count: the same words occur twice between a `the` and
    a name ("is the hound to the left of the hound ?"). A question about a hound and a small hound,
    or a hound and a dog, may be about two things.
    """
    words = re.findall(r"\w+", question.lower())
    sides = list(_definite(words, names))
    return not names.isdisjoint(words) and len(sides) == len(set(sides))


def _definite(words: Sequence[str], names: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield the words of each `the ... name` without another `the` inside."""
    start: int | None = None
    for i, word in enumerate(words):
        if word == "the":
            start = i + 1
        elif word in names and start is not None:
            yield tuple(words[start : i + 1])
            start = None


class AskedImages(NamedTuple):
    """A split's images that have questions, and the captions and questions of each."""

    split: Split
    captions: list[list[str]]
    questions: list[list[str]]
    names: list[frozenset[str]]

    @property
    def ids(self) -> list[str]:
        """The names of the images."""
        return list(self.split["regions"].ids)


def select_asked(split: Split, things: Sequence[str]) -> AskedImages:
    """Return the images of a split that have a question.

    If `things` names columns, only questions that name a thing in their image count. Raises
    DataError for an image without a caption, and TooFewRows for fewer than two images with a
    question.
    """
    names = shown_names(split, things) or [frozenset()] * len(split)
    questions = [
        [text for text in texts if not things or names_a_thing(text, objects)]
        for texts, objects in zip(split["questions"], names, strict=True)
    ]
    rows = [row for row, texts in enumerate(questions) if texts]
    if len(rows) < 2:
        raise TooFewRows(f"{counted(len(rows), 'image')} with a question; two are needed")
    kept = split.select(rows)
    images = AskedImages(
        kept,
        [[text for text in texts if text.strip()] for texts in kept["captions"]],
        [questions[row] for row in rows],
        [names[row] for row in rows],
    )
    for name, captions in zip(images.ids, images.captions, strict=True):
        if not captions:
            raise DataError(f"image {name} has no caption, or an empty one")
    return images


def objects_of(regions: Regions | None, count: int | None) -> Tensor:
    """Return the vector of each region with its box as fractions, float32 [R, D + 4].

    Raises DataError for no regions, another number than `count`, no vectors, an invalid size or
    vector, and a box that is empty or extends beyond the image.
    """
    if regions is None or not len(regions.boxes):
        raise DataError("has no regions")
    boxes, vectors = regions.boxes.float(), regions.vectors
    if count is not None and len(boxes) != count:
        raise DataError(f"has {len(boxes)} regions, not {count}")
    if vectors is None or len(vectors) != len(boxes) or not vectors.isfinite().all():
        raise DataError("has regions without a vector of finite numbers")
    size = torch.tensor(regions.size, dtype=torch.float32)
    inside = (boxes >= -SLACK).all() and (boxes.view(-1, 2, 2) <= size + SLACK).all()
    if not (inside and (boxes[:, 2:] > boxes[:, :2]).all()):
        raise DataError(f"of {regions.size} has a box outside it, or an empty one")
    fractions = (boxes.view(-1, 2, 2) / size).clamp(0, 1).flatten(1)
    return torch.cat([vectors.float(), fractions], 1)


@dataclass(frozen=True)
class ObjectReader:
    """Reads the regions of images with `objects_of`; `wanted` is their number."""

    wanted: int | None

    def read(self, regions: Sequence[Any], names: Sequence[str]) -> list[Tensor]:
        """Return the objects of each image. Raises DataError, naming the image."""
        return [self._one(*pair) for pair in zip(regions, names, strict=True)]

    def count(self, regions: Sequence[Any], names: Sequence[str]) -> list[list[int]]:
        """Return the number of objects of each image, and their width."""
        return [list(objects.shape) for objects in self.read(regions, names)]

    def _one(self, regions: Regions | None, name: str) -> Tensor:
        try:
            return objects_of(regions, self.wanted)
        except DataError as error:
            raise DataError(f"image {name} {error}") from error


class Objects(Sequence[Tensor]):
    """The objects of each image of a column, read on access."""

    def __init__(self, regions: Column, names: Sequence[str], reader: ObjectReader) -> None:
        self._regions, self._names, self._reader = regions, names, reader
        self._kept: dict[int, Tensor] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._regions)

    def __getitem__(self, i: Any) -> Any:
        """Return the objects of image i."""
        if i in self._kept:
            return self._kept[i]
        (objects,) = self._reader.read([self._regions[i]], [self._names[i]])
        if self._bytes < MOST_BYTES:
            self._kept[i] = objects
            self._bytes += objects.nbytes
        return objects


class Texts(NamedTuple):
    """Converts texts to tokens; questions are cut to `most` tokens, including their end."""

    tokenizer: Any
    end: int
    most: int

    def captions(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of captions. Raises DataError for a caption without tokens."""
        tokens = self._tokens(texts)
        for text, numbers in zip(texts, tokens, strict=True):
            if not numbers:
                raise DataError(f"the caption {text!r} has no token")
        return tokens

    def questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of questions; a cut question has no end token."""
        return [[*numbers, self.end][: self.most] for numbers in self._tokens(texts)]

    def cut(self, texts: Sequence[str]) -> int:
        """Return the number of cut questions."""
        return sum(len(numbers) + 1 > self.most for numbers in self._tokens(texts))

    def question(self, tokens: Sequence[int]) -> str:
        """Return the text of a question."""
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return " ".join(text.split())

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        # Long captions are refused before the model reads them, so no warning is needed.
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        tokens: list[list[int]] = encoded.input_ids
        return tokens


class QuestionPair(NamedTuple):
    """An image, and the tokens of a caption and a question."""

    image: int
    caption: list[int]
    question: list[int]


def pairs_of(images: AskedImages, texts: Texts) -> list[QuestionPair]:
    """Return each question with a caption: question j with caption j modulo their number."""
    caption_tokens = texts.captions(
        [caption for captions in images.captions for caption in captions]
    )
    captions = _group(caption_tokens, images.captions)
    question_tokens = texts.questions(
        [question for questions in images.questions for question in questions]
    )
    questions = _group(question_tokens, images.questions)
    return [
        QuestionPair(image, of_captions[j % len(of_captions)], question)
        for image, (of_captions, of_image) in enumerate(zip(captions, questions, strict=True))
        for j, question in enumerate(of_image)
    ]


def _group(tokens: Sequence[list[int]], like: Sequence[Sequence[Any]]) -> list[list[list[int]]]:
    rest: Iterator[list[int]] = iter(tokens)
    return [[next(rest) for _ in group] for group in like]


@dataclass(frozen=True)
class StepExamples(Sequence[Example]):
    """Training examples of a step: pairs with their image, their caption, or both."""

    pairs: Sequence[QuestionPair]
    objects: Sequence[Tensor] | None
    captioned: bool

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self.pairs)

    def __getitem__(self, i: Any) -> Any:
        """Return pair i."""
        image, caption, question = self.pairs[i]
        objects = None if self.objects is None else self.objects[image]
        return Example(Source(objects, caption if self.captioned else None), question)


def object_sizes(images: AskedImages, reader: ObjectReader, engine: Engine) -> list[list[int]]:
    """Return the number and width of the objects of each image, after checks.

    Raises DataError, naming the image, for regions that `objects_of` refuses, or of different
    widths.
    """
    ids = images.ids
    key = {"what": "objects of BERT-gen", "wanted": reader.wanted}
    sizes = engine.map(reader.count, images.split["regions"], value_column(ids, "text"), key=key)
    for name, (_, width) in zip(ids, sizes, strict=True):
        if width != sizes[0][1]:
            raise DataError(f"image {name} has vectors of another width than image {ids[0]}")
    return sizes


def require_room(
    network: BertGen, sizes: Sequence[int], captions: Sequence[list[int]], most: int
) -> None:
    """Raise CannotDo if the longest X and a question exceed the model's positions.

    `sizes` has the number of objects of each caption's image.
    """
    longest = max(2 + n + len(caption) for n, caption in zip(sizes, captions, strict=True))
    if longest + most > network.limit:
        raise CannotDo(
            f"an image and its caption have {longest} tokens, and a question {most}; the model "
            f"has {network.limit} positions: lower max_question, or use a longer model"
        )
