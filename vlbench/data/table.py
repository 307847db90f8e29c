"""A user's images, listed in a table with each image's path and label."""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TextIO, Unpack

from vlbench.data.gate import (
    Columns,
    RowOptions,
    Rows,
    begin,
    columns_of,
    data_of_rows,
    own_columns,
    rows_of_files,
)
from vlbench.data.names import normal_form
from vlbench.data.presence import require_files
from vlbench.data.records import Data
from vlbench.errors import DataError
from vlbench.metrics.parsing import LETTERS
from vlbench.system.files import MOST_ANNOTATIONS, require_at_most

# The most characters of a line, above the longest row of any known table.
MOST_LINE = 1 << 20

# Python's replacements for bytes that are not UTF-8.
NO_TEXT = re.compile("[\ud800-\udfff]")


def images(
    *,
    root: Path,
    test: str,
    train: str = "",
    val: str = "",
    pixels: bool = True,
    **options: Unpack[RowOptions],
) -> Data:
    """Return the images that tables in `root` list, in the order of their rows.

    The image column contains paths, relative to `root`.

    Raises DataAbsent for a missing file, and DataError, naming table and row, for an invalid
    column or value.

    Args:
        root: folder of the tables and the images.
        test: table of the test split in `root`, .csv or .tsv (UTF-8, with a header), .xlsx or
            .parquet.
        train: table of the train split in `root`, as for `test`; empty: no such split.
        val: table of the val split in `root`, as for `test`; empty: no such split.
        pixels: whether images are read; recorded answers do not need them. Images that do not exist
            are then identified by their paths.
        **options: options of every source of rows, see `vlbench.data.gate.RowOptions`.
    """
    files = {"train": train, "val": val, "test": test}
    names = {split: name for split, name in files.items() if name}
    for name in names.values():
        require_files(f"the table {name}", "your own images", root / name)
    begin(options)
    columns = columns_of(options)
    read = partial(_read, root, columns=columns, pixels=pixels)
    tables = {split: partial(read, name) for split, name in names.items()}
    return data_of_rows(options, columns, tables)


def questions(  # noqa: PLR0913 - tasks fill them by name
    *,
    root: Path,
    test: str,
    image: str = "image",
    question: str = "question",
    answer: str = "answer",
    option: Sequence[str] = (),
    category: str = "",
    cluster: str = "",
    pixels: bool = True,
) -> Data:
    """Return the questions of a table about images in `root`, each with its right answer.

    If there are no options, answers are yes and no. Raises the errors of `images`.

    Args:
        root: folder of the table and the images.
        test: table of the questions in `root`, .csv or .tsv (UTF-8, with a header), .xlsx or
            .parquet.
        image: column of the image's path, relative to `root`.
        question: column of the question.
        answer: column of the right answer, the text of an option or its letter.
        option: columns of the options; empty: the existing columns among A, B and so on to J.
        category: column of the kind of a question, by which scores are listed; empty: `category`,
            if there is such a column.
        cluster: column with equal values in questions that are not independent; empty: `cluster`,
            if there is such a column, else their image.
        pixels: as in `images`.
    """
    require_files(f"the table {test}", "your own questions", root / test)
    begin({})
    names = [normal_form(name) for name in column_names(root / test, test)]
    option = option or _option_columns(names, test)
    category, cluster = (
        column or (name if name in names else "")
        for column, name in ((category, "category"), (cluster, "cluster"))
    )
    read = [*filter(None, [image, question, *option, answer, category, cluster])]
    left = [name for name in names if name not in map(normal_form, read)]
    data = images(
        root=root,
        test=test,
        label="",
        image=image,
        question=question,
        answer=answer,
        option=option,
        category=category,
        cluster=cluster,
        pixels=pixels,
    )
    of_columns = f"{test}: {', '.join(read)} read" + f"; {', '.join(left)} not read" * bool(left)
    return replace(data, notes=[*data.notes, of_columns])


def _option_columns(names: Sequence[str], table: str) -> list[str]:
    """Return the columns A, B and so on to J of a table; none if it has no A.

    Raises DataError for other columns that look like options, such as `a` or `option_b`.
    """
    forms = {normal_form(name) for name in names}
    letters = [letter for letter in LETTERS if letter in forms and "A" in forms]
    alike = [name for name in names if _letter_of(name) and normal_form(name) not in letters]
    if alike:
        columns = ", ".join(repr(name) for name in alike)
        raise DataError(
            f"{table}: the columns {columns} look like options, but are not named A, B and so on; "
            "name the columns of the options as `option`, or rename them"
        )
    return letters


def _letter_of(name: str) -> str:
    """Return the letter of an option that a column's name looks like; empty if like none."""
    plain = re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name)).casefold()
    plain = re.sub(r"^(?:option|choice|answer)(?=[a-j]$)", "", plain)
    return plain if len(plain) == 1 and plain.upper() in LETTERS else ""


def column_names(path: Path, name: str) -> Sequence[str]:
    """Return the names of the columns of a table. Raises DataError if it cannot be read."""
    if path.suffix.lower() == ".xlsx":
        from vlbench.data.workbook import read_workbook  # noqa: PLC0415 - only who reads xlsx waits

        return next(read_workbook(path, name), ([], ""))[0]
    if path.suffix.lower() == ".parquet":
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only who reads parquet waits

        try:
            return [*parquet.read_schema(path).names]
        except (OSError, ValueError, ArrowException) as error:
            raise DataError(f"{name} cannot be read as parquet: {error}") from error
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return next(csv.reader(_lines(file, []), delimiter=_delimiter(name), strict=True), [])
    except (OSError, csv.Error) as error:
        raise DataError(f"{name}, line 1, cannot be read as CSV: {error}") from error


def _read(root: Path, name: str, *, columns: Columns, pixels: bool) -> Rows:
    """Return the rows of a table. Raises DataError if it is invalid or has no such column."""
    cells = read_cells(root / name, name, columns)
    return rows_of_files(root, name, cells, lambda row: f"{name}, row {row + 1}", pixels=pixels)


def read_cells(path: Path, name: str, columns: Columns) -> dict[str, list[Any]]:
    """Return the cells of the named columns of a table, by column.

    It is .csv, .tsv (separated by tabs), .xlsx or .parquet.

    Raises DataError if it is invalid, has no rows, or has no such column.
    """
    readers = {".csv": _read_csv, ".tsv": _read_csv, ".xlsx": _read_xlsx, ".parquet": _read_parquet}
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in readers:
        raise DataError(f"{name} is not a table; give a file that ends in {', '.join(readers)}")
    cells = readers[suffix](path, name, columns)
    if not next(iter(cells.values())):
        raise DataError(f"{name} has no rows")
    return cells


def _read_csv(path: Path, name: str, columns: Columns) -> dict[str, list[Any]]:
    rows, line, lines = [], 1, list[str]()
    root = str(path).removesuffix(name)
    try:
        require_at_most(path, MOST_ANNOTATIONS)
        # Not pyarrow.csv, which accepts a file that ends inside quotes.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            delimiter = _delimiter(name)
            reader = csv.DictReader(_lines(file, lines), delimiter=delimiter, strict=True)
            header = reader.fieldnames or []
            _refuse_other_delimiter(header, name, delimiter)
            spellings = own_columns(columns, header, name)
            line = reader.line_num + 1
            lines.clear()
            for row in reader:
                _refuse_swallowed(lines, line, len(row), root, delimiter)
                rows.append(_cells(row, spellings.values()))
                line = reader.line_num + 1
                lines.clear()
    except (OSError, csv.Error) as error:
        why = getattr(error, "strerror", error)
        raise DataError(f"{name}, line {line}, cannot be read as CSV: {why}") from error
    return {column: [row[i] for row in rows] for i, column in enumerate(spellings)}


def _delimiter(name: str) -> str:
    return "\t" if name.lower().endswith(".tsv") else ","


def _refuse_other_delimiter(header: Sequence[str], name: str, delimiter: str) -> None:
    """Raise DataError for an empty file, and if another character separates the columns."""
    if not header:
        raise DataError(f"{name} is empty; its first line must name the columns")
    for other in (",", ";", "\t"):
        if len(header) == 1 and other != delimiter and other in header[0]:
            raise DataError(
                f"{name}: its columns are separated by {other!r}; save it with {delimiter!r}"
            )


def _read_xlsx(path: Path, name: str, columns: Columns) -> dict[str, list[Any]]:
    from vlbench.data.workbook import read_workbook  # noqa: PLC0415 - only who reads xlsx waits

    rows = read_workbook(path, name)
    header = next(rows, ([], ""))[0]
    spellings = own_columns(columns, header, name)
    places = {column: header.index(spelled) for column, spelled in spellings.items()}
    cells = dict[str, list[Any]]({column: [] for column in spellings})
    for row, where in rows:
        if len(row) > len(header):
            raise DataError(f"{where} has more cells than the {len(header)} columns")
        for column, place in places.items():
            cells[column].append(row[place] if place < len(row) else None)
    return cells


def _cells(row: Mapping[Any, Any], columns: Iterable[str]) -> list[Any]:
    """Return these cells of a row. Raises csv.Error unless there is one cell per column name.

    DictReader gives surplus cells the name None, and missing cells the value None.
    """
    if None in row or None in row.values():
        names = ", ".join(name for name in row if name is not None)
        raise csv.Error(
            f"it must have one cell for each of {names} (quote a value that contains a comma)"
        )
    return [row[column] for column in columns]


def _refuse_swallowed(
    lines: Sequence[str], first: int, columns: int, root: str, delimiter: str
) -> None:
    """Raise csv.Error if two lines of one row look like rows: `columns` cells and an image each.

    In strict mode an open quote includes all text up to the next quote in one cell. `first` is the
    number of the first line; images are files in `root`. A caption may contain lines and commas.
    """
    if len(lines) < 2:
        return
    rows = [n for n, line in enumerate(lines, first) if _is_row(line, columns, root, delimiter)]
    if len(rows) > 1:
        raise csv.Error(
            f"a quote is open there, and line {rows[1]} looks like a row; close the quote, or "
            'write "" for a quote within quotes'
        )


def _is_row(line: str, columns: int, root: str, delimiter: str) -> bool:
    # Read with quotes, and also without them, in case an open quote hides the separators.
    plain = csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE)
    readers = csv.reader([line], delimiter=delimiter), plain
    ways = [next(reader, []) for reader in readers]
    paths = (root + cell.strip('"') for cells in ways if len(cells) == columns for cell in cells)
    # Unlike Path.is_file, os.path.isfile returns False for a text that is too long for a name.
    return any(map(os.path.isfile, paths))


def _lines(file: TextIO, read: list[str]) -> Iterator[str]:
    """Yield the lines of a file one at a time, and add them to `read`.

    Raises csv.Error for a line that is too long or not UTF-8.
    """
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise csv.Error(f"a line has over {MOST_LINE} characters")
        if NO_TEXT.search(line):
            raise csv.Error("it is not UTF-8")
        read.append(line)
        yield line


def _read_parquet(path: Path, name: str, columns: Columns) -> dict[str, list[Any]]:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only who reads parquet waits

    from vlbench.data.parquet_files import read_parquet, values  # noqa: PLC0415

    try:
        spellings = own_columns(columns, parquet.read_schema(path).names, name)
        with path.open("rb") as file:
            read = values(read_parquet(file, [*spellings.values()]), file)
        return {column: read[spelled] for column, spelled in spellings.items()}
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(f"{name} cannot be read as parquet: {error}") from error
