"""From rows to candidates: questions with options, and captions with foils."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vlbench.data.names import case_notes, normal_form, one_spelling
from vlbench.data.records import Split, examples_of_items
from vlbench.errors import DataError
from vlbench.metrics.items import Examples, Items, options_among
from vlbench.metrics.parsing import LETTERS
from vlbench.metrics.ranking import Choice
from vlbench.metrics.replies import place_of

# The options of questions without options.
YES_NO = ("yes", "no")


# Matches the letter that an option carries: "A. cat", "(A) cat", "A) cat".
CARRIED = re.compile(r"\s*[(\[]?([A-J])[)\].:]\s+(?=\S)")
STRIPPED = "the options of {} of {} rows carried their letters, which are left out"


class Question(NamedTuple):
    """A question about one image, and the texts of its options."""

    text: str
    options: Sequence[str]


class QuestionItems(NamedTuple):
    """Questions with options, the numbers of right options, examples, and notes on the options."""

    asked: Sequence[Question]
    right: Sequence[Sequence[int]]
    examples: Examples
    notes: Sequence[str] = ()


def read_questions(rows: Split) -> QuestionItems:
    """Return the questions of rows. Raises DataError, with the row, if a row has no question."""
    texts, answers = [*rows["question"]], [*rows["right_answers"]]
    listed = "options" in rows.columns
    options = [*rows["options"]] if listed else [YES_NO] * len(rows)
    right, bare, questions = [], 0, list[Question]()
    for row, (choices, correct) in enumerate(zip(options, answers, strict=True), 1):
        try:
            right.append(sorted({place_of(choices, answer) for answer in correct}))
            plain = bare_options(choices)
        except ValueError as error:
            raise DataError(f"row {row}: {error}") from None
        is_twice = len({*map(normal_form, plain)}) < len(choices)
        if is_twice or len(right[-1]) == len(choices):
            what = "two options are the same" if is_twice else "every option is right"
            raise DataError(f"row {row} is not a question: {what}, {', '.join(choices):.80}")
        bare += [*plain] != [*choices]
        questions.append(Question(texts[row - 1], plain))
    content = [[question.text, [*question.options]] for question in questions]
    notes = [STRIPPED.format(bare, len(rows))] if bare else []
    notes += first_case_notes("options", [question.options for question in questions])
    return QuestionItems(questions, right, examples_of_items(rows, "question", content), notes)


def bare_options(options: Sequence[str]) -> Sequence[str]:
    """Return options without the letters that all of them carry, in order.

    Raises ValueError if only some carry their letter, or carry letters in another order.

    Example:
        >>> bare_options(["A. cat", "B. dog"]), bare_options(["cat", "C. elegans"])
        (['cat', 'dog'], ['cat', 'C. elegans'])
    """
    matches = [CARRIED.match(option) for option in options]
    in_order = [
        bool(match and match[1] == letter) for match, letter in zip(matches, LETTERS, strict=False)
    ]
    if in_order and all(in_order):
        return [
            option[match.end() :] for option, match in zip(options, matches, strict=True) if match
        ]
    if any(in_order) or all(matches):
        raise ValueError(f"some options carry letters, but not all in order: {options!s:.80}")
    return options


def read_captions(rows: Split) -> QuestionItems:
    """Return `ask_for_captions` with examples."""
    items = ask_for_captions(rows)
    content = [item.options for item in items]
    return QuestionItems(items, [[0]] * len(items), examples_of_items(rows, "caption", content))


def ask_for_captions(rows: Split, question: str = "") -> list[Question]:
    """Return the choice among the caption, which is the first option, and the foils of each row.

    Foils that are equal but for outer blanks and their Unicode form are one option. Raises
    DataError for rows without captions and foils, and for a foil that is the caption.
    """
    if not {"caption", "foils"} <= {*rows.columns}:
        have = ", ".join(sorted(rows.columns))
        raise DataError(f"the rows have no `caption` with `foils` and no `question`, but {have}")
    texts = [[text, *wrong] for text, wrong in zip(rows["caption"], rows["foils"], strict=True)]
    refuse_equal(texts)
    return [Question(question, distinct(group)) for group in texts]


def distinct(texts: Sequence[str]) -> list[str]:
    """Return texts without those that equal an earlier one but for blanks and Unicode form.

    Example:
        >>> distinct(["a dog", "a cat ", "a cat", "A cat"])
        ['a dog', 'a cat ', 'A cat']
    """
    return [*dict.fromkeys(one_spelling(texts))]


def items_of(metric: str, choice: Choice, questions: QuestionItems) -> Items:
    """Return the choices for questions as items; chance is the fraction of options that are right.

    The target of an item is the first of its right options.
    """
    options = [question.options for question in questions.asked]
    first = [right[0] for right in questions.right]
    chance = [len(r) / len(of_item) for r, of_item in zip(questions.right, options, strict=True)]
    chosen, named = options_among(options, choice, first, chance)
    return Items(metric, chosen, questions.examples, named)


def first_case_notes(what: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the first note on texts of a row that differ only in case, and in how many rows."""
    notes = [note for texts in rows for note in case_notes(what, texts)]
    return [f"{notes[0]} (in {len(notes):,} of {len(rows):,} rows)"] if notes else []


def refuse_equal(texts: Sequence[Sequence[str]]) -> None:
    """Raise DataError, with the row, if a wrong text is the caption, which is the first text."""
    for row, group in enumerate(texts):
        if normal_form(group[0]) in map(normal_form, group[1:]):
            raise DataError(f"row {row + 1}: a wrong text is the caption itself, {group[0]!r:.80}")
