"""Reads recorded answers: SugarCrepe's, BLINK's and LLaVA's, tables, and logs of other harnesses.

Logs of lm-eval, lmms-eval and inspect_ai, tables of VLMEvalKit, and tables that have its columns
contain the items too: question, options and right answer.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vlbench.capabilities import LOG_LIKELIHOOD, NoAnswer, first_misfit
from vlbench.data.coco_files import first_repeated, is_number, read_text, sound_text
from vlbench.data.folders import is_visible
from vlbench.data.formats.archives import DAMAGED, open_zip
from vlbench.data.names import normal_form
from vlbench.errors import DataError, SpecError, counted, unknown
from vlbench.metrics.parsing import LETTERS, MOST_TEXT
from vlbench.metrics.replies import LABELS
from vlbench.results import REPLY_COLUMNS
from vlbench.system.files import MOST_ANNOTATIONS

# The folders of SugarCrepe's published answers, and the order of the caption (0) and its foil.
ORDERS = {"positive-first": (0, 1), "negative-first": (1, 0)}

# The columns of logs of lm-eval and lmms-eval.
DOC, SAID, FILTER = "doc_id", "filtered_resps", "filter"

# What a log calls the question, the options, the image and the right answer of its document.
QUESTIONS, OPTIONS = ("question", "query", "text"), ("choices", "options")
IMAGES = ("image_source", "image_id", "image_path", "file_name", "filename", "image", "img")
TARGETS = ("target", "answer", "label", "gold")

# What a log calls the name of an item.
NAMES = ("id", "index", "question_id", "idx", DOC)

# The keys of a document of lm-eval or lmms-eval that are read.
OF_DOC = {*QUESTIONS, *OPTIONS, *IMAGES, *TARGETS, *NAMES, *LETTERS, "category"}

# What a table that contains its items calls the right answer and the reply.
RIGHT, REPLIES = "answer", ("prediction", "reply")
NEEDED = f"question, A, B and so on (or options), {RIGHT}, {' or '.join(REPLIES)}"

# What VLMEvalKit writes for a request that failed.
FAILED = "Failed to obtain answer"

# The keys of LLaVA's answers.
OF_LLAVA = {"question_id", "prompt", "text", "model_id"}

# The keys of a sample of inspect_ai that are read; of `metadata`, only the category.
OF_INSPECT = ("id", "input", "choices", "target", "metadata", "output", "error")

TABLES = {".csv", ".tsv", ".xlsx", ".parquet"}
KINDS = {".json", ".jsonl", ".eval", *TABLES}
# Files that harnesses write beside the logs of their samples.
SUMMARY = re.compile(r"(?:^|_)results(?:_|\.json$)|^logs\.json$|^listing\.json$")
# The date in the name of a log; what is left names its task.
DATE = re.compile(r"\d{4}-?\d\d-?\d\d[T_]\d\d-?\d\d-?\d\d[\d.+-]*")

NO_TEXT = NoAnswer("no text")
YES_NO = ("yes", "no")

# The most characters of the words about an answer that is lacking.
MOST_WORDS = 200


class Says(NamedTuple):
    """What a record says of its item, as far as it says anything."""

    question: str = ""
    image: str = ""
    category: str = ""
    options: tuple[str, ...] = ()
    target: str = ""
    name: str = ""


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
    """The columns of a table of answers, and more arguments of the adapter `recorded:Recorded`."""

    item: str = ""
    image: str = "image"
    texts: tuple[str, ...] = ()
    order: str = ""
    answer: str = "answer"
    scores: tuple[str, ...] = ()
    log_filter: str = ""
    questions: Path | None = None


def answer_files(path: Path) -> list[Path]:
    """Return the files of answers, by name, without a harness's summaries and hidden files.

    Raises SpecError if there is none, and DataError for two runs of one task.
    """
    paths = [path] if path.is_file() else sorted(path.rglob("*"))
    files = [file for file in paths if file.is_file() and file.suffix.lower() in KINDS]
    if path.is_dir():
        files = [file for file in files if all(map(is_visible, file.relative_to(path).parts))]
        files = [file for file in files if not SUMMARY.search(file.name)]
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
            names = " and ".join(str(path.relative_to(root)) for path in (other, file))
            raise DataError(f"two runs of one task: {names}; give the path of one of them")


def names_of_items(records: Sequence[Record]) -> list[str]:
    """Return the name of each record's item: as the log names it, else its number, from 1."""
    names = [record.says.name for record in records]
    return names if all(names) else [str(n) for n in range(1, len(names) + 1)]


def name_order(name: str) -> tuple[int, str]:
    """Return the place of an item's name in the order of names: numbers by size, then texts."""
    return (int(name), "") if is_number(name) else (10**9, name)


def columns_of(arguments: Mapping[str, Any]) -> Columns:
    """Return the columns that arguments of the adapter `recorded:Recorded` name."""
    values = {key: arguments[key] for key in Columns._fields if key in arguments}
    lists = {key: split_names(values[key]) for key in {"texts", "scores"} & {*values}}
    return Columns(**values | lists)


def split_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of several columns, which a text separates by "|"."""
    return tuple(names.split("|") if isinstance(names, str) else names)


def read_records(
    path: Path, columns: Columns, dropped: Counter[str], notes: list[str]
) -> Iterator[Record]:
    """Yield the answers of all files; count rows and keys that have none in `dropped`.

    `dropped` also counts texts that were not Unicode and were replaced. `notes` gets the columns of
    a log that are read, and those that are not.
    """
    if is_sugar_crepe(path):
        yield from _sugar_crepe(path, dropped)
        return
    for file in answer_files(path):
        if file.suffix.lower() in TABLES:
            yield from _table(file, columns, notes)
            continue
        is_archive = file.suffix.lower() == ".eval"
        content = _eval_log(file, dropped) if is_archive else _json(file, dropped)
        if isinstance(content, dict) and "samples" in content:
            yield from _inspect(file, content["samples"], notes)
        elif isinstance(content, dict) and isinstance(content.get("val"), list):
            yield from _blink(file, content["val"])
        else:
            rows = content if isinstance(content, list) else [content]
            yield from _objects(file, rows, columns, dropped, notes)


def _objects(
    file: Path, rows: Sequence[Any], columns: Columns, dropped: Counter[str], notes: list[str]
) -> Iterator[Record]:
    """Yield the answers of a file of JSON with an object for each; the first tells the format."""
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file.name} must contain one object per answer")
    names = [*rows[0]] if rows else []
    if DOC in names and SAID in names:
        yield from _log(file, rows, columns, notes)
    elif {*names} >= OF_LLAVA:
        questions = _asked_by_llava(columns.questions, dropped) if columns.questions else {}
        yield from _llava(file, rows, questions)
    elif _has_items(names, columns):
        _note_columns(file, names, _columns_of_items(names, columns), notes)
        yield from _items(file, rows, columns)
    else:
        _require_named(file, names, columns)
        yield from _rows(file, rows, columns)


def _require_named(file: Path, names: Sequence[str], columns: Columns) -> None:
    """Raise DataError, with the columns, for a table that neither has items nor names them."""
    if not (columns.item or columns.texts):
        raise DataError(
            f"{file.name} has the columns {', '.join(names):.300}; a log needs {NEEDED}; a table "
            "of answers needs --model-args that name `item`, or `image` and `texts`"
        )


def _has_items(names: Sequence[str], columns: Columns) -> bool:
    """Return whether a table with these columns contains its items."""
    is_named = columns.item or columns.texts
    return not is_named and {"question", RIGHT} <= {*names} and bool(_reply_column(names, columns))


def _reply_column(names: Sequence[str], columns: Columns) -> str:
    """Return the column of the replies of a table that contains its items; empty if none."""
    candidates = REPLIES if columns.answer == RIGHT else (columns.answer,)
    return next((name for name in candidates if name in names), "")


def is_sugar_crepe(path: Path) -> bool:
    """Return whether a folder has the form of SugarCrepe's published answers."""
    return path.is_dir() and any((path / name).is_dir() for name in ORDERS)


def _sugar_crepe(path: Path, dropped: Counter[str]) -> Iterator[Record]:
    """Yield the answers in SugarCrepe's files, by order. Count keys that have no answer."""
    for name, order in ORDERS.items():
        for file in sorted((path / name).glob("*.json")):
            content = _parse(file.name, read_text(file, most=MOST_ANNOTATIONS), dropped)
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


def _blink(file: Path, entries: Sequence[Any]) -> Iterator[Record]:
    """Yield the answers of a file that BLINK's authors saved: those to its validation items.

    `prediction` is what they read in the answer with the help of a language model, (Z) for none.
    """
    from vlbench.data.blink import options_of  # noqa: PLC0415 - imports pyarrow

    for place, entry in enumerate(entries):
        try:
            name, answer = entry["idx"], str(entry["full_prediction"])
            letters = options_of(name)
            read = str(entry["prediction"]).strip("()")
            reading = letters.index(read) if read in letters else -1
            target = str(entry["answer"])
        except (KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, item {place + 1} of val: {why:.200}") from error
        says, about = Says(target=target), (name, tuple(letters))
        order = tuple(range(len(letters)))
        yield Record(about, order, _text(answer), file.name, says, reading=reading)


def labels_of(path: Path) -> str:
    """Return how options are named in the replies that a row keeps; empty for other files.

    Raises DataError for another word than those in LABELS.
    """
    from vlbench.data.table import column_names, read_cells  # noqa: PLC0415 - imports pyarrow

    if path.suffix != ".parquet" or not {*REPLY_COLUMNS} <= {*column_names(path, path.name)}:
        return ""
    ((first, *_),) = read_cells(path, path.name, {"labels": ["labels"]}).values()
    if first not in LABELS:
        raise DataError(f"{path.name}: labels are {first!r:.40}; {', '.join(LABELS)} are known")
    return str(first)


def _table(file: Path, columns: Columns, notes: list[str]) -> Iterator[Record]:
    """Yield the answers of a table, read as any table of one's own; or a row's own replies."""
    from vlbench.data.table import column_names, read_cells  # noqa: PLC0415 - imports pyarrow

    names = [normal_form(name) for name in column_names(file, file.name)]
    if columns == Columns() and {*REPLY_COLUMNS} <= {*names}:
        columns = Columns(item="item", order="order", answer="reply")
    has_items = _has_items(names, columns)
    if has_items:
        heads = _columns_of_items(names, columns)
    else:
        _require_named(file, names, columns)
        heads = [normal_form(name) for name in _required(columns)]
        heads += [name for name in _described(columns) if name in names and name not in heads]
    cells = read_cells(file, file.name, {"answer": heads})
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    if has_items:
        _note_columns(file, names, heads, notes)
        yield from _items(file, rows, columns)
    else:
        yield from _rows(file, rows, columns)


def _columns_of_items(names: Sequence[str], columns: Columns) -> list[str]:
    """Return the columns that are read of a table that contains its items."""
    first = [next((n for n in group if n in names), "") for group in (NAMES, IMAGES, OPTIONS)]
    selection = {"question", RIGHT, "category", *LETTERS, *first, _reply_column(names, columns)}
    return [name for name in names if name in selection]


def _note_columns(file: Path, names: Sequence[str], read: Sequence[str], notes: list[str]) -> None:
    """Note which columns of a log are read, and which are not."""
    letters = [name for name in read if name in LETTERS]
    words = [name for name in read if name not in letters[1:]]
    if len(letters) > 1:
        words[words.index(letters[0])] = f"{letters[0]} to {letters[-1]}"
    others = [name for name in names if name not in read]
    rest = f"; {', '.join(others)} not read" if others else ""
    notes.append(f"{file.name}: {', '.join(words)} read{rest}")


def _items(file: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> Iterator[Record]:
    """Yield the answers of a table that contains its items, such as VLMEvalKit's."""
    names = [*rows[0]]
    read, reply = _columns_of_items(names, columns), _reply_column(names, columns)
    for place, whole in enumerate(rows, 1):
        row = {name: whole[name] for name in read if name in whole}
        if missing := [name for name in ("question", RIGHT, reply) if name not in row]:
            raise DataError(f"{file.name}, row {place}: {unknown('column', missing[0], whole)}")
        try:
            says = _says(row, ["question"], [RIGHT])
            yield Record(None, None, _reply(row[reply]), file.name, says, is_log=True)
        except (TypeError, ValueError) as error:
            raise DataError(f"{file.name}, row {place}: {error!s:.200}") from error


def _says(
    doc: Mapping[str, Any],
    questions: Sequence[str] = QUESTIONS,
    targets: Sequence[str] = TARGETS,
    blank: Sequence[str] = ("",),
) -> Says:
    """Return what a document or a row says of its item; options that are `blank` are none.

    A question whose right answer is yes or no, and that has no options, has these two.
    """
    target, options = _word(doc, *targets), _options(doc, blank)
    if not options and target.strip().lower() in YES_NO:
        options = YES_NO
    return Says(
        question=_word(doc, *questions),
        image=_word(doc, *IMAGES),
        category=_word(doc, "category"),
        options=options,
        target=target,
        name=_word(doc, *NAMES),
    )


def _asked_by_llava(file: Path, dropped: Counter[str]) -> dict[Any, Says]:
    """Return what LLaVA's file of questions says of each `question_id`."""
    content, questions = _json(file, dropped), dict[Any, Says]()
    rows = content if isinstance(content, list) else [content]
    for place, row in enumerate(rows, 1):
        try:
            question, name = _first_line(row["text"]), row["question_id"]
            says = Says(question, _word(row, *IMAGES), _word(row, "category"))
            is_repeated = questions.setdefault(name, says) is not says
        except (AttributeError, KeyError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, row {place}, is no question: {why:.200}") from error
        if is_repeated:
            raise DataError(f"{file.name}, row {place}: the question_id {name} occurs twice")
    return questions


def _llava(
    file: Path, rows: Sequence[Mapping[str, Any]], questions: Mapping[Any, Says]
) -> Iterator[Record]:
    """Yield the answers in LLaVA's form, to `questions` or else to those of their prompts."""
    for place, row in enumerate(rows, 1):
        try:
            name, question = row["question_id"], _first_line(row["prompt"])
            says = questions[name] if questions else Says(question)
            answer = _text(row["text"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, row {place}: {why:.200}") from error
        if says.question != question:
            what = f"the prompt is {question!r:.60}, the question {says.question!r:.60}"
            raise DataError(f"{file.name}, row {place}: {what}")
        yield Record(None, None, answer, file.name, says, is_log=True)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()


def _required(columns: Columns) -> list[str]:
    """Return the columns that a table must have."""
    about = [columns.item] if columns.item else [columns.image, *columns.texts]
    order = [columns.order] if columns.order else []
    return [*about, *(columns.scores or [columns.answer]), *order]


def _described(columns: Columns) -> list[str]:
    """Return columns that describe an item given by its index, and so are compared with it."""
    return ["question", "target", columns.image, *columns.texts] if columns.item else []


def _rows(file: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> Iterator[Record]:
    for place, row in enumerate(rows):
        if missing := [column for column in _required(columns) if column not in row]:
            raise DataError(f"{file.name}, row {place + 1}: {unknown('column', missing[0], row)}")
        try:
            scores = [float(row[name]) for name in columns.scores]
            answer = scores or _answer(row[columns.answer])
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
        yield Record(about, order, answer, file.name, says)


def _log(
    file: Path, rows: Sequence[Mapping[str, Any]], columns: Columns, notes: list[str]
) -> Iterator[Record]:
    """Yield the answers of a log of lm-eval or lmms-eval, with what it says of each document."""
    for place, row in enumerate(_of_filter(file, rows, columns.log_filter)):
        if missing := [key for key in (DOC, SAID) if key not in row]:
            raise DataError(f"{file.name}, row {place + 1}: {unknown('column', missing[0], row)}")
        doc = row.get("doc")
        doc = doc if isinstance(doc, dict) else {}
        if not place and doc:
            _note_columns(file, [*doc], [name for name in doc if name in OF_DOC], notes)
        try:
            # lmms-eval writes "nan" for an option that a question does not have.
            says = _says(doc, blank=("", "nan"))
            says = says._replace(
                name=says.name or _word(row, DOC), target=_word(row, "target") or says.target
            )
            answer = _answer(row[SAID])
            yield Record(_index(row[DOC]), None, answer, file.name, says, is_log=True)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file.name}, row {place + 1}: {error!s:.200}") from error


def _inspect(file: Path, samples: Any, notes: list[str]) -> Iterator[Record]:
    """Yield the answers of a log of inspect_ai, which are matched by what they say."""
    for place, sample in enumerate(samples if isinstance(samples, list) else []):
        try:
            if not place:
                _note_columns(file, [*sample], [key for key in OF_INSPECT if key in sample], notes)
            prompt = sample["input"]
            parts = prompt if isinstance(prompt, str) else prompt[-1]["content"]
            texts = [parts] if isinstance(parts, str) else [o["text"] for o in parts if "text" in o]
            output = sample.get("output") or {}
            stop = next((one.get("stop_reason") for one in output.get("choices") or []), "stop")
            answer = _answer(output.get("completion"))
            if not answer and stop != "stop":
                answer = NoAnswer(str(stop)[:80])
            if isinstance(answer, NoAnswer):
                answer = replace(answer, words=str(sample.get("error") or "")[:MOST_WORDS])
            says = Says(
                question=sound_text(texts[-1]) if texts else "",
                options=tuple(map(sound_text, sample.get("choices") or ())),
                category=_word(sample.get("metadata") or {}, "category"),
                target=_word(sample, "target"),
                name=_word(sample, "id"),
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(f"{file.name}, sample {place + 1}: {why:.200}") from error
        yield Record(None, None, answer, file.name, says, is_log=True)


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


def _json(file: Path, dropped: Counter[str]) -> Any:
    """Return the content of a file of JSON: one value, or one per line."""
    text = read_text(file, most=MOST_ANNOTATIONS)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or lines[0].strip() in {"[", "{"} or lines[0].lstrip().startswith("["):
        return _parse(file.name, text, dropped)
    return [_parse(f"{file.name}, line {n},", line, dropped) for n, line in enumerate(lines, 1)]


def _parse(name: str, text: str, dropped: Counter[str]) -> Any:
    """Return the value of a JSON text. Raises DataError for anything else, and for a key twice.

    Characters in its texts that are not Unicode are replaced, and the texts are counted.
    """

    def sound(value: Any) -> Any:
        if isinstance(value, list):
            return [sound(part) for part in value]
        if not isinstance(value, str) or value.isascii():
            return value
        replaced = value.encode("utf-8", "replace").decode("utf-8")
        if replaced != value:
            dropped["texts_not_unicode"] += 1
        return replaced

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := first_repeated(key for key, _ in pairs)) is not None:
            raise ValueError(f"the key {twice!r:.40} occurs twice")
        return {sound(key): sound(value) for key, value in pairs}

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not JSON: {error!s:.100}") from error


def _eval_log(file: Path, dropped: Counter[str]) -> dict[str, Any]:
    """Return the samples of an archive that inspect_ai writes."""
    try:
        with open_zip(file) as archive:
            names = sorted(
                name for name in archive.namelist() if re.fullmatch(r"samples/[^/]+\.json", name)
            )
            texts = [archive.read(name).decode("utf-8") for name in names]
    except DAMAGED as error:
        raise DataError(f"{file.name} cannot be read as a log of inspect_ai: {error}") from error
    return {"samples": [_parse(file.name, text, dropped) for text in texts]}


def _index(value: Any) -> int:
    """Return the index of an item. Raises ValueError for anything but a whole number."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"the item is {value!r:.40}, not an index from 0")
    return int(value)


def _answer(value: Any) -> str | list[float] | NoAnswer:
    """Return a text, scores of the options, or no answer if there is no text at all."""
    if isinstance(value, list) and value and all(isinstance(part, list) and part for part in value):
        return _log_likelihoods([float(part[0]) for part in value])
    if isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    return NO_TEXT if value is None else _text(value)


def _log_likelihoods(values: list[float]) -> list[float]:
    """Return the log-likelihoods in a log of lm-eval. Raises ValueError if one is not."""
    if misfit := first_misfit(LOG_LIKELIHOOD, torch.tensor(values)):
        raise ValueError(f"the score is {values[misfit[0]]:.6g}; {misfit[1]}")
    return values


def _text(value: Any) -> str:
    """Return a text; one that is too long to be read is cut, and stays too long."""
    return sound_text(value)[: MOST_TEXT + 1]


def _reply(value: Any) -> str | NoAnswer:
    """Return the reply in a cell, or no answer for an empty cell and for a failed request."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NO_TEXT
    text = _text(_cell(value))
    return NoAnswer("failed request", text[:MOST_WORDS]) if text.startswith(FAILED) else text


def _cell(value: Any) -> str:
    """Return a text or a number as text. Raises TypeError for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"{value!r:.40} is neither a text nor a number")
    return str(value)


def _word(of: Mapping[str, Any], *names: str) -> str:
    """Return the first of some values that is a text or a number, as text; empty if none."""
    for name in names:
        value = of.get(name)
        is_word = isinstance(value, str | int | float) and not isinstance(value, bool)
        if is_word and value == value and str(value).strip():  # noqa: PLR0124 - not NaN
            return _cell(value)
    return ""


def _options(doc: Mapping[str, Any], blank: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a document: a list, such a list as text, or columns A, B and so on.

    Raises ValueError for a blank option before another one.
    """
    for name in OPTIONS:
        value = doc.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        value = _literal_list(value) if isinstance(value, str) else value
        if isinstance(value, list) and value and all(isinstance(option, str) for option in value):
            return tuple(value)
    cells = [_word(doc, letter) for letter in LETTERS]
    while cells and cells[-1] in blank:
        cells.pop()
    if "A" in doc and "" in cells:
        blank_one, last = LETTERS[cells.index("")], LETTERS[len(cells) - 1]
        raise ValueError(f"option {blank_one} is blank, but {last} is not")
    return tuple(cells) if "A" in doc else ()


def _literal_list(text: str) -> Any:
    """Return the value of a text that is a list in JSON or in Python; None for other texts."""
    if len(text) > MOST_TEXT:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _order(value: Any) -> tuple[int, ...]:
    numbers = value if isinstance(value, list) else str(value).replace(",", " ").split()
    order = tuple(map(int, numbers))
    if sorted(order) != [*range(len(order))]:
        raise ValueError(f"the order {value!r:.40} must list each option once, counted from 0")
    return order
