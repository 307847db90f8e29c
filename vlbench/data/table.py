"""Anybody's images, listed in a table: CSV or parquet with the path of each image and its label."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

from vlbench.data.coco_files import first_repeated
from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.folders import own_spelling
from vlbench.data.from_rows import (
    Named,
    Rows,
    columns_of,
    lacks_column,
    named_in,
    said_in,
    split_from_rows,
)
from vlbench.data.images import file_images
from vlbench.data.names import named_twice, normal_form, number_classes
from vlbench.data.pictures import require_own_regions
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Data, wanted
from vlbench.errors import DataAbsent, DataError, unknown
from vlbench.files import MOST_ANNOTATIONS, require_at_most

# Characters of a line: more than the longest row of any table that is known has.
MOST_LINE = 1 << 20

# The name of a class that a number in the table could mean, too.
NUMBER = re.compile(r"[+-]?\d[\d.,]*")

# How Python spells bytes that are no UTF-8.
NO_TEXT = re.compile("[\ud800-\udfff]")


def images(  # noqa: PLR0913 - YAML fills them by name
    *,
    root: Path,
    test: str,
    train: str = "",
    val: str = "",
    image: str = "image",
    label: str = "label",
    caption: Named = "",
    question: Named = "",
    foil: Named = "",
    image_2: Named = "",
    caption_2: str = "",
    category: str = "",
    cluster: str = "",
    item: str = "",
    classes: Sequence[str] = (),
    regions: Path | None = None,
    texts: WordTests | None = None,
    wanted_splits: Sequence[str] = (),
) -> Data:
    """Return the images that tables in `root` list, in the order of their rows.

    `train`, `val` and `test` are the tables, each .csv (UTF-8, with a header) or .parquet. `image`,
    `label`, `caption`, `question` and `item` name their columns: paths relative to `root`, class
    names, texts, and what identifies an example. An empty name leaves a column out; several columns
    of captions or questions, or lists in one of parquet, are several texts of an image. `foil`
    names wrong captions, one column or several; `image_2` the second image of a row, or several
    more; `caption_2` that image's caption; `category` and `cluster` what a row belongs to. Classes
    are the sorted names of the first table given, unless `classes` lists them; then a label may
    also be a class number, if none of the names is a number.

    `regions` are region features of the images (see `vlbench.data.regions`), by their items or else
    by the names of their files: whole names, without folders and suffixes of images. `texts` are a
    corpus and word tests: then only the test images are read, and the first name of each class is
    their visual word (see `vlbench.data.corpora`). Of `wanted_splits` alone, if there are some,
    images are read.

    Raises DataAbsent for a file that is not there, and DataError, naming table and row, for a
    column or a value that is not what it should be.
    """
    named = {"train": train, "val": val, "test": test}
    names = {split: name for split, name in named.items() if name}
    for name in names.values():
        if not (root / name).is_file():
            raise DataAbsent(f"the table {name}", "your own images", str(root / name))
    require_texts(texts)
    begin_reading()
    text_columns = {"caption": caption, "question": question, "foil": foil}
    more = {"image_2": image_2, "caption_2": caption_2, "category": category, "cluster": cluster}
    columns = columns_of({"image": image, "label": label, "item": item, **text_columns, **more})
    tables = {split: _read(root, name, columns) for split, name in names.items()}
    listed = list(classes)
    if label and not classes:
        listed = sorted(set(next(iter(tables.values())).texts("label")), key=normal_form)
    own = number_classes(listed).names
    if (twice := first_repeated(own)) is not None:
        raise named_twice(twice)
    # Names that are numbers, or one name in two spellings, make a number mean one of two classes.
    is_clear = len(own) == len(classes) and not any(map(NUMBER.fullmatch, own))
    numbers = {str(i): i for i in range(len(own))} if is_clear else {}
    numbers |= {name: i for i, name in enumerate(own)}
    splits = {}
    for split, table in wanted(tables, wanted_splits).items():
        rows = _rows(root, table, numbers)
        splits[split] = split_from_rows(rows, classes=len(own), where=table.name, regions=regions)
    require_own_regions(splits)
    order = LISTED if classes else ""
    return with_class_words(Data(splits=splits, classes=own, class_order=order), texts)


class _Table(NamedTuple):
    """The values of the wanted columns of a table, by what they are: image, label, caption."""

    name: str
    columns: Mapping[str, Sequence[Sequence[Any]]]

    def where(self, row: int) -> str:
        """Return how an error names a row."""
        return f"{self.name}, row {row + 1}"

    def texts(self, column: str, number: int = 0) -> list[str]:
        """Return the values of a column that must be texts; of several, by number.

        Raises DataError.
        """
        values = self.columns[column][number]
        wrong = [i for i, v in enumerate(values) if not isinstance(v, str) or not v.strip()]
        if wrong:
            value = values[wrong[0]]
            hint = "; list the names as `classes`" if isinstance(value, int) else ""
            raise DataError(f"{self.where(wrong[0])}: the {column} is {value!r}, no text{hint}")
        return list(values)


def _rows(root: Path, table: _Table, numbers: Mapping[str, int]) -> Rows:
    images = file_images(root, _paths(root, table, "image"), listed=table.name)
    numbered = range(len(table.columns.get("image_2", ())))
    others = [_paths(root, table, "image_2", i) for i in numbered]
    more = [file_images(root, paths, listed=table.name) for paths in others]
    labels = _labels(table, numbers) if "label" in table.columns else None
    items = list(chain(*table.columns.get("item", ())))
    texts, named = said_in(table.columns, table.where), named_in(table.columns, table.where)
    return Rows(images, labels, items, texts, named, more)


def _paths(root: Path, table: _Table, column: str, number: int = 0) -> list[str]:
    """Return the paths of images. Raises DataError for one that leads out of the root."""
    paths = table.texts(column, number)
    for i, path in enumerate(paths):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DataError(f"{table.where(i)}: the path {path:.200} leads out of the root")
    return [own_spelling(root, path) for path in paths]


def _labels(table: _Table, numbers: Mapping[str, int]) -> list[int]:
    """Return the number of each row's class. Raises DataError for a label that is no class."""
    names = [normal_form(str(value)) for value in table.columns["label"][0]]
    for i, (name, value) in enumerate(zip(names, table.columns["label"][0], strict=True)):
        if value is None or name not in numbers:
            raise DataError(f"{table.where(i)}: {unknown('class', name, numbers)}")
    return [numbers[name] for name in names]


def _read(root: Path, name: str, columns: Mapping[str, Sequence[str]]) -> _Table:
    """Return the named columns of a table. Raises DataError if it is no table or lacks one."""
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in readers:
        raise DataError(f"{name} is no table; wanted is a file that ends in .csv or .parquet")
    values = readers[suffix](root / name, name, list(chain(*columns.values())))
    if not next(iter(values.values())):
        raise DataError(f"{name} has no rows")
    return _Table(name, {kind: [values[one] for one in own] for kind, own in columns.items()})


def _read_csv(path: Path, name: str, columns: Sequence[str]) -> dict[str, list[Any]]:
    rows, line, lines = [], 1, list[str]()
    root = str(path).removesuffix(name)
    try:
        require_at_most(path, MOST_ANNOTATIONS)
        # Not pyarrow.csv, which reads a file that ends within quotes as if they were closed.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            reader = csv.DictReader(_lines(file, lines), strict=True)
            reader.fieldnames = [*_require(name, columns, reader.fieldnames or [])]
            line = reader.line_num + 1
            lines.clear()
            for row in reader:
                _refuse_swallowed(lines, line, len(row), root)
                rows.append(_cells(row, columns))
                line = reader.line_num + 1
                lines.clear()
    except (OSError, csv.Error) as error:
        why = getattr(error, "strerror", error)
        raise DataError(f"{name}, line {line}, cannot be read as CSV: {why}") from error
    return {column: [row[i] for row in rows] for i, column in enumerate(columns)}


def _cells(row: Mapping[Any, Any], columns: Sequence[str]) -> list[Any]:
    """Return these cells of a row. Raises csv.Error for one with more cells, or fewer, than names.

    DictReader gives what is too much the name None, and what is too little the value None.
    """
    if None in row or None in row.values():
        names = ", ".join(name for name in row if name is not None)
        raise csv.Error(f"it has not one cell for each of {names} (quote a value with a comma)")
    return [row[column] for column in columns]


def _refuse_swallowed(lines: Sequence[str], first: int, columns: int, root: str) -> None:
    """Raise csv.Error if two lines of one row have as many cells as `columns`, and an image each.

    Strict mode takes all up to the next quote for one cell. `first` is the number of the first
    line; images are files in `root`. A caption may have lines, and commas in them.
    """
    if len(lines) < 2:
        return
    rows = [n for n, line in enumerate(lines, first) if _is_row(line, columns, root)]
    if len(rows) > 1:
        raise csv.Error(
            f"a quote is open there, and line {rows[1]} looks like a row; close the quote, or "
            'write "" for a quote within quotes'
        )


def _is_row(line: str, columns: int, root: str) -> bool:
    # With quotes as they are meant, and where one that is open hides the separators.
    readers = csv.reader([line]), csv.reader([line], quoting=csv.QUOTE_NONE)
    ways = [next(reader, []) for reader in readers]
    paths = (root + cell.strip('"') for cells in ways if len(cells) == columns for cell in cells)
    # Unlike Path.is_file, it says no to a text that is too long for a name.
    return any(map(os.path.isfile, paths))


def _lines(file: TextIO, read: list[str]) -> Iterator[str]:
    """Yield the lines of a file one at a time, and add them to `read`.

    Raises csv.Error for a long one, or bytes in it.
    """
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise csv.Error(f"a line has over {MOST_LINE} characters")
        if NO_TEXT.search(line):
            raise csv.Error("it is not UTF-8")
        read.append(line)
        yield line


def _read_parquet(path: Path, name: str, columns: Sequence[str]) -> dict[str, list[Any]]:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only who reads parquet waits

    from vlbench.data.parquet_files import read_parquet, values  # noqa: PLC0415

    try:
        known = _require(name, columns, parquet.read_schema(path).names)
        with path.open("rb") as file:
            read = values(read_parquet(file, [known[one] for one in columns]), file)
        return {one: read[known[one]] for one in columns}
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(f"{name} cannot be read as parquet: {error}") from error


def _require(name: str, columns: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return the table's own spelling of each of its columns, by its normal form.

    Raises DataError for a column that a table lacks, or for two of one name.
    """
    forms = [normal_form(one) for one in known]
    if (twice := first_repeated(forms)) is not None:
        raise DataError(f"{name}: two columns are named {twice!r}")
    for column in columns:
        if column not in forms:
            raise DataError(f"{name}: {lacks_column(column, forms)}")
    return dict(zip(forms, known, strict=True))
