"""Data for probes: splits of named columns, each identified by a digest of its content."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, permutations, takewhile
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vlbench.errors import DataAbsent, DataError, TooFewRows
from vlbench.metrics.items import DIGITS, Examples
from vlbench.system.digests import digest

Found = TypeVar("Found")
# The class order if classes are numbers of a classifier's outputs.
OUTPUT_NUMBERS = "output numbers"
# The class order if a source lists the classes, in a file or a type, not only as texts.
LISTED = "listed"
# Columns that identify an example by content; the first one that a split has is used.
CONTENT = ("image", "picture", "text", "caption")


@dataclass(frozen=True)
class Column:
    """One column of a split: the selected `rows` of the whole stored column.

    `key` digests the content of the whole stored column, so that selections share features.
    `kind` is image (PIL, RGB), text, picture or value. `names` and `digests` belong to the
    stored examples, such as files of images, if the source has them. `known_as` identifies images
    of a published set by their names there: rows are compared by it, with or without pixels.
    """

    key: str
    kind: str
    stored: Sequence[Any]
    rows: Sequence[int]
    names: Sequence[str] = ()
    digests: Sequence[str] = ()
    known_as: str = ""

    def __len__(self) -> int:
        """Return the number of selected rows."""
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        """Return the value of selected row i."""
        return self.stored[self.rows[i]]

    def __iter__(self) -> Iterator[Any]:
        """Yield the values of the selected rows, in order."""
        return (self.stored[row] for row in self.rows)

    def select(self, rows: Sequence[int]) -> Column:
        """Return the same stored column with these of the selected rows."""
        return replace(self, rows=[self.rows[i] for i in rows])

    @property
    def ids(self) -> list[str]:
        """The names of the selected rows; a row without a name has its stored number."""
        has_names = len(set(self.names)) == len(self.stored)
        return [self.names[row] if has_names else str(row) for row in self.rows]

    def examples(self) -> Examples:
        """Return what identifies the selected rows among all data: `ids` and content.

        The digest of a row without one is computed from the whole column's key and its number.
        """
        has_digests = bool(self.digests)
        digests = [self.digests[r] if has_digests else digest([self.key, r]) for r in self.rows]
        return Examples(self.ids, [value.removeprefix("sha256:")[:DIGITS] for value in digests])


class Split:
    """Rows of named columns, all of one length."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) != 1:
            message = f"columns of one split differ in length: {lengths}"
            raise ValueError(message)
        self._length = next(iter(lengths.values()))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._length

    def __getitem__(self, column: str) -> Column:
        """Return a column by its name; a DataError lists the columns of this split."""
        if column not in self._columns:
            present = ", ".join(sorted(self._columns)) or "none"
            raise DataError(f"the data have no column '{column}'; they have {present}")
        return self._columns[column]

    @property
    def columns(self) -> Mapping[str, Column]:
        """Return the columns by name."""
        return self._columns

    def select(self, rows: Sequence[int]) -> Split:
        """Return these of the rows, in this order."""
        return Split({name: column.select(rows) for name, column in self._columns.items()})


class Splits(dict[str, Split]):
    """Splits by name; a missing split raises DataAbsent with the existing splits."""

    def __missing__(self, name: str) -> Split:
        """Raise DataAbsent."""
        present = ", ".join(self) or "no split"
        raise DataAbsent(
            f"the split '{name}' (the data have {present})",
            "the source of the other data",
            "the place given in the task's `data`",
        )


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set: its splits, the names of its classes, and the official number of rows per split.

    A result on a split with fewer rows than `expected` is marked partial. `class_order` names the
    order of the classes, a published order such as imagenet, or `LISTED`. The outputs of a
    classifier that states the same order are matched to the classes by index, and so are names
    that a task gives in that order. `categories` has the category of each class if classes have
    categories, such as nouns. `dropped` counts what was left out of the source, such as
    `{"files (.heic) that are no images of a class": 3}`; a run prints it, and its rows contain it.
    `notes` are further notes for rows, such as how splits were drawn.
    """

    splits: Mapping[str, Split]
    classes: Sequence[str] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    class_order: str = ""
    categories: Sequence[str] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Make `splits` raise DataAbsent for a missing split; ValueError for other categories."""
        if self.categories and len(self.categories) != len(self.classes):
            raise ValueError(f"{len(self.categories)} categories of {len(self.classes)} classes")
        object.__setattr__(self, "splits", Splits(self.splits))

    def digest(self) -> str:
        """Return the digest of all columns and selected rows, `sha256:...`, from keys only."""
        return self._digest

    def compared_by(self) -> str:
        """Return the digest that comparable rows share, with `known_as` of images for their keys.

        For all other data it equals `digest()`.
        """
        return self._digest_by(lambda column: column.known_as or column.key)

    @cached_property
    def _digest(self) -> str:
        return self._digest_by(lambda column: column.key)

    def _digest_by(self, key: Callable[[Column], str]) -> str:
        columns = {
            split: {name: [key(c), list(c.rows)] for name, c in rows.columns.items()}
            for split, rows in self.splits.items()
        }
        return digest(columns | {"classes": list(self.classes)})

    def missing_rows(self) -> dict[str, int]:
        """Return the number of missing rows of each partial split."""
        gaps = {n: rows - len(self.splits.get(n, ())) for n, rows in self.expected.items()}
        return {name: gap for name, gap in gaps.items() if gap > 0}

    def first(self, name: str, count: int | None) -> Data:
        """Return the data with only the first `count` rows of a split, and this number expected.

        The data are unchanged for None, or if the split does not exist.
        """
        if count is None or name not in self.splits:
            return self
        split = self.splits[name]
        some = split.select(range(min(count, len(split))))
        return replace(
            self,
            splits={**self.splits, name: some},
            expected={**self.expected, name: count},
        )

    def limited(self, n: int, *, seed: int = 0) -> Data:
        """Return a seeded sample of at most n >= 0 rows per split, stratified by label.

        Rows without labels that name their `cluster` are drawn in whole clusters, such as pairs.
        """
        if n < 0:
            raise ValueError(f"{n} rows requested per split; it must be 0 or more")
        some = {}
        for name, split in self.splits.items():
            has_sets = "cluster" in split.columns and "label" not in split.columns
            draw = draw_clusters if has_sets else draw_rows
            some[name] = draw(split, n, seed)
        splits = {name: self.splits[name].select(rows) for name, rows in some.items()}
        return replace(self, splits=splits, expected={})


# Annotations of a probe's `data`: the splits that it always reads, or the parameters that name them
# (`splits.train`). A missing split is reported before anything runs; no loader reads other splits,
# unless the last argument is an ellipsis.
TestRows = Annotated[Data, "test"]
TrainAndTestRows = Annotated[Data, "train", "test"]


def named_splits(splits: Mapping[str, Found], names: Sequence[str]) -> dict[str, Found]:
    """Return the splits of these names; all splits if no name is given or none exists."""
    return {name: splits[name] for name in names if name in splits} or dict(splits)


def value_column(values: Sequence[Any], kind: str = "value") -> Column:
    """Return a column of plain values (or texts), identified by their digest."""
    stored = list(values)
    return Column(digest(stored), kind, stored, range(len(stored)))


def labels(split: Split) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the label of every row, int64 [N]."""
    return np.array(list(split["label"]), dtype=np.int64)


def examples_of_items(rows: Split, text: str, content: Iterable[Sequence[Any]]) -> Examples:
    """Return what identifies items: the image of each row, the row of its `text`, and its content.

    `content` lists the texts of each item. Items of the same `cluster`, else of the same image, are
    not independent.
    """
    images = rows["image"].examples()
    ids = [f"{a}/{b}" for a, b in zip(images.ids, rows[text].ids, strict=True)]
    whole = zip(images.digests, content, strict=True)
    digests = [digest([image, *parts]).removeprefix("sha256:")[:DIGITS] for image, parts in whole]
    clusters = [*rows["cluster"]] if "cluster" in rows.columns else images.digests
    return Examples(ids, digests, clusters, images.digests)


def image_suffixes(rows: Split) -> list[str]:
    """Return the suffixes of the image columns: empty, `_2`, `_3` and so on."""
    more = takewhile(lambda number: f"image_{number}" in rows.columns, count(2))
    return ["", *(f"_{number}" for number in more)]


def image_names(rows: Split) -> list[list[str]]:
    """Return the ids of each row's images, or their column names if two ids are equal."""
    columns = [f"image{suffix}" for suffix in image_suffixes(rows)]
    ids = [rows[name].ids for name in columns]
    names = [[*row] for row in zip(*ids, strict=True)]
    are_distinct = all(len({*row}) == len(row) for row in names)
    return names if are_distinct else [columns] * len(names)


def require_classes(data: Data) -> None:
    """Raise DataError for fewer than two classes, since there is nothing to classify.

    Raises TooFewRows for a test split without rows.
    """
    if len(data.classes) < 2:
        classes = f"one class, '{data.classes[0]}'" if data.classes else "no classes"
        raise DataError(f"the data have {classes}; classification needs two or more")
    if not len(data.splits["test"]):
        raise TooFewRows("the test split has no images", 1)


def fewest_rows(counts: Sequence[int], least: int) -> int:
    """Return the size of a stratified sample in which every class has at least `least` rows.

    `counts` are the classes' numbers of rows in a smaller sample of the same split.
    """
    rows, scarce, slack = sum(counts), min(counts), len(counts) / 2
    # A class has its fraction of the rows, rounded; the roundings of all classes add up to `slack`.
    by_fraction = (least - 0.5) * (rows - slack) / (scarce + 0.5) - slack
    return max(least * len(counts), math.ceil(by_fraction), rows + 1)


def draw_rows(split: Split, n: int, seed: int) -> list[int]:
    """Return n row numbers, ascending: a seeded sample with the label fractions of the split."""
    order = np.random.default_rng(seed).permutation(len(split))
    by_label = labels(split)[order] if "label" in split.columns else np.zeros(len(split), int)
    place = np.zeros(len(split))
    for label in np.unique(by_label):
        has_label = by_label == label
        place[has_label] = (np.arange(has_label.sum()) + 0.5) / has_label.sum()
    return sorted(order[np.lexsort((by_label, place))][:n].tolist())


def draw_clusters(split: Split, n: int, seed: int) -> list[int]:
    """Return at most n row numbers, ascending, of whole clusters drawn by a seed.

    A cluster that does not fit is left out, and smaller clusters are still drawn.
    """
    rows: dict[Any, list[int]] = {}
    for row, cluster in enumerate(split["cluster"]):
        rows.setdefault(cluster, []).append(row)
    clusters, drawn = [*rows.values()], list[int]()
    for place in np.random.default_rng(seed).permutation(len(clusters)).tolist():
        drawn += clusters[place] if len(drawn) + len(clusters[place]) <= n else []
    return sorted(drawn)


def derangement(count: int, seed: int) -> NDArray[np.int64]:
    """Return a random permutation of `count` rows, 2 or more, without fixed points."""
    circle = np.random.default_rng(seed).permutation(count)
    others = np.empty(count, np.int64)
    others[circle] = np.roll(circle, 1)
    return others


def content(split: Split) -> list[str] | None:
    """Return the digest of the content of each row; None if the source has none."""
    column = next((split[name] for name in CONTENT if name in split.columns), None)
    if column is None or not (column.digests or column.kind == "text"):
        return None
    if column.digests:
        return [column.digests[row] for row in column.rows]
    return [str(text) for text in column]


def copies(split: Split) -> int:
    """Return how many images of a split repeat another image's content: three equal ones count two.

    Rows of the same image, such as several items about it, are not copies.
    """
    column = _images(split)
    if column is None:
        return 0
    names = [column.names[row] if column.names else row for row in column.rows]
    contents = [column.digests[row] for row in column.rows]
    return len(set(zip(contents, names, strict=True))) - len(set(contents))


def same_images(split: Split) -> list[list[int]]:
    """Return the rows of each image by content, in order of first occurrence.

    Draw halves, blocks or permutations of these groups, so that copies stay together. If the
    content is unknown, each row is an image.
    """
    column = _images(split)
    if column is None:
        return [[row] for row in range(len(split))]
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(column.rows):
        groups.setdefault(column.digests[row], []).append(place)
    return list(groups.values())


def _images(split: Split) -> Column | None:
    """Return the column whose digests identify the images, if the source has digests."""
    columns = (split.columns[name] for name in ("image", "picture") if name in split.columns)
    return next((column for column in columns if column.digests), None)


def overlaps(data: Data) -> dict[tuple[str, str], int]:
    """Return, for each ordered pair of splits, how many rows of the first are also in the second.

    Splits of unknown content share nothing.
    """
    contents = {name: content(split) or [] for name, split in data.splits.items()}
    sets = {name: set(digests) for name, digests in contents.items()}
    return {
        (first, second): sum(digest in sets[second] for digest in contents[first])
        for first, second in permutations(contents, 2)
    }
