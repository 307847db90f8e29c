"""Rules that turn the rows of any source into the examples of splits.

A source (a folder, a table, shards, the hub) finds rows and reads cells. This module gives them
their meaning, so the same rows are the same data in every source. Names have one normal form, texts
stay as given, and rows of one image, such as one row per caption, become one image with several
texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypedDict

from vlbench.data.coco_files import first_repeated
from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.folders import own_spelling
from vlbench.data.images import file_images, images_at, named_images
from vlbench.data.names import composed, named_twice, normal_form, number_classes, plain_name
from vlbench.data.pictures import pictures, require_own_regions
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Column, Data, Split, named_splits, value_column
from vlbench.data.regions import region_features
from vlbench.errors import DataAbsent, DataError, counted, unknown
from vlbench.metrics.parsing import LETTER, LETTERS
from vlbench.schema import is_unicode

# A column name, several names, or no column: an empty name.
Named = str | Sequence[str]
# The texts of an image, and the columns of the first text and of all texts.
TEXTS = {
    "caption": "captions",
    "question": "questions",
    "foil": "foils",
    "option": "options",
    "answer": "right_answers",
}
# Rows with these texts are separate questions: rows of one image are not joined.
OWN = {"foil", "option", "answer"}
IMAGES = ("image", "image_2")
# Single values of an example: a second image's caption, and names of groups.
NAMES = ("caption_2", "category", "cluster")
# A class name that could also be read as a number.
NUMBER = re.compile(r"[+-]?\d[\d.,]*")
# Columns of a source by kind: {"image": ["img"], "caption": ["a", "b"]}.
Columns = Mapping[str, Sequence[str]]


class RowOptions(TypedDict, total=False):
    """The options of rows in a task's `data`, for every source (see docs/data.md).

    An empty column name leaves the column out. Captions, questions, foils, options, right answers
    and second images of a row may be several, each a list or a column. With `texts`, only the test
    images are read, and the first name of each class is their visual word (see
    `vlbench.data.corpora`). A run may read images of `wanted_splits` only.

    Args:
        image: column of the image.
        label: column of the class: a name, or a number if the data or `classes` list the names.
        item: column that identifies a row; absent: the image's file identifies it.
        caption: column or columns of the right texts of an image.
        question: column or columns of the questions about an image.
        foil: column or columns of wrong texts, beside the caption.
        option: column or columns of the options of a question.
        answer: column or columns of the right answers, each the text of an option or its letter:
            the name of its column, else its place, empty options included.
        image_2: column or columns of further images, beside `image`.
        caption_2: column of the text that is right for the second image.
        category: column of the kind of a row, by which scores are listed.
        cluster: column with equal values in rows that are not independent; absent: their image.
        classes: names of the classes in their order; empty: the classes of the data.
        regions: file or folder of region features (see `vlbench.data.regions`), found by item or
            image file; None: the data have no regions.
        texts: `corpus`, `analogies` and `word_pairs`, files for the probe `word_space`; None: the
            data have no such texts.
    """

    image: str
    label: str
    item: str
    caption: str | Sequence[str]
    question: str | Sequence[str]
    foil: str | Sequence[str]
    option: str | Sequence[str]
    answer: str | Sequence[str]
    image_2: str | Sequence[str]
    caption_2: str
    category: str
    cluster: str
    classes: Sequence[str]
    regions: Path | None
    texts: WordTests | None
    wanted_splits: Sequence[str]


class Rows(NamedTuple):
    """The rows of a split from a source.

    `name` and `where` name the split and its rows in errors. `cells` contain the values of the
    requested columns, except images in cells; `images` makes the images of a column.
    """

    name: str
    cells: Mapping[str, Sequence[Any]]
    images: Callable[[str], Column]
    where: Callable[[int], str]
    dropped: Mapping[str, int] = {}


class _Classes(NamedTuple):
    """Class names, the number of each label's class, and the valid `range` of labels in errors."""

    names: Sequence[str] = ()
    numbers: Mapping[str, int] = {}
    order: str = ""
    notes: Sequence[str] = ()
    range: str = ""


def begin(options: RowOptions) -> None:
    """Report that the files of a source are present (see `vlbench.data.presence`).

    Raises DataAbsent for missing texts.
    """
    require_texts(options.get("texts"))
    begin_reading()


def columns_of(options: RowOptions, **defaults: Named) -> dict[str, list[str]]:
    """Return the requested columns by kind; `defaults` contains the source's defaults.

    Names are in their normal form. Raises DataError for a name with a control character.
    """
    kinds = [*IMAGES, "label", "item", *TEXTS, *NAMES]
    requests: dict[str, Named] = {"image": "image", "label": "label", **defaults, **options}  # type: ignore[dict-item]
    by_kind = {kind: requests[kind] for kind in kinds if requests.get(kind)}
    columns = {
        kind: [
            plain_name(name, f"the column of the {kind}")
            for name in ([names] if isinstance(names, str) else names)
            if name
        ]
        for kind, names in by_kind.items()
    }
    if not columns.get("image"):
        raise DataError("`image` names no column, but rows need images")
    return {kind: names for kind, names in columns.items() if names}


def own_columns(columns: Columns, headers: Iterable[str], where: str) -> dict[str, str]:
    """Return the source's spelling of each requested column.

    Raises DataError, naming `where`, for a missing column, and for two columns of one name.
    """
    pairs = [(normal_form(name), name) for name in headers]
    if (twice := first_repeated(form for form, _ in pairs)) is not None:
        raise DataError(f"{where}: two columns are named {twice!r}")
    spelled = dict(pairs)
    for kind, names in columns.items():
        for name in names:
            if name not in spelled:
                hint = '; `label: ""` reads no labels' if kind == name == "label" else ""
                raise DataError(f"{where}: {unknown('column', name, spelled)}{hint}")
    return {name: spelled[name] for name in chain(*columns.values())}


def rows_of_files(
    root: Path,
    name: str,
    cells: Mapping[str, Sequence[Any]],
    where: Callable[[int], str] | None = None,
    dropped: Mapping[str, int] | None = None,
    *,
    pixels: bool = True,
) -> Rows:
    """Return rows whose images are files, named in cells relative to `root`.

    A row is named by its image's file, or by `where`. If `where` is given, a user has named the
    files, which must be inside `root`. Without `pixels`, images of which a file does not exist are
    identified by their paths.
    """

    def images(column: str) -> Column:
        if where is None:
            return file_images(root, cells[column])
        for row, path in enumerate(cells[column]):
            if not isinstance(path, str) or not path.strip():
                raise DataError(f"{where(row)}: the image is {path!r:.40}, not a text")
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise DataError(f"{where(row)}: the path {path:.200} is outside the root")
        if not (pixels or all((root / path).is_file() for path in cells[column])):
            absent = DataAbsent(f"the images in {name}", "your own images", str(root))
            return named_images("own images", cells[column], None, absent)
        return file_images(root, [own_spelling(root, p) for p in cells[column]], listed=name)

    return Rows(name, cells, images, where or (lambda row: str(cells["image"][row])), dropped or {})


def data_of_rows(
    options: RowOptions,
    columns: Columns,
    splits: Mapping[str, Callable[[], Rows]],
    *,
    classes: Sequence[str] | None = None,
    class_order: str = LISTED,
    listed_in: str = "the data",
) -> Data:
    """Return the examples of the rows of splits, which are read when they are needed.

    If the source lists the `classes`, labels are their numbers, in `class_order`; errors call the
    list `listed_in`. Otherwise labels are names, and the classes are the names in the options, or
    else the sorted names of the first split. With names in the options a label may also be a
    number, if no name is a number. Raises DataError, naming split and row, for a value that does
    not fit its column, an item that is missing or belongs to two examples, and an image without a
    name or without regions.
    """
    read = named_splits({name: name for name in splits}, options.get("wanted_splits", ()))
    rows = {name: splits[name]() for name in read}
    codes, picks = _Classes(), options.get("classes", ())
    if "label" in columns and classes is not None:
        codes = _data_classes(classes, picks, class_order, f"{listed_in}: the class")
    elif "label" in columns:
        first = next(iter(splits))
        labels = () if picks else _class_names(rows.get(first) or splits[first](), columns["label"])
        codes = _named_classes(picks, labels)
    parts, dropped = {}, Counter[str]()
    for name, part in rows.items():
        dropped.update(part.dropped)
        parts[name] = _split(part, columns, codes, options.get("regions"))
    require_own_regions(parts)
    data = Data(
        splits=parts,
        classes=list(codes.names),
        class_order=codes.order,
        dropped=+dropped,
        notes=codes.notes,
    )
    return with_class_words(data, options.get("texts"))


def _data_classes(classes: Sequence[str], picks: Sequence[str], order: str, where: str) -> _Classes:
    """Return classes whose numbers a source gives, in the order of `picks` if it is not empty."""
    names, numbers = number_classes(classes, where)
    if picks:
        numbers, names = _in_order(picks, names, numbers), [*map(normal_form, picks)]
    what = f"not in 0..{len(numbers) - 1}"
    numbered = {str(i): n for i, n in enumerate(numbers)}
    return _Classes(names, numbered, LISTED if picks else order, _cut([*classes, *picks]), what)


def _named_classes(picks: Sequence[str], labels: Iterable[str]) -> _Classes:
    """Return the given classes in their order, or else the classes that labels name."""
    classes = picks or sorted(set(labels), key=normal_form)
    names = number_classes(classes).names
    if (twice := first_repeated(names)) is not None:
        raise named_twice(twice)
    # If names are numbers, or one name has two spellings, a number could mean two classes.
    is_clear = len(names) == len(picks) and not any(map(NUMBER.fullmatch, names))
    numbers = {str(i): i for i in range(len(names))} if is_clear else {}
    numbers |= {name: i for i, name in enumerate(names)}
    return _Classes(names, numbers, LISTED if picks else "", _cut(classes))


def _class_names(rows: Rows, columns: Sequence[str]) -> list[str]:
    """Return the labels of rows, which must be names."""
    labels = rows.cells[columns[0]]
    for row, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            hint = "; list the names as `classes`" if isinstance(label, int) else ""
            raise DataError(f"{rows.where(row)}: the label is {label!r:.40}, not a text{hint}")
    return list(labels)


def _in_order(picks: Sequence[str], names: Sequence[str], numbers: Sequence[int]) -> list[int]:
    """Return the numbers of classes in the order of `picks`. Raises DataError for other names."""
    forms = [normal_form(name) for name in picks]
    if sorted(forms) != sorted(names) or first_repeated(forms) is not None:
        other = sorted({*forms} ^ {*names}) or forms
        raise DataError(f"`classes` are not the classes that the data list: {other[0]!r:.80}")
    return [forms.index(names[number]) for number in numbers]


def _cut(names: Iterable[str]) -> list[str]:
    """Return the note on blanks that are cut from names."""
    cut = [name for name in dict.fromkeys(names) if composed(name) != normal_form(name)]
    what = f"{counted(len(cut), 'class name')}, such as {cut[0]!r:.40}" if cut else ""
    return [f"data: blanks are cut from the ends of {what}"] if cut else []


def _split(rows: Rows, columns: Columns, codes: _Classes, regions: Path | None) -> Split:
    """Return the columns of a split, with `picture` if images have texts or regions.

    Regions are found by the images' items or names (see `vlbench.data.pictures`), never by row
    numbers.
    """
    images, *more = (rows.images(name) for name in (*columns["image"], *columns.get("image_2", ())))
    data = {kind: _read(rows, kind, columns[kind], codes) for kind in columns if kind not in IMAGES}
    data |= _named_answers(rows, columns.get("option", ()), data.get("answer", ()))
    if items := data.pop("item", []):
        images = replace(images, names=items)
    if not data.keys() & OWN and not more:
        images, data = _by_image(images, data)
    if items and (twice := first_repeated(images.names)) is not None:
        raise DataError(f"{rows.name}: two rows have the item {twice!r}; give each row its own")
    made = {"image": images}
    for kind, values in data.items():
        if kind in TEXTS:
            made[kind] = value_column([first for first, *_ in values], "text")
            made[TEXTS[kind]] = value_column(values)
        else:
            made[kind] = value_column(values, "text" if kind == "caption_2" else "value")
    if regions and not images.names:
        raise DataError(
            f"{rows.name}: the images have no names, so their regions cannot be found; give the "
            "column of names as `item`"
        )
    if regions or data.keys() & TEXTS:
        made |= _pictures([images, *more], regions)
    return Split(made)


def _read(rows: Rows, kind: str, columns: Sequence[str], codes: _Classes) -> list[Any]:
    """Return the rows' values in columns of a kind. Raises DataError with the row."""
    values = []
    for row, cells in enumerate(zip(*(rows.cells[column] for column in columns), strict=True)):
        try:
            _refuse_surrogates(columns, cells)
            values.append(_texts(kind, cells) if kind in TEXTS else _value(kind, cells[0], codes))
        except ValueError as error:
            raise DataError(f"{rows.where(row)}{error}") from None
    return values


def _refuse_surrogates(columns: Sequence[str], cells: Sequence[Any]) -> None:
    """Raise ValueError, with the column, for a text that UTF-8 cannot encode."""
    for column, cell in zip(columns, cells, strict=True):
        for text in cell if isinstance(cell, list) else [cell]:
            if isinstance(text, str) and not is_unicode(text):
                what = f"{text!r:.40}, which is not Unicode: it has a lone surrogate"
                raise ValueError(f": the column {column} has {what}")


def _texts(kind: str, cells: Sequence[Any]) -> list[str]:
    """Return the texts in cells of texts or of lists of texts, without blank texts."""
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    if wrong := [part for part in parts if part is not None and not isinstance(part, str)]:
        raise ValueError(f": the {kind} is {wrong[0]!r:.40}, not a text")
    if not (texts := [part for part in parts if part and part.strip()]):
        raise ValueError(f" has no {kind}")
    return texts


def _named_answers(
    rows: Rows, columns: Sequence[str], answers: Sequence[Sequence[str]]
) -> dict[str, list[list[str]]]:
    """Return right answers, as `answer`, with the text of an option for its letter.

    A letter names the option in the column of that name, or else at its place among the columns, or
    in the list of a column, empty options included. Raises DataError, with the row, for the letter
    of an empty option, and for one that is also the text of another option.
    """
    if not columns or not answers:
        return {}
    heads = [column.upper() for column in columns]
    are_letters = len(heads) > 1 and all(LETTERS.find(name) >= 0 for name in heads)
    cells = zip(*(rows.cells[column] for column in columns), strict=True)
    right = []
    for row, (fields, targets) in enumerate(zip(cells, answers, strict=True)):
        lists = [cell if isinstance(cell, list) and cell else [cell or ""] for cell in fields]
        texts = [*chain(*lists)]
        options = dict(zip(heads if are_letters else LETTERS, texts, strict=False))
        try:
            right.append([_named_answer(options, answer) for answer in targets])
        except ValueError as error:
            raise DataError(f"{rows.where(row)}: the answer {error}") from None
    return {"answer": right}


def _named_answer(options: Mapping[str, str | None], answer: str) -> str:
    letter = LETTER.fullmatch(answer.strip())
    if not letter or letter[1].upper() not in options:
        return answer
    text = options[letter[1].upper()]
    if not text or not text.strip():
        raise ValueError(f"is {answer!r:.20}, but that option is empty")
    others = [option for option in options.values() if option and option != text]
    if any(normal_form(other).casefold() == normal_form(answer).casefold() for other in others):
        raise ValueError(f"{answer!r:.20} is the letter of one option and the text of another")
    return text


def _value(kind: str, cell: Any, codes: _Classes) -> Any:
    """Return a class's number, or the single text of an example; numbers become texts."""
    if kind == "label":
        name = normal_form(str(cell))
        if cell is None or name not in codes.numbers:
            why = f"the label is {cell!r:.40}, {codes.range}"
            raise ValueError(f": {why if codes.range else unknown('class', name, codes.numbers)}")
        return codes.numbers[name]
    if kind == "item" and cell is None:
        raise ValueError(": the item is missing")
    if kind != "item" and (type(cell) not in (str, int) or not str(cell).strip()):
        raise ValueError(f": the {kind} is {cell!r:.40}, not a text")
    return str(cell) if kind in ("item", "caption_2") else plain_name(str(cell), f"the {kind}")


def _by_image(images: Column, data: dict[str, list[Any]]) -> tuple[Column, dict[str, list[Any]]]:
    """Return rows of one image as one row, with all texts, in the order of first occurrence.

    Rows are of one image if content, name and label are equal. Labelled rows without names are
    not joined: they may be several examples.
    """
    nameless = "label" in data and not images.names
    if not data.keys() & TEXTS or nameless or not images.digests:
        return images, data
    groups: dict[tuple[Any, ...], list[int]] = {}
    alike = [values for kind, values in data.items() if kind not in TEXTS]
    for row, key in enumerate(
        zip(*filter(None, [images.digests, images.names, *alike]), strict=True)
    ):
        groups.setdefault(key, []).append(row)
    if len(groups) == len(images):
        return images, data
    same = list(groups.values())
    joined = {
        kind: [[*chain(*(values[row] for row in rows))] for rows in same]
        if kind in TEXTS
        else [values[rows[0]] for rows in same]
        for kind, values in data.items()
    }
    return images_at(images, [rows[0] for rows in same]), joined


def _pictures(images: Sequence[Column], regions: Path | None) -> dict[str, Column]:
    """Return `picture`, `picture_2` and so on for the images of rows, and their columns."""
    features = region_features(regions) if regions else None
    columns: dict[str, Column] = {}
    for number, image in enumerate(images, 1):
        parts = pictures(image, image.names or image.ids, features)
        end = "" if number == 1 else f"_{number}"
        columns |= {f"{kind}{end}": column for kind, column in parts.items()}
    return columns
