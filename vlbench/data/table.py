"""Anybody's images, listed in a table: CSV or parquet with the path of each image and its label."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

from vlbench.data.coco_files import is_number
from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.from_rows import Named, Rows, columns_of, said_in, split_from_rows
from vlbench.data.images import file_images
from vlbench.data.pictures import require_own_regions
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, wanted
from vlbench.errors import DataAbsent, DataError, unknown
from vlbench.files import MOST_ANNOTATIONS, require_at_most

# Characters of a line: more than the longest row of any table that is known has.
MOST_LINE = 1 << 20


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
    of captions or questions, or lists in one of parquet, are several texts of an image. Classes are
    the sorted names of the first table given, unless `classes` lists them; then a label may also be
    a class number.

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
    said = {"caption": caption, "question": question}
    columns = columns_of({"image": image, "label": label, "item": item, **said})
    tables = {split: _read(root, name, columns) for split, name in names.items()}
    if label and not classes:
        classes = sorted(set(next(iter(tables.values())).texts("label")))
    splits = {}
    for split, table in wanted(tables, wanted_splits).items():
        rows = _rows(root, table, classes)
        splits[split] = split_from_rows(
            rows, classes=len(classes), where=table.name, regions=regions
        )
    require_own_regions(splits)
    return with_class_words(Data(splits=splits, classes=list(classes)), texts)


class _Table(NamedTuple):
    """The values of the wanted columns of a table, by what they are: image, label, caption."""

    name: str
    columns: Mapping[str, Sequence[Sequence[Any]]]

    def where(self, row: int) -> str:
        """Return how an error names a row."""
        return f"{self.name}, row {row + 1}"

    def texts(self, column: str) -> list[str]:
        """Return the values of a column that must be texts. Raises DataError."""
        values = self.columns[column][0]
        wrong = [i for i, v in enumerate(values) if not isinstance(v, str) or not v.strip()]
        if wrong:
            value = values[wrong[0]]
            hint = "; list the names as `classes`" if isinstance(value, int) else ""
            raise DataError(f"{self.where(wrong[0])}: the {column} is {value!r}, no text{hint}")
        return list(values)


def _rows(root: Path, table: _Table, classes: Sequence[str]) -> Rows:
    images = file_images(root, _paths(table), listed=table.name)
    labels = _numbers(table, classes) if "label" in table.columns else None
    items = [str(value) for value in chain(*table.columns.get("item", ()))]
    return Rows(images, labels, items, said_in(table.columns, table.where))


def _paths(table: _Table) -> list[str]:
    """Return the paths of the images. Raises DataError for one that leads out of the root."""
    paths = table.texts("image")
    for i, path in enumerate(paths):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DataError(f"{table.where(i)}: the path {path:.200} leads out of the root")
    return paths


def _numbers(table: _Table, classes: Sequence[str]) -> list[int]:
    """Return the number of each row's class. Raises DataError for a label that is no class."""
    numbers = {name: number for number, name in enumerate(classes)}
    rows = []
    for i, value in enumerate(table.columns["label"][0]):
        number = numbers.get(value) if isinstance(value, str) else value
        if number is None and isinstance(value, str) and is_number(value):
            number = int(value)
        if type(number) is not int or not 0 <= number < len(classes):
            named = unknown("class", str(value), classes)
            raise DataError(f"{table.where(i)}: {named}")
        rows.append(number)
    return rows


def _read(root: Path, name: str, columns: Mapping[str, Sequence[str]]) -> _Table:
    """Return the named columns of a table. Raises DataError for what is none, or lacks one."""
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in readers:
        raise DataError(f"{name} is no table; wanted is a file that ends in .csv or .parquet")
    values = readers[suffix](root / name, name, list(chain(*columns.values())))
    if not next(iter(values.values())):
        raise DataError(f"{name} has no rows")
    return _Table(name, {kind: [values[one] for one in own] for kind, own in columns.items()})


def _read_csv(path: Path, name: str, columns: Sequence[str]) -> dict[str, list[Any]]:
    try:
        require_at_most(path, MOST_ANNOTATIONS)
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(_lines(file), strict=True)
            _require(name, columns, reader.fieldnames or [])
            cells: dict[str, list[Any]] = {column: [] for column in columns}
            for row in reader:
                for column, values in cells.items():
                    values.append(row[column])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", error)
        raise DataError(f"{name} cannot be read as CSV: {why}") from error
    return cells


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file one at a time. Raises csv.Error for one that is too long."""
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise csv.Error(f"a line has over {MOST_LINE} characters")
        yield line


def _read_parquet(path: Path, name: str, columns: Sequence[str]) -> dict[str, list[Any]]:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only who reads parquet waits

    from vlbench.data.parquet_files import read_parquet, values  # noqa: PLC0415

    try:
        _require(name, columns, parquet.read_schema(path).names)
        with path.open("rb") as file:
            return values(read_parquet(file, columns), file)
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(f"{name} cannot be read as parquet: {error}") from error


def _require(name: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """Raise DataError for a column that a table lacks."""
    for column in columns:
        if column not in known:
            raise DataError(f"{name}: {unknown('column', column, known)}")
