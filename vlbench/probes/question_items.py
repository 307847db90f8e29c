"""Items of a split whose answers are among given options or captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vlbench.data.records import Split, examples_of_items
from vlbench.engine.asking import Question
from vlbench.errors import DataError
from vlbench.metrics.items import Examples
from vlbench.metrics.replies import place_of

# The options of questions without options.
YES_NO = ("yes", "no")


class QuestionItems(NamedTuple):
    """Questions with options, the numbers of right options, and examples."""

    asked: Sequence[Question]
    right: Sequence[Sequence[int]]
    examples: Examples


def read_questions(rows: Split) -> QuestionItems:
    """Return the questions of rows. Raises DataError, with the row, if a row has no question."""
    texts, answers = [*rows["question"]], [*rows["right_answers"]]
    listed = "options" in rows.columns
    options = [*rows["options"]] if listed else [YES_NO] * len(rows)
    asked = [Question(text, own) for text, own in zip(texts, options, strict=True)]
    right = []
    for row, (own, given) in enumerate(zip(options, answers, strict=True), 1):
        try:
            right.append(sorted({place_of(own, one) for one in given}))
        except ValueError as error:
            raise DataError(f"row {row}: {error}") from None
        if len({*own}) < len(own) or len(right[-1]) == len(own):
            what = "two options are the same" if len({*own}) < len(own) else "every option is right"
            raise DataError(f"row {row} is not a question: {what}, {', '.join(own):.80}")
    content = [[text, [*own]] for text, own in zip(texts, options, strict=True)]
    return QuestionItems(asked, right, examples_of_items(rows, "question", content))


def refuse_equal(texts: Sequence[Sequence[str]]) -> None:
    """Raise DataError, with the row, if a wrong text is the caption, which is the first text."""
    for row, own in enumerate(texts):
        if own[0] in own[1:]:
            raise DataError(f"row {row + 1}: a wrong text is the caption itself, {own[0]!r:.80}")
