"""Files of recorded answers: SugarCrepe's published files, tables, lm-eval and lmms-eval logs."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from vlbench.capabilities import Asked, Reply
from vlbench.data.coco_files import read_text, sound_text
from vlbench.digests import digest
from vlbench.errors import DataError, SpecError, counted, unknown
from vlbench.files import MOST_ANNOTATIONS
from vlbench.metrics.replies import LABELS, named_option

# The folders of SugarCrepe's published answers, and the order of the caption (0) and its foil.
ORDERS = {"positive-first": (0, 1), "negative-first": (1, 0)}

# The columns of logs of lm-eval and lmms-eval.
DOC, SAID, FILTER = "doc_id", "filtered_resps", "filter"

# The keys that describe a recording, and the value of a key that is not given.
ABOUT = ("recorded_by", "recorded_on", "prompt", "source", "caution")
UNKNOWN = "unknown"

# Answers are cut to this length; a longer answer names no option.
MOST_ANSWER = 100_000


class _Record(NamedTuple):
    """One answer: its item, the order of the options if it is known, and the answer itself.

    `about` is the index of an item in the data, or its image's name and texts; `reading` is the
    option that the authors of the file took the answer to name.
    """

    about: int | tuple[str, tuple[str, ...]]
    order: tuple[int, ...] | None
    said: str | list[float]
    reading: int | None = None


class Columns(NamedTuple):
    """The columns of a table of answers; see the adapter `recorded:Recorded`."""

    item: str = ""
    image: str = "image"
    texts: tuple[str, ...] = ()
    order: str = ""
    answer: str = "answer"
    scores: tuple[str, ...] = ()
    log_filter: str = ""


class LookedUp(NamedTuple):
    """The replies to items, and counts of answers that were not used or read differently.

    `notes` state how many answers were not used, each with an example.
    """

    replies: list[list[Reply]]
    counts: dict[str, int]
    notes: list[str]


class Recordings:
    """The answers in a file or a folder, and the labels that name an option in them.

    Raises SpecError if no file of answers exists, and DataError for a file that does not fit.
    """

    def __init__(self, path: Path, columns: Columns, labels: str) -> None:
        files = _files(path)
        self.digests = [digest(file) for file in files]
        self.labels, self._dropped = labels, Counter[str]()
        if path.is_dir() and any((path / name).is_dir() for name in ORDERS):
            self.labels = "brackets"
            self._records = [*_sugar_crepe(path, self._dropped)]
        else:
            self._records = [one for file in files for one in _table(file, columns, self._dropped)]

    def look_up(self, items: Sequence[Asked]) -> LookedUp:
        """Return the replies to items, and which answers were unused or read differently.

        `items` are all items of a data set. If an item occurs twice, its second occurrence gets the
        second answer. The counts are of answers that have no item; repeated answers to an item in
        the same order; keys and rows that have no answer; and answers that the authors of the file
        read as another option.
        """
        known: dict[Any, dict[Any, list[_Record]]] = {}
        for record in self._records:
            known.setdefault(record.about, {}).setdefault(record.order, []).append(record)
        found, differ = list[list[Reply]](), 0
        for place, item in enumerate(items):
            own = list[Reply]()
            for key in (_about_item(item), place):
                for several in known.get(key, {}).values():
                    if several:
                        record = several.pop(0)
                        count = len(record.said if isinstance(record.said, list) else item.texts)
                        own.append(Reply(record.order or tuple(range(count)), record.said))
                        differ += self._differs(record, own[-1], item)
            found.append(own)
        asked = {*map(_about_item, items)} | {*range(len(items))}
        left = {about: sum(map(len, orders.values())) for about, orders in known.items()}
        repeated = {about: count for about, count in left.items() if count and about in asked}
        strange = {about: count for about, count in left.items() if count and about not in asked}
        counts = {
            "answers_without_item": sum(strange.values()),
            "repeated_answers": sum(repeated.values()),
            "read_otherwise": differ,
        }
        by_place = isinstance(next(iter(strange), 0), int)
        kind = f"0 to {len(items) - 1}" if by_place else f"like {_about_item(items[0])}"
        notes = [
            *self._not_used(strange, f"no such item in the data (items are {kind:.160})"),
            *self._not_used(repeated, "the item has an answer already"),
        ]
        return LookedUp(found, counts | self._dropped, notes)

    def _not_used(self, answers: Mapping[Any, int], why: str) -> list[str]:
        """Return a note on answers, counted by item, with an example; none if there are none."""
        n = f"{sum(answers.values()):,} of {len(self._records):,}"
        return [f"{n} not used: {why}, for example {about!s:.160}" for about in [*answers][:1]]

    def _differs(self, record: _Record, reply: Reply, item: Asked) -> bool:
        """Return whether the file's authors read an answer as another option than we do."""
        if record.reading is None or not isinstance(reply.said, str):
            return False
        shown = [item.texts[number] for number in reply.order]
        place = named_option(reply.said, LABELS[self.labels](shown))
        return (-1 if place is None else reply.order[place]) != record.reading


def read_about(file: Path, *, is_named: bool) -> dict[str, str]:
    """Return the description of a recording in a YAML file; `unknown` for keys not given.

    Raises SpecError for a named file that is absent, for other keys, and for values that are not
    text.
    """
    if not (is_named or file.is_file()):
        return dict.fromkeys(ABOUT, UNKNOWN)
    try:
        told = yaml.safe_load(read_text(file))
    except yaml.YAMLError as error:
        raise SpecError(f"{file.name} is not YAML: {error!s:.200}") from error
    if not isinstance(told, dict) or not all(isinstance(one, str) for one in told.values()):
        raise SpecError(f"{file.name} must give a text for each of {', '.join(ABOUT)}")
    if other := [str(key) for key in told if key not in ABOUT]:
        raise SpecError(f"{file.name}: {unknown('key', other[0], ABOUT)}")
    return {key: told.get(key, UNKNOWN) for key in ABOUT}


def _about_item(item: Asked) -> tuple[str, tuple[str, ...]]:
    """Return the `about` of an item's records."""
    return item.image, (*([item.question] if item.question else []), *item.texts)


def _files(path: Path) -> list[Path]:
    """Return the files of answers, by name. Raises SpecError if there is none."""
    kinds = {".csv", ".json", ".jsonl", ".parquet"}
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    files = [one for one in found if one.is_file() and one.suffix.lower() in kinds]
    if not files:
        raise SpecError(
            f"{path.name} contains no file of answers (.csv, .json, .jsonl or .parquet)"
        )
    return files


def _sugar_crepe(path: Path, dropped: Counter[str]) -> Iterator[_Record]:
    """Yield the answers in SugarCrepe's files, by order. Count keys that have no answer."""
    for name, order in ORDERS.items():
        for file in sorted((path / name).glob("*.json")):
            content = _parse(file, read_text(file, most=MOST_ANNOTATIONS))
            if not isinstance(content, dict):
                raise DataError(f"{file.name} does not contain an object of answers")
            for key, entry in content.items():
                if not isinstance(entry, dict):
                    dropped["keys_without_answer"] += 1
                    continue
                try:
                    yield _entry(entry, order)
                except (KeyError, TypeError, ValueError) as error:
                    why = f"{type(error).__name__}: {error}"
                    raise DataError(f"{file.name}, item {key!r:.40}: {why:.200}") from error


def _entry(entry: Mapping[str, Any], order: tuple[int, ...]) -> _Record:
    """Return an answer; its reading is the caption that the authors took it to name, else -1."""
    texts = sound_text(entry["caption"]), sound_text(entry["negative_caption"])
    answer = entry["answer"]
    read = answer.get("multiple_choice_answer")
    reading = texts.index(read) if read in texts else -1
    about = sound_text(entry["filename"]), texts
    return _Record(about, order, sound_text(answer["free_form_answer"])[:MOST_ANSWER], reading)


def _table(file: Path, columns: Columns, dropped: Counter[str]) -> Iterator[_Record]:
    """Yield the answers of a table or a log. Count rows that have no answer."""
    rows = _rows(file)
    if rows and DOC in rows[0] and SAID in rows[0]:
        rows = _of_filter(file, rows, columns.log_filter)
        columns = columns._replace(item=DOC, answer=SAID, order="", scores=())
    wanted = [columns.item or columns.image, *(() if columns.item else columns.texts)]
    wanted += [*(columns.scores or [columns.answer]), *([columns.order] if columns.order else [])]
    for place, row in enumerate(rows):
        if missing := [one for one in wanted if one not in row]:
            raise DataError(f"{file.name}, row {place + 1}: {unknown('column', missing[0], row)}")
        try:
            about = _about(row, columns)
            said = _said(row, columns)
            order = _order(row[columns.order]) if columns.order else None
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file.name}, row {place + 1}: {error!s:.200}") from error
        if said is None:
            dropped["rows_without_answer"] += 1
        else:
            yield _Record(about, order, said)


def _rows(file: Path) -> list[dict[str, Any]]:
    if file.suffix.lower() == ".parquet":
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - slow to import

        try:
            return list(parquet.read_table(file).to_pylist())
        except (OSError, ArrowException) as error:
            raise DataError(f"{file.name} cannot be read as parquet: {error}") from error
    text = read_text(file, most=MOST_ANNOTATIONS)
    if file.suffix.lower() == ".csv":
        try:
            return list(csv.DictReader(StringIO(text), strict=True))
        except csv.Error as error:
            raise DataError(f"{file.name} cannot be read as CSV: {error}") from error
    lines = [_parse(file, line) for line in text.split("\n") if line.strip()]
    rows = lines[0] if len(lines) == 1 and isinstance(lines[0], list) else lines
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file.name} must contain one object per answer")
    return list(rows)


def _parse(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file.name} is not JSON: {error!s:.100}") from error


def _of_filter(file: Path, rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the rows of a log that passed one filter. Raises SpecError if several are in it."""
    names = list(dict.fromkeys(str(row.get(FILTER, "")) for row in rows))
    if name and name not in names:
        raise SpecError(f"{file.name}: {unknown('filter', name, names)}")
    if not name and len(names) > 1:
        raise SpecError(f"{file.name} has {counted(len(names), 'filter')}: name a log_filter")
    return [row for row in rows if not name or str(row.get(FILTER, "")) == name]


def _about(row: Mapping[str, Any], columns: Columns) -> int | tuple[str, tuple[str, ...]]:
    if columns.item:
        return int(row[columns.item])
    return str(row[columns.image]), tuple(str(row[name]) for name in columns.texts)


def _said(row: Mapping[str, Any], columns: Columns) -> str | list[float] | None:
    """Return a text, or a score per option; None for a row that has neither."""
    if columns.scores:
        return [float(row[name]) for name in columns.scores]
    said = row[columns.answer]
    if isinstance(said, list) and said and all(isinstance(one, list) for one in said):
        return [float(one[0]) for one in said]  # a log-likelihood, and whether it is the greatest
    said = said[0] if isinstance(said, list) and len(said) == 1 else said
    return sound_text(said)[:MOST_ANSWER] if said not in (None, "") else None


def _order(given: Any) -> tuple[int, ...]:
    numbers = given if isinstance(given, list) else str(given).replace(",", " ").split()
    order = tuple(map(int, numbers))
    if sorted(order) != [*range(len(order))]:
        raise ValueError(f"the order {given!r:.40} must list each option once, counted from 0")
    return order
