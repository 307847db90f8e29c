"""User-chosen image data sets on the Hugging Face hub, at a revision, or in a local folder.

A folder contains parquet files in the hub's layout (`data/train-00000-of-00001.parquet`; see
`vlbench.data.split_files`), or files written by `save_to_disk` of the library datasets.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from vlbench.data.coco_files import first_repeated, read_text
from vlbench.data.corpora import require_texts
from vlbench.data.formats.archives import DAMAGED
from vlbench.data.gate import (
    Columns,
    RowOptions,
    Rows,
    begin,
    columns_of,
    data_of_rows,
    own_columns,
)
from vlbench.data.hub_sets import HubSet, cell_images, open_tables, row_name
from vlbench.data.records import Column, Data
from vlbench.data.split_files import files_of_split, parquet_files, split_of
from vlbench.errors import DataAbsent, DataError, listed, unknown
from vlbench.system.digests import file_digests
from vlbench.system.files import is_file_name, write_whole

# The file that lists the splits in a folder of save_to_disk.
SAVED = "dataset_dict.json"
# The suffix of the file with the digest of a converted parquet file, beside it.
SEAL = ".sha256"


class SplitFile(NamedTuple):
    """A file of a split, under its name in errors, and its rows."""

    name: str
    rows: Any


class Opened(NamedTuple):
    """The rows of a split, its spelling of the requested columns, and rows' names in errors."""

    rows: Any
    columns: Mapping[str, str]
    where: Callable[[int], str]


def images(
    *,
    root: Path,
    repository: str,
    revision: str,
    splits: Mapping[str, str],
    config: str | None = None,
    download: bool = False,
    cache_dir: Path | None = None,
    **options: Unpack[RowOptions],
) -> Data:
    """Return the splits of a data set of the hub, from a local folder if it exists.

    Otherwise `download` fetches it. Images are encoded, as datasets stores them; labels are of its
    type ClassLabel, texts, or numbers of the listed `classes`. Parquet is converted to Arrow in
    `cache_dir`.

    Raises DataAbsent if the folder does not exist and nothing is downloaded, and DataError for an
    invalid split, column or value.

    Args:
        root: folder of the data set's files, read if it exists.
        repository: name of the data set on the hub.
        revision: branch, tag or commit of the repository.
        splits: the data set's name of each split: `{train: train, test: validation}`.
        config: configuration of a data set that has several; None: it has one.
        **options: options of every source of rows, see `vlbench.data.gate.RowOptions`.
    """
    source = HubSet(repository, revision, config)
    absent = DataAbsent(str(source), "the hub (--download)", str(root))
    if root.is_dir():
        begin(options)
        tables = _local(root, splits, cache_dir)
        for split in splits.values():
            _refuse_copies(root, tables.get(split, ()))
    elif download:
        require_texts(options.get("texts"))
        downloaded = open_tables(source, absent)
        tables = {name: [SplitFile(name, downloaded[name])] for name in downloaded}
    else:
        raise absent
    columns = columns_of(options)
    opened = {name: _join_parts(tables, split, columns) for name, split in splits.items()}
    classes = _classes(opened, splits, columns["label"][0]) if "label" in columns else None
    rows = {name: partial(_rows, part, splits[name], columns) for name, part in opened.items()}
    return data_of_rows(options, columns, rows, classes=classes)


def _local(
    root: Path, splits: Mapping[str, str], cache_dir: Path | None
) -> dict[str, list[SplitFile]]:
    """Return the files of a folder by split; open only those in `splits`. Raises DataError."""
    import datasets  # noqa: PLC0415 - takes a second, for data that load alone

    datasets.disable_progress_bars()
    if (root / SAVED).is_file():
        names = _read_file_names(root, SAVED, lambda content: content["splits"])
        return {
            name: _find_saved_parts(root, name) if name in splits.values() else [] for name in names
        }
    files = parquet_files(root)
    if not files:
        raise DataError(
            f"{root.name} contains neither parquet files nor the files that save_to_disk writes"
        )
    by_split = {name: files_of_split(files, name) for name in splits.values()}
    others: dict[str, list[SplitFile]] = {
        split_of(file): [] for file in files if split_of(file) not in by_split
    }
    return others | {
        name: [SplitFile(file.as_posix(), _map_parquet(root / file, cache_dir)) for file in parts]
        for name, parts in by_split.items()
        if parts
    }


def _refuse_copies(root: Path, parts: Sequence[SplitFile]) -> None:
    """Raise DataError if two files of a split, which have rows, have the same content."""
    sizes = {part.name: (root / part.name).stat().st_size for part in parts if len(part.rows)}
    # Shards may be large: only those of one size are read.
    counts = Counter(sizes.values())
    names = [name for name, size in sizes.items() if counts[size] > 1]
    digests = file_digests([root / name for name in names], "bytes")
    if (twice := first_repeated(digests)) is not None:
        same = [name for name, content in zip(names, digests, strict=True) if content == twice]
        raise DataError(f"{listed(same)} have the same content; fetch them again")


def _read_file_names(root: Path, name: str, names: Callable[[Any], list[Any]]) -> list[str]:
    """Return the file names in a JSON file. Raises DataError for an unsafe name."""
    try:
        files = [str(entry) for entry in names(json.loads(read_text(root / name, name)))]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{name} was not written by save_to_disk ({error!r:.200})") from error
    for file in files:
        if not is_file_name(file):
            raise DataError(f"{name} names {file!r:.200}, which is not in the same folder")
    return files


def _find_saved_parts(root: Path, split: str) -> list[SplitFile]:
    """Return the files of a split that save_to_disk wrote. Raises DataError for a broken file.

    They are memory-mapped, so an unnoticed error in them would end the process later.
    """
    import datasets  # noqa: PLC0415 - see above

    parts = []
    state = f"{split}/state.json"
    for file in _read_file_names(
        root, state, lambda content: [entry["filename"] for entry in content["_data_files"]]
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
    """Return a parquet file as a table of datasets, with the types of its schema.

    datasets knows the file of a conversion by path and date, so each content has its own folder.
    """
    import datasets  # noqa: PLC0415 - see above

    from vlbench.data.parquet_files import require_modest  # noqa: PLC0415 - only for data that load

    kept = cache_dir / "datasets" if cache_dir else Path(datasets.config.HF_DATASETS_CACHE)
    place = kept / "parquet" / file_digests([file], "bytes")[0]
    try:
        with file.open("rb") as opened:
            require_modest(opened)
        _remove_damaged(place)
        rows = datasets.Dataset.from_parquet(str(file), cache_dir=str(place))
    except (*DAMAGED, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{file.name} cannot be read as parquet: {error}") from error
    for made in (Path(entry["filename"]) for entry in rows.cache_files):
        if not made.with_suffix(SEAL).exists():
            write_whole(made.with_suffix(SEAL), file_digests([made], "bytes")[0].encode())
    return rows


def _remove_damaged(place: Path) -> None:
    """Remove a folder of conversions if one of them has changed since it was written."""
    for seal in [*place.rglob(f"*{SEAL}")]:
        made = seal.with_suffix(".arrow")
        if not made.is_file() or seal.read_bytes() != file_digests([made], "bytes")[0].encode():
            shutil.rmtree(place)
            return


def _join_parts(tables: Mapping[str, Sequence[SplitFile]], name: str, columns: Columns) -> Opened:
    """Return a split with all its files. Raises DataError for a missing split or column."""
    import datasets  # noqa: PLC0415 - see above

    if name not in tables:
        raise DataError(str(unknown("split", name, tables)))
    parts = tables[name]
    try:
        rows = datasets.concatenate_datasets([part.rows for part in parts])
    except ValueError as error:
        files = ", ".join(part.name for part in parts)
        raise DataError(f"{files} do not have the same columns: {error}") from error
    # Only columns of all files: datasets has no value for the rows of a file without a column.
    first, *others = (part.rows.column_names for part in parts)
    shared = [column for column in first if all(column in other for other in others)]
    where = partial(row_name, [(part.name, len(part.rows)) for part in parts])
    return Opened(rows, own_columns(columns, shared, name), where)


def _classes(
    opened: Mapping[str, Opened], splits: Mapping[str, str], label: str
) -> list[str] | None:
    """Return the classes that a column lists; None if its values are names or numbers.

    Raises DataError if the lists of the splits differ.
    """
    kinds = [split.rows.features[split.columns[label]] for split in opened.values()]
    lists: list[Any] = [getattr(kind, "names", None) for kind in kinds]
    if any(names != lists[0] for names in lists):
        where = ", ".join(splits.values())
        raise DataError(f"{where}: the column {label} is not of one ClassLabel type in all splits")
    return None if lists[0] is None else [str(name) for name in lists[0]]


def _rows(opened: Opened, name: str, columns: Columns) -> Rows:
    """Return the rows of a table, whose images are read one at a time."""
    from datasets import Image  # noqa: PLC0415 - see _local

    table, spellings, where = opened

    def images_in(column: str) -> Column:
        if not isinstance(kind := table.features[spellings[column]], Image):
            raise DataError(f"{name}: the column {column} contains {kind}, not images")
        return cell_images(table, spellings[column], where)

    pictured = {*columns["image"], *columns.get("image_2", ())}
    read = {column for column in chain(*columns.values()) if column not in pictured}
    return Rows(name, {column: table[spellings[column]][:] for column in read}, images_in, where)
