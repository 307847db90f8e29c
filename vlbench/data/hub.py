"""Anybody's images on the Hugging Face hub, at a pinned revision, or in a folder of the same files.

A folder holds parquet files in the hub's layout (`data/train-00000-of-00001.parquet`), or what the
library datasets wrote with `save_to_disk`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vlbench.data.hub_sets import HubSet, open_tables
from vlbench.data.images import labelled, streamed_images
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.data.texts import first_repeated
from vlbench.errors import DataAbsent, DataError, unknown

# How the encoded bytes of lossy formats begin; any other format is compared by its pixels.
LOSSY = {b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif", b"RIFF": ".webp"}


def images(  # noqa: PLR0913 - YAML fills them by name
    *,
    root: Path,
    repository: str,
    revision: str,
    splits: Mapping[str, str],
    config: str | None = None,
    image: str = "image",
    label: str = "label",
    caption: str = "",
    item: str = "",
    download: bool = False,
    cache_dir: Path | None = None,
) -> Data:
    """Return the splits of a data set of the hub, from the folder `root` where that is there.

    Otherwise `download` fetches the `revision` of `repository`, of its `config` if it has several.
    `splits` gives the data set's name of each split: `{train: train, test: validation}`. `image`,
    `label`, `caption` and `item` name columns; an empty name leaves one out. Images are encoded, as
    datasets stores them; labels are of its type ClassLabel. Parquet becomes Arrow in `cache_dir`.

    Raises DataAbsent where there is no such folder and nothing is downloaded, and DataError for a
    split, a column or a value that is not what it should be.
    """
    source = HubSet(repository, revision, config, image, label)
    absent = DataAbsent(str(source), "the hub (--download)", str(root))
    if root.is_dir():
        tables = _local(root, splits, cache_dir)
    elif download:
        tables = open_tables(source, absent)
    else:
        raise absent
    columns = {"image": image, "label": label, "caption": caption, "item": item}
    wanted = {kind: column for kind, column in columns.items() if column}
    opened = {name: _table(tables, known, wanted.values()) for name, known in splits.items()}
    classes = _classes(opened, label) if label else []
    found = {name: _split(opened[name], splits[name], wanted, classes) for name in opened}
    return Data(splits=found, classes=classes)


def _local(root: Path, splits: Mapping[str, str], cache_dir: Path | None) -> Any:
    """Return the tables of a folder by split. Raises DataError where it holds none."""
    import datasets  # noqa: PLC0415 - takes a second, for data that load alone

    datasets.disable_progress_bars()
    if (root / "dataset_dict.json").is_file():
        return datasets.load_from_disk(str(root))
    files = sorted(root.rglob("*.parquet"))
    own = {name: [file for file in files if _split_of(file) == name] for name in splits.values()}
    if not files:
        raise DataError(f"{root.name} holds neither parquet files nor what save_to_disk writes")
    return {
        name: datasets.concatenate_datasets([_mapped(file, cache_dir) for file in parts])
        for name, parts in own.items()
        if parts
    }


def _split_of(file: Path) -> str:
    """Return the split of a parquet file: `train` of `train-00000-of-00002.parquet`."""
    return re.sub(r"-\d+-of-\d+.*$", "", file.stem)


def _mapped(file: Path, cache_dir: Path | None) -> Any:
    """Return a parquet file as a table of datasets, with the types that it was written with."""
    import datasets  # noqa: PLC0415 - see above
    from pyarrow import ArrowException  # noqa: PLC0415

    place = str(cache_dir / "datasets") if cache_dir else None
    try:
        return datasets.Dataset.from_parquet(str(file), cache_dir=place)
    except (OSError, ValueError, ArrowException, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{file.name} cannot be read as parquet: {error}") from error


def _table(tables: Mapping[str, Any], name: str, columns: Any) -> Any:
    """Return a split with all columns. Raises DataError for what is not there."""
    if name not in tables:
        raise DataError(str(unknown("split", name, tables)))
    for column in columns:
        if column not in tables[name].column_names:
            raise DataError(f"{name}: {unknown('column', column, tables[name].column_names)}")
    return tables[name]


def _classes(tables: Mapping[str, Any], label: str) -> list[str]:
    """Return the names of the classes. Raises DataError for labels that have none, or others."""
    listed: list[Any] = [getattr(table.features[label], "names", None) for table in tables.values()]
    if not listed or any(names is None or names != listed[0] for names in listed):
        raise DataError(f"the column {label} is not of one ClassLabel type in all splits")
    return [str(name) for name in listed[0]]


def _split(table: Any, name: str, wanted: Mapping[str, str], classes: Sequence[str]) -> Split:
    columns = {"image": _images(table, name, wanted)}
    if "label" in wanted:
        numbers = table[wanted["label"]][:]
        columns |= labelled(columns["image"], numbers, classes=len(classes), where=name).columns
    if "caption" in wanted:
        texts = table[wanted["caption"]][:]
        wrong = [i for i, text in enumerate(texts) if not isinstance(text, str) or not text.strip()]
        if wrong:
            raise DataError(f"{name}, row {wrong[0]}: the caption is {texts[wrong[0]]!r}, no text")
        columns["caption"] = value_column(texts, "text")
        columns["captions"] = value_column([[text] for text in texts])
    return Split(columns)


def _images(table: Any, name: str, wanted: Mapping[str, str]) -> Column:
    """Return the images, read from the memory-mapped table one at a time."""
    from datasets import Image  # noqa: PLC0415 - see _local

    column = wanted["image"]
    if not isinstance(table.features[column], Image):
        raise DataError(f"{name}: the column {column} holds {table.features[column]}, no images")
    # Select the column once: selecting it for each image costs ten times the decoding.
    cells = table.cast_column(column, Image(decode=False)).select_columns([column])
    read = partial(_bytes, cells, column, name)
    names = [f"{name}, row {i}{_suffix(read(i))}" for i in range(len(cells))]
    images = streamed_images(names, read)
    items = [str(one) for one in table[wanted["item"]][:]] if "item" in wanted else []
    if (twice := first_repeated(items)) is not None:
        raise DataError(f"{name}: two rows have the item {twice!r}")
    return replace(images, names=items)


def _bytes(cells: Any, column: str, name: str, row: int) -> bytes:
    encoded = (cells[row][column] or {}).get("bytes")
    if not encoded:
        raise DataError(f"{name}, row {row}: there is no image in the table itself")
    return bytes(encoded)


def _suffix(encoded: bytes) -> str:
    return next((suffix for start, suffix in LOSSY.items() if encoded.startswith(start)), ".png")
