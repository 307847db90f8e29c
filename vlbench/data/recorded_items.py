"""The items that a log of answers contains: question, options and right answer.

Such a log is data and recording at once; a log brings its own answer key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlbench.data.coco_files import is_number
from vlbench.data.images import named_images
from vlbench.data.presence import begin_reading
from vlbench.data.recording_files import (
    NEEDED,
    Record,
    columns_of,
    name_order,
    names_of_items,
    read_records,
)
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError
from vlbench.metrics.replies import place_of

OWN_KEY = "data: the log brings its own answer key"
NO_IMAGES = "data: the log names no images, so that each item counts as independent"
GIVE = "--model recorded:LOG"


def recorded_items(*, recording: Mapping[str, Any] | None = None) -> Data:
    """Return the items of a log, in the order of their names; images are not needed.

    Columns: `image` (by the item's name), `question`, `options`, `right_answers`, and `category`
    and `cluster` (the name of the image) if the log has them. Raises DataAbsent and DataError.

    Args:
        recording: the recording's arguments, from the run; None: no recording.
    """
    if recording is None:
        raise DataAbsent("a log of answers with its items", "your evaluation", GIVE)
    begin_reading()
    path, replaced, notes = Path(recording["path"]), Counter[str](), list[str]()
    records = [*read_records(path, columns_of(recording), replaced, notes)]
    if not records:
        raise DataError(f"{path.name} contains no answer")
    names = names_of_items(records)
    _refuse_twice(names, records)
    by_name = dict(zip(names, records, strict=True))
    names = sorted(by_name, key=name_order)
    says = [by_name[name].says for name in names]
    right = [_right_option(by_name[name], name) for name in names]
    absent = DataAbsent("the images of a log", "the benchmark's own source", "no place: unused")
    columns = {
        "image": named_images("items of a log", names, None, absent),
        "question": value_column([item.question for item in says], "text"),
        "options": value_column([list(item.options) for item in says]),
        "right_answers": value_column([[option] for option in right]),
    }
    if any(item.category for item in says):
        columns["category"] = value_column([item.category or "without category" for item in says])
    if all(item.image for item in says):
        columns["cluster"] = value_column([item.image for item in says])
    else:
        notes.append(NO_IMAGES)
    return Data(splits={"test": Split(columns)}, notes=[OWN_KEY, *notes])


def _refuse_twice(names: Sequence[str], records: Sequence[Record]) -> None:
    """Raise DataError, with both places, for two items of one name, and for names of some items."""
    first, numbers = dict[str, str](), Counter[str]()
    some_named = any(record.says.name for record in records)
    for name, record in zip(names, records, strict=True):
        numbers[record.file] += 1
        place = f"{record.file}, answer {numbers[record.file]}"
        if some_named and not record.says.name:
            raise DataError(f"{place}: the item has no name, but others have one")
        if (other := first.setdefault(name, place)) != place:
            raise DataError(f"the item {name!r:.60} occurs twice: {other}, and {place}")


def _right_option(record: Record, name: str) -> str:
    """Return the right option of a record's item: given as its text, letter, or index from 0."""
    says, where = record.says, f"{record.file}, item {name:.60}"
    needed = {"question": says.question, "options": says.options, "right answer": says.target}
    if lacking := [what for what, text in needed.items() if not text]:
        raise DataError(f"{where}: {lacking[0]} not found; a log of items has {NEEDED}")
    options, stated = says.options, says.target.strip()
    # Harnesses with documents may write an index.
    is_index = record.about is not None and is_number(stated) and int(stated) < len(options)
    numbers = {int(stated)} if is_index else set()
    try:
        numbers |= {place_of(options, stated)}
    except ValueError as error:
        if not numbers:
            raise DataError(f"{where}: {error}") from error
    if len(numbers) > 1:
        what = "is the text of an option and the index of another"
        raise DataError(f"{where}: the right answer {stated} {what}: {', '.join(options):.80}")
    return options[numbers.pop()]
