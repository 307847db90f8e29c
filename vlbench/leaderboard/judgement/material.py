"""Material for human judgement: images with a caption and the questions of each system."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vlbench.errors import TooFewRows, UnknownNameError, counted, unknown
from vlbench.leaderboard.artifacts import read_table
from vlbench.results import Result

# The artifact with the questions of a row, and the columns of it that are read.
QUESTIONS = "questions"
COLUMNS = ("id", "digest", "step", "floor", "seed", "caption", "question", "references")

# The name of the system whose questions are human references.
HUMAN = "human"


class Shown(NamedTuple):
    """An image by its id and digest, its caption, and one question per system."""

    id: str
    digest: str
    caption: str
    questions: dict[str, str]


def read_shown(
    output: Path, row: Result, steps: Sequence[str], *, images: int, seed: int
) -> list[Shown]:
    """Return a random sample of images, each with one question per step and a human one.

    With several training seeds, the questions are those of the first seed. The human question is
    a random one of the image's references. Raises UnknownNameError for a step without questions,
    TooFewRows for too few images, and DataError as `read_table` does.
    """
    if len(set(steps)) != len(steps) or HUMAN in steps or not steps:
        raise UnknownNameError(f"--steps takes different steps, and not '{HUMAN}': {steps}")
    asked = _by_step(read_table(output, row, QUESTIONS, COLUMNS))
    for step in steps:
        if step not in asked:
            raise unknown("step", step, asked)
    common = [name for name in asked[steps[0]] if all(name in asked[step] for step in steps)]
    if len(common) < images or images < 2:
        there = f"{row.model} on {row.task} has questions about {counted(len(common), 'image')}"
        raise TooFewRows(f"{there}, {images} asked for; pass --images N, at least 2")
    rng = np.random.default_rng(seed)
    drawn = sorted(rng.permutation(len(common))[:images].tolist())
    return [_shown([asked[step][common[i]] for step in steps], steps, rng) for i in drawn]


def _by_step(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the rows of each step's first seed by image, without the rows of floors."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seed"] or 0):
        if row["step"] is not None and row["floor"] is None:
            found.setdefault(row["step"], {}).setdefault(row["id"], row)
    return found


def _shown(
    rows: Sequence[Mapping[str, Any]], steps: Sequence[str], rng: np.random.Generator
) -> Shown:
    first = rows[0]
    human = first["references"][int(rng.integers(len(first["references"])))]
    said = dict(zip(steps, (row["question"] for row in rows), strict=True)) | {HUMAN: human}
    questions = {system: alike(text) for system, text in said.items()}
    return Shown(first["id"], first["digest"], first["caption"], questions)


def alike(text: str) -> str:
    """Return a question in lower case without spaces before punctuation.

    Case and spacing would reveal which questions are human and which come from a tokenizer.
    """
    joined = re.sub(r"\s+([?!.,;:%)])", r"\1", " ".join(text.lower().split()))
    return re.sub(r"(\w)\s*(['\u2019-])\s*(\w)", r"\1\2\3", joined)
