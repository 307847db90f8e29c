"""Text files, and the numbers that texts spell; what cannot be read is a DataError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vlbench import files
from vlbench.errors import DataError

# No list of a data set counts further, and int32 holds it.
MOST_DIGITS = 9


def read_text(path: Path, name: str = "") -> str:
    """Return the text of a file in UTF-8. Raises DataError with `name`, by default the file's."""
    named = name or path.name
    try:
        return files.read_text(path, files.MOST_TEXT)
    except OSError as error:
        raise DataError(f"{named} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{named} is no UTF-8: byte {error.start}") from error


def sound_text(value: Any) -> str:
    """Return a text that UTF-8 can hold. Raises TypeError or ValueError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    value.encode("utf-8")
    return value


def is_number(text: str) -> bool:
    """Return whether a text is a whole number of at most nine digits."""
    return text.isdecimal() and len(text) <= MOST_DIGITS


def first_repeated(values: Iterable[object]) -> object | None:
    """Return the first value that occurs twice; None where all differ."""
    return next((value for value, count in Counter(values).items() if count > 1), None)
