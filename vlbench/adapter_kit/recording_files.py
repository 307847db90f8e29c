"""Reads recorded answers: SugarCrepe's, BLINK's, tables, logs of lm-eval, lmms-eval, inspect_ai."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.capabilities import NoAnswer
from vlbench.data.coco_files import first_repeated, read_text, sound_text
from vlbench.data.formats.archives import DAMAGED, open_zip
from vlbench.data.names import normal_form
from vlbench.errors import DataError, SpecError, counted, unknown
from vlbench.files import MOST_ANNOTATIONS
from vlbench.metrics.parsing import MOST_TEXT

# The folders of SugarCrepe's published answers, and the order of the caption (0) and its foil.
ORDERS = {"positive-first": (0, 1), "negative-first": (1, 0)}

# The columns of logs of lm-eval and lmms-eval.
DOC, SAID, FILTER = "doc_id", "filtered_resps", "filter"

# What a log calls the question, the options, the image and the right answer of its document.
QUESTIONS, OPTIONS = ("question", "query", "text"), ("choices", "options")
IMAGES = ("image_source", "image_id", "image_path", "file_name", "filename", "image", "img")
TARGETS = ("target", "answer", "label", "gold")

KINDS = {".csv", ".json", ".jsonl", ".parquet", ".eval"}
# Files that harnesses write beside the logs of their samples.
SUMMARY = re.compile(r"(?:^|_)results(?:_|\.json$)|^logs\.json$|^listing\.json$")
# The date in the name of a log; what is left names its task.
DATE = re.compile(r"\d{4}-?\d\d-?\d\d[T_]\d\d-?\d\d-?\d\d[\d.+-]*")

NO_TEXT = NoAnswer("no text")

# The most characters of the words about an answer that is lacking.
MOST_WORDS = 200


class Says(NamedTuple):
    """What a record says of its item, as far as it says anything."""

    question: str = ""
    image: str = ""
    category: str = ""
    options: tuple[str, ...] = ()
    target: str = ""


class Record(NamedTuple):
    """One answer: its item, the order of the options if it is known, and the answer itself.

    `about` is the index of an item in the data, or its image's name and texts; None: only `says`
    tells. `reading` is the option that the authors of the file took the answer to name. `is_log` is
    whether a harness wrote the record, in its own order of the data.
    """

    about: int | tuple[str, tuple[str, ...]] | None
    order: tuple[int, ...] | None
    said: str | list[float] | NoAnswer
    file: str
    says: Says = Says()
    reading: int | None = None
    is_log: bool = False


class Columns(NamedTuple):
    """The columns of a table of answers; see the adapter `recorded:Recorded`."""

    item: str = ""
    image: str = "image"
    texts: tuple[str, ...] = ()
    order: str = ""
    answer: str = "answer"
    scores: tuple[str, ...] = ()
    log_filter: str = ""


def answer_files(path: Path) -> list[Path]:
    """Return the files of answers, by name; summaries of a harness are left out.

    Raises SpecError if there is none, and DataError for two runs of one task.
    """
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    files = [one for one in found if one.is_file() and one.suffix.lower() in KINDS]
    if path.is_dir():
        files = [one for one in files if not SUMMARY.search(one.name)]
        _refuse_two_runs(path, files)
    if not files:
        kinds = ", ".join(sorted(KINDS))
        raise SpecError(f"{path.name} contains no file of answers ({kinds})")
    return files


def _refuse_two_runs(root: Path, files: Sequence[Path]) -> None:
    runs: dict[str, Path] = {}
    for file in files:
        task = DATE.sub("", file.name)
        if task != file.name and (other := runs.setdefault(task, file)) != file:
            names = " and ".join(str(one.relative_to(root)) for one in (other, file))
            raise DataError(f"two runs of one task: {names}; give the path of one of them")


def read_records(path: Path, columns: Columns, dropped: Counter[str]) -> Iterator[Record]:
    """Yield the answers of all files; count rows and keys that have none in `dropped`."""
    if is_sugar_crepe(path):
        yield from _sugar_crepe(path, dropped)
        return
    for file in answer_files(path):
        if file.suffix.lower() in {".csv", ".parquet"}:
            yield from _table(file, columns)
            continue
        content = _eval_log(file) if file.suffix.lower() == ".eval" else _json(file)
        if isinstance(content, dict) and "samples" in content:
            yield from _inspect(file, content["samples"])
            continue
        if isinstance(content, dict) and isinstance(content.get("val"), list):
            yield from _blink(file, content["val"], dropped)
            continue
        rows = content if isinstance(content, list) else [content]
        if not all(isinstance(row, dict) for row in rows):
            raise DataError(f"{file.name} must contain one object per answer")
        is_log = bool(rows) and DOC in rows[0] and SAID in rows[0]
        yield from _log(file, rows, columns) if is_log else _rows(file, rows, columns)


def is_sugar_crepe(path: Path) -> bool:
    """Return whether a folder has the form of SugarCrepe's published answers."""
    return path.is_dir() and any((path / name).is_dir() for name in ORDERS)


def _sugar_crepe(path: Path, dropped: Counter[str]) -> Iterator[Record]:
    """Yield the answers in SugarCrepe's files, by order. Count keys that have no answer."""
    for name, order in ORDERS.items():
        for file in sorted((path / name).glob("*.json")):
            content = _parse(file.name, read_text(file, most=MOST_ANNOTATIONS))
            if not isinstance(content, dict):
                raise DataError(f"{file.name} does not contain an object of answers")
            for key, entry in content.items():
                if not isinstance(entry, dict):
                    dropped["keys_without_answer"] += 1
                    continue
                try:
                    yield _entry(entry, order, f"{name}/{file.name}")
                except (KeyError, TypeError, ValueError) as error:
                    why = f"{type(error).__name__}: {error}"
                    raise DataError(f"{file.name}, item {key!r:.40}: {why:.200}") from error


def _entry(entry: Mapping[str, Any], order: tuple[int, ...], file: str) -> Record:
    """Return an answer; its reading is the caption that the authors took it to name, else -1."""
    texts = sound_text(entry["caption"]), sound_text(entry["negative_caption"])
    answer = entry["answer"]
    read = answer.get("multiple_choice_answer")
    reading = texts.index(read) if read in texts else -1
    about = sound_text(entry["filename"]), texts
    return Record(about, order, _text(answer["free_form_answer"]), file, reading=reading)


def _blink(file: Path, entries: Sequence[Any], dropped: Counter[str]) -> Iterator[Record]:
    """Yield the answers of a file that BLINK's authors saved: those to its validation items.

    `prediction` is what they read in the answer with the help of a language model, (Z) for none.
    """
    from vlbench.data.blink import options_of  # noqa: PLC0415 - imports pyarrow

    for place, entry in enumerate(entries):
        try:
            name, said = entry["idx"], str(entry["full_prediction"])
            letters = options_of(name)
            read = str(entry["prediction"]).strip("()")
            reading = letters.index(read) if read in letters else -1
            target = str(entry["answer"])
        except (KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, item {place + 1} of val: {why:.200}") from error
        sound = said.encode("utf-8", "replace").decode("utf-8")
        dropped["texts_not_unicode"] += sound != said
        says, about = Says(target=target), (name, tuple(letters))
        order = tuple(range(len(letters)))
        yield Record(about, order, _text(sound), file.name, says, reading=reading)


def _table(file: Path, columns: Columns) -> Iterator[Record]:
    """Yield the answers of a CSV or Parquet table, read as any table of one's own."""
    from vlbench.data.table import column_names, read_cells  # noqa: PLC0415 - imports pyarrow

    there = {normal_form(name) for name in column_names(file, file.name)}
    wanted = [normal_form(name) for name in _wanted(columns)]
    more = [name for name in _described(columns) if name in there and name not in wanted]
    cells = read_cells(file, file.name, {"answer": [*wanted, *more]})
    rows = (dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True))
    yield from _rows(file, [*rows], columns)


def _wanted(columns: Columns) -> list[str]:
    """Return the columns that a table must have."""
    about = [columns.item] if columns.item else [columns.image, *columns.texts]
    order = [columns.order] if columns.order else []
    return [*about, *(columns.scores or [columns.answer]), *order]


def _described(columns: Columns) -> list[str]:
    """Return columns that describe an item given by its index, and so are compared with it."""
    return ["question", "target", columns.image, *columns.texts] if columns.item else []


def _rows(file: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> Iterator[Record]:
    for place, row in enumerate(rows):
        if missing := [one for one in _wanted(columns) if one not in row]:
            raise DataError(f"{file.name}, row {place + 1}: {unknown('column', missing[0], row)}")
        try:
            scores = [float(row[name]) for name in columns.scores]
            said = scores or _said(row[columns.answer])
            order = _order(row[columns.order]) if columns.order else None
            about: int | tuple[str, tuple[str, ...]]
            if columns.item:
                about = _index(row[columns.item])
                says = Says(
                    question=_word(row, "question"),
                    image=_word(row, columns.image),
                    options=tuple(str(row[name]) for name in columns.texts if name in row),
                    target=_word(row, "target"),
                )
            else:
                texts = tuple(str(row[name]) for name in columns.texts)
                about, says = (str(row[columns.image]), texts), Says()
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file.name}, row {place + 1}: {error!s:.200}") from error
        yield Record(about, order, said, file.name, says)


def _log(file: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> Iterator[Record]:
    """Yield the answers of a log of lm-eval or lmms-eval, with what it says of each document."""
    for place, row in enumerate(_of_filter(file, rows, columns.log_filter)):
        if missing := [one for one in (DOC, SAID) if one not in row]:
            raise DataError(f"{file.name}, row {place + 1}: {unknown('column', missing[0], row)}")
        doc = row.get("doc")
        doc = doc if isinstance(doc, dict) else {}
        says = Says(
            question=_word(doc, *QUESTIONS),
            image=_word(doc, *IMAGES),
            category=_word(doc, "category"),
            options=_options(doc),
            target=_word(row, "target") or _word(doc, *TARGETS),
        )
        try:
            said = _said(row[SAID])
            yield Record(_index(row[DOC]), None, said, file.name, says, is_log=True)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file.name}, row {place + 1}: {error!s:.200}") from error


def _inspect(file: Path, samples: Any) -> Iterator[Record]:
    """Yield the answers of a log of inspect_ai, which are matched by what they say."""
    for place, sample in enumerate(samples if isinstance(samples, list) else []):
        try:
            asked = sample["input"]
            parts = asked if isinstance(asked, str) else asked[-1]["content"]
            texts = [parts] if isinstance(parts, str) else [o["text"] for o in parts if "text" in o]
            output = sample.get("output") or {}
            stop = next((one.get("stop_reason") for one in output.get("choices") or []), "stop")
            said = _said(output.get("completion"))
            if not said and stop != "stop":
                said = NoAnswer(str(stop)[:80])
            if isinstance(said, NoAnswer):
                said = replace(said, words=str(sample.get("error") or "")[:MOST_WORDS])
            says = Says(
                question=sound_text(texts[-1]) if texts else "",
                options=tuple(map(sound_text, sample.get("choices") or ())),
                target=_word(sample, "target"),
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, sample {place + 1}: {why:.200}") from error
        yield Record(None, None, said, file.name, says, is_log=True)


def _of_filter(
    file: Path, rows: Sequence[Mapping[str, Any]], name: str
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a log that passed one filter. Raises SpecError if several are in it."""
    names = list(dict.fromkeys(str(row.get(FILTER, "")) for row in rows))
    if name and name not in names:
        raise SpecError(f"{file.name}: {unknown('filter', name, names)}")
    if not name and len(names) > 1:
        raise SpecError(f"{file.name} has {counted(len(names), 'filter')}: name a log_filter")
    return [row for row in rows if not name or str(row.get(FILTER, "")) == name]


def _json(file: Path) -> Any:
    """Return the content of a file of JSON: one value, or one per line."""
    text = read_text(file, most=MOST_ANNOTATIONS)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or lines[0].strip() in {"[", "{"} or lines[0].lstrip().startswith("["):
        return _parse(file.name, text)
    return [_parse(f"{file.name}, line {n},", line) for n, line in enumerate(lines, 1)]


def _parse(name: str, text: str) -> Any:
    """Return the value of a JSON text. Raises DataError for anything else, and for a key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := first_repeated(key for key, _ in pairs)) is not None:
            raise ValueError(f"the key {twice!r:.40} occurs twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not JSON: {error!s:.100}") from error


def _eval_log(file: Path) -> dict[str, Any]:
    """Return the samples of an archive that inspect_ai writes."""
    try:
        with open_zip(file) as archive:
            names = sorted(
                name for name in archive.namelist() if re.fullmatch(r"samples/[^/]+\.json", name)
            )
            texts = [archive.read(name).decode("utf-8") for name in names]
    except DAMAGED as error:
        raise DataError(f"{file.name} cannot be read as a log of inspect_ai: {error}") from error
    return {"samples": [_parse(file.name, text) for text in texts]}


def _index(value: Any) -> int:
    """Return the index of an item. Raises ValueError for anything but a whole number."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"the item is {value!r:.40}, not an index from 0")
    return int(value)


def _said(value: Any) -> str | list[float] | NoAnswer:
    """Return a text, scores of the options, or no answer if there is no text at all."""
    if isinstance(value, list) and value and all(isinstance(one, list) for one in value):
        return [float(one[0]) for one in value]  # a log-likelihood, and whether it is the greatest
    if isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    return NO_TEXT if value is None else _text(value)


def _text(value: Any) -> str:
    """Return a text; one that is too long to be read is cut, and stays too long."""
    return sound_text(value)[: MOST_TEXT + 1]


def _word(of: Mapping[str, Any], *names: str) -> str:
    """Return the first of some values that is a text or a whole number, as text; empty if none."""
    for name in names:
        value = of.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return ""


def _options(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a document, as a list or as lm-eval's lists of texts and labels."""
    for name in OPTIONS:
        value = doc.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return tuple(value)
    return ()


def _order(given: Any) -> tuple[int, ...]:
    numbers = given if isinstance(given, list) else str(given).replace(",", " ").split()
    order = tuple(map(int, numbers))
    if sorted(order) != [*range(len(order))]:
        raise ValueError(f"the order {given!r:.40} must list each option once, counted from 0")
    return order
