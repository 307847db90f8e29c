"""Names of columns, classes, labels and words, compared in one normal form.

Captions and questions are not names: they stay as given.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vlbench.errors import DataError, counted

# Unicode categories that are refused: control characters, and surrogates.
REFUSED = {"Cc", "Cs"}


class NumberedClasses(NamedTuple):
    """The names of classes, and the number of the class of each name that was given."""

    names: list[str]
    numbers: list[int]


def composed(text: str) -> str:
    """Return a text with each accented letter as one character (NFC)."""
    return unicodedata.normalize("NFC", text)


def normal_form(name: str) -> str:
    """Return a name in its form for comparison: composed, without blanks at its ends."""
    return unicodedata.normalize("NFC", name).strip()


def label_names(labels: Sequence[Any]) -> list[str]:
    """Return labels, texts or numbers, as names. Raises DataError for any other label.

    Example:
        >>> label_names(["cat", 7])
        ['cat', '7']
    """
    for row, label in enumerate(labels):
        if not isinstance(label, str | int | float) or label != label:  # noqa: PLR0124 - NaN
            raise DataError(f"label {row} is {label!r:.40}; a label is a text or a number")
    # Labels repeat: each is read once.
    names = {text: plain_name(text, "the label") for text in dict.fromkeys(map(str, labels))}
    return [names[str(label)] for label in labels]


def one_spelling(texts: Iterable[str]) -> list[str]:
    """Return texts, each as the first text that equals it but for outer blanks and Unicode form.

    Example:
        >>> one_spelling(["a cat ", "a cat", "A cat"])
        ['a cat ', 'a cat ', 'A cat']
    """
    first: dict[str, str] = {}
    return [first.setdefault(normal_form(text), text) for text in texts]


def case_notes(what: str, texts: Iterable[str]) -> list[str]:
    """Return a note on texts that differ from another only in case; none if there are none."""
    forms = dict.fromkeys(map(normal_form, texts))
    if len({form.casefold() for form in forms}) == len(forms):
        return []
    spellings: dict[str, list[str]] = {}
    for form in forms:
        spellings.setdefault(form.casefold(), []).append(form)
    alike = [sorted(same) for same in spellings.values() if len(same) > 1]
    count = counted(sum(map(len, alike)), "text")
    example = " and ".join(f"{text!r:.60}" for text in alike[0][:2])
    return [f"{what}: {count} differ only in case from another, such as {example}"]


def spoken_names(classes: Sequence[str]) -> list[str]:
    """Return names of classes for use in sentences: `number_zero` becomes "number zero"."""
    return [" ".join(name.replace("_", " ").split()) if "_" in name else name for name in classes]


def plain_name(name: str, what: str) -> str:
    r"""Return the normal form of a name. Raises DataError, naming `what`, for a control character.

    Example:
        >>> plain_name("cafe\u0301 ", "the class")
        'café'
    """
    form = normal_form(name)
    if not form.isprintable() and REFUSED.intersection(map(unicodedata.category, form)):
        raise DataError(f"{what} {form!r:.80} contains a control character; remove it")
    return form


def named_twice(name: object) -> DataError:
    """Return the error for two classes of one name."""
    return DataError(
        f"two classes are named {name!r}, except for spaces around it; rename one class"
    )


def number_classes(names: Iterable[str], what: str = "the class") -> NumberedClasses:
    """Return the classes of names, in order of first occurrence: two spellings are one class.

    A name that occurs twice in one spelling is two classes, as in ImageNet's list. Raises
    DataError for names that differ in blanks at their ends, and for control characters.
    """
    counts, before = Counter[str](), dict[tuple[str, int], tuple[int, str]]()
    numbers = []
    for name in names:
        form = plain_name(name, what)
        number, first = before.setdefault((form, counts[name]), (len(before), composed(name)))
        if first != composed(name):
            raise named_twice(form)
        counts[name] += 1
        numbers.append(number)
    return NumberedClasses([form for form, _ in before], numbers)
