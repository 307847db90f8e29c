"""Anybody's images on the Hugging Face hub, at a pinned revision, or in a folder of the same files.

A folder holds parquet files in the hub's layout (`data/train-00000-of-00001.parquet`; see
`vlbench.data.split_files`), or what the library datasets wrote with `save_to_disk`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.coco_files import first_repeated, read_text
from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.formats.archives import DAMAGED
from vlbench.data.from_rows import (
    Named,
    Rows,
    columns_of,
    lacks_column,
    named_in,
    said_in,
    split_from_rows,
)
from vlbench.data.hub_sets import HubSet, cell_images, open_tables, row_name
from vlbench.data.names import normal_form, number_classes
from vlbench.data.pictures import require_own_regions
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Data, wanted
from vlbench.data.split_files import files_of_split, parquet_files, split_of
from vlbench.errors import DataAbsent, DataError, unknown
from vlbench.files import is_file_name

# The file that lists the splits in a folder of save_to_disk.
SAVED = "dataset_dict.json"


class SplitFile(NamedTuple):
    """A file of a split, as errors name it, and its rows."""

    name: str
    rows: Any


class Opened(NamedTuple):
    """The rows of a split, and how errors name each."""

    rows: Any
    where: Callable[[int], str]


def images(  # noqa: PLR0913 - YAML fills them by name
    *,
    root: Path,
    repository: str,
    revision: str,
    splits: Mapping[str, str],
    config: str | None = None,
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
    regions: Path | None = None,
    texts: WordTests | None = None,
    download: bool = False,
    cache_dir: Path | None = None,
    wanted_splits: Sequence[str] = (),
) -> Data:
    """Return the splits of a data set of the hub, from the folder `root` where that is there.

    Otherwise `download` fetches the `revision` of `repository`, of its `config` if it has several.
    `splits` gives the data set's name of each split: `{train: train, test: validation}`. `image`,
    `label`, `caption` and the others down to `item` name columns, as in `vlbench.data.table`.
    Images are encoded, as datasets stores them; labels are of its type ClassLabel; captions and
    questions are columns of texts or of lists of texts, one column or several. Parquet becomes
    Arrow in `cache_dir`. `regions`, `texts` and `wanted_splits` are as in `vlbench.data.table`.

    Raises DataAbsent if the folder does not exist and nothing is downloaded, and DataError for a
    split, a column or a value that is not what it should be.
    """
    require_texts(texts)
    source = HubSet(repository, revision, config, image, label)
    absent = DataAbsent(str(source), "the hub (--download)", str(root))
    if root.is_dir():
        begin_reading()
        tables = _local(root, splits, cache_dir)
    elif download:
        downloaded = open_tables(source, absent)
        tables = {name: [SplitFile(name, downloaded[name])] for name in downloaded}
    else:
        raise absent
    text_columns = {"caption": caption, "question": question, "foil": foil}
    more = {"image_2": image_2, "caption_2": caption_2, "category": category, "cluster": cluster}
    columns = columns_of({"image": image, "label": label, "item": item, **text_columns, **more})
    opened = {name: _join_parts(tables, known, columns) for name, known in splits.items()}
    labelled = {known: opened[name].rows for name, known in splits.items()}
    classes, numbers = number_classes(_classes(labelled, label) if label else [])
    parts = {}
    for name, known in wanted(splits, wanted_splits).items():
        rows = _rows(opened[name], known, columns)
        if len(classes) < len(numbers):
            rows = rows._replace(labels=[numbers[number] for number in rows.labels or ()])
        parts[name] = split_from_rows(rows, classes=len(classes), where=known, regions=regions)
    require_own_regions(parts)
    return with_class_words(Data(splits=parts, classes=classes, class_order=LISTED), texts)


def _local(
    root: Path, splits: Mapping[str, str], cache_dir: Path | None
) -> dict[str, list[SplitFile]]:
    """Return the files of a folder by split, those of `splits` opened. Raises DataError."""
    import datasets  # noqa: PLC0415 - takes a second, for data that load alone

    datasets.disable_progress_bars()
    if (root / SAVED).is_file():
        names = _read_file_names(root, SAVED, lambda content: content["splits"])
        return {
            name: _find_saved_parts(root, name) if name in splits.values() else [] for name in names
        }
    files = parquet_files(root)
    if not files:
        raise DataError(f"{root.name} holds neither parquet files nor what save_to_disk writes")
    own = {name: files_of_split(files, name) for name in splits.values()}
    others: dict[str, list[SplitFile]] = {
        split_of(one): [] for one in files if split_of(one) not in own
    }
    return others | {
        name: [SplitFile(file.as_posix(), _map_parquet(root / file, cache_dir)) for file in parts]
        for name, parts in own.items()
        if parts
    }


def _read_file_names(root: Path, name: str, names: Callable[[Any], list[Any]]) -> list[str]:
    """Return the names of files that a file of JSON lists. Raises DataError for others."""
    try:
        files = [str(one) for one in names(json.loads(read_text(root / name, name)))]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{name} is not what save_to_disk writes ({error!r:.200})") from error
    for one in files:
        if not is_file_name(one):
            raise DataError(f"{name} names {one!r:.200}, which is no file beside it")
    return files


def _find_saved_parts(root: Path, split: str) -> list[SplitFile]:
    """Return the files of a split that save_to_disk wrote. Raises DataError for a broken one.

    They are memory-mapped, so that what is wrong in them would end the process later.
    """
    import datasets  # noqa: PLC0415 - see above

    parts = []
    state = f"{split}/state.json"
    for file in _read_file_names(
        root, state, lambda content: [one["filename"] for one in content["_data_files"]]
    ):
        name = f"{split}/{file}"
        try:
            rows = datasets.Dataset.from_file(str(root / name))
            rows.data.validate(full=True)
        except DAMAGED as error:
            raise DataError(f"{name} cannot be read as Arrow ({error!r:.200})") from error
        parts.append(SplitFile(name, rows))
    if not parts:
        raise DataError(f"{state} names no file")
    return parts


def _map_parquet(file: Path, cache_dir: Path | None) -> Any:
    """Return a parquet file as a table of datasets, with the types that it was written with."""
    import datasets  # noqa: PLC0415 - see above

    from vlbench.data.parquet_files import require_modest  # noqa: PLC0415 - only for data that load

    place = str(cache_dir / "datasets") if cache_dir else None
    try:
        with file.open("rb") as opened:
            require_modest(opened)
        return datasets.Dataset.from_parquet(str(file), cache_dir=place)
    except (*DAMAGED, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{file.name} cannot be read as parquet: {error}") from error


def _join_parts(
    tables: Mapping[str, Sequence[SplitFile]], name: str, wanted: Mapping[str, Sequence[str]]
) -> Opened:
    """Return a split with all columns. Raises DataError for what is not there."""
    import datasets  # noqa: PLC0415 - see above

    if name not in tables:
        raise DataError(str(unknown("split", name, tables)))
    parts = [part._replace(rows=_with_plain_names(part)) for part in tables[name]]
    try:
        rows = datasets.concatenate_datasets([part.rows for part in parts])
    except ValueError as error:
        files = ", ".join(part.name for part in parts)
        raise DataError(f"{files} do not have the same columns: {error}") from error
    # Those that each file has: where one lacks a column, datasets has no value for its rows.
    known = set.intersection(*(set(part.rows.column_names) for part in parts))
    for column in chain(*wanted.values()):
        if column not in known:
            raise DataError(f"{name}: {lacks_column(column, known)}")
    return Opened(rows, partial(row_name, [(part.name, len(part.rows)) for part in parts]))


def _with_plain_names(part: SplitFile) -> Any:
    """Return rows whose columns have names in their normal form. Raises DataError for two of one.

    Without a change they stay the same object, whose place in the cache datasets knows.
    """
    names = part.rows.column_names
    forms = [normal_form(name) for name in names]
    if (twice := first_repeated(forms)) is not None:
        raise DataError(f"{part.name}: two columns are named {twice!r}")
    return (
        part.rows
        if forms == names
        else part.rows.rename_columns(dict(zip(names, forms, strict=True)))
    )


def _classes(tables: Mapping[str, Any], label: str) -> list[str]:
    """Return the names of the classes. Raises DataError for labels that have none, or others."""
    listed: list[Any] = [getattr(table.features[label], "names", None) for table in tables.values()]
    if not listed or any(names is None or names != listed[0] for names in listed):
        where = ", ".join(tables)
        raise DataError(f"{where}: the column {label} is not of one ClassLabel type in all splits")
    return [str(name) for name in listed[0]]


def _rows(opened: Opened, name: str, wanted: Mapping[str, Sequence[str]]) -> Rows:
    """Return what a table has for its images, which are read one at a time."""
    from datasets import Image  # noqa: PLC0415 - see _local

    (image,), more = wanted["image"], wanted.get("image_2", [])
    table, where = opened
    for column in (image, *more):
        if not isinstance(kind := table.features[column], Image):
            raise DataError(f"{name}: the column {column} holds {kind}, no images")
    others = {kind: names for kind, names in wanted.items() if not kind.startswith("image")}
    columns = {kind: [table[one][:] for one in names] for kind, names in others.items()}
    labels, items = (next(iter(columns.get(kind, ())), None) for kind in ("label", "item"))
    images, *second = (cell_images(table, column, where) for column in (image, *more))
    texts, named = said_in(columns, where), named_in(columns, where)
    return Rows(images, labels, items or (), texts, named, second)
