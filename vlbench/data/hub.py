"""Anybody's images on the Hugging Face hub, at a pinned revision, or in a folder of the same files.

A folder holds parquet files in the hub's layout (`data/train-00000-of-00001.parquet`), or what the
library datasets wrote with `save_to_disk`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.described import Named, Rows, columns_of, described, said_in
from vlbench.data.hub_sets import HubSet, cell_images, open_tables
from vlbench.data.records import Data, wanted
from vlbench.errors import DataAbsent, DataError, unknown


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
    `label`, `caption`, `question` and `item` name columns; an empty name leaves one out. Images are
    encoded, as datasets stores them; labels are of its type ClassLabel; captions and questions are
    columns of texts or of lists of texts, one column or several. Parquet becomes Arrow in
    `cache_dir`. `regions`, `texts` and `wanted_splits` are as in `vlbench.data.table`.

    Raises DataAbsent where there is no such folder and nothing is downloaded, and DataError for a
    split, a column or a value that is not what it should be.
    """
    require_texts(texts)
    source = HubSet(repository, revision, config, image, label)
    absent = DataAbsent(str(source), "the hub (--download)", str(root))
    if root.is_dir():
        tables = _local(root, splits, cache_dir)
    elif download:
        tables = open_tables(source, absent)
    else:
        raise absent
    said = {"caption": caption, "question": question}
    columns = columns_of({"image": image, "label": label, "item": item, **said})
    opened = {name: _table(tables, known, columns) for name, known in splits.items()}
    classes = _classes(opened, label) if label else []
    found = {}
    for name, known in wanted(splits, wanted_splits).items():
        rows = _rows(opened[name], known, columns)
        found[name] = described(rows, classes=len(classes), where=known, regions=regions)
    return with_class_words(Data(splits=found, classes=classes), texts)


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


def _table(tables: Mapping[str, Any], name: str, wanted: Mapping[str, Sequence[str]]) -> Any:
    """Return a split with all columns. Raises DataError for what is not there."""
    if name not in tables:
        raise DataError(str(unknown("split", name, tables)))
    for column in chain(*wanted.values()):
        if column not in tables[name].column_names:
            raise DataError(f"{name}: {unknown('column', column, tables[name].column_names)}")
    return tables[name]


def _classes(tables: Mapping[str, Any], label: str) -> list[str]:
    """Return the names of the classes. Raises DataError for labels that have none, or others."""
    listed: list[Any] = [getattr(table.features[label], "names", None) for table in tables.values()]
    if not listed or any(names is None or names != listed[0] for names in listed):
        raise DataError(f"the column {label} is not of one ClassLabel type in all splits")
    return [str(name) for name in listed[0]]


def _rows(table: Any, name: str, wanted: Mapping[str, Sequence[str]]) -> Rows:
    """Return what a table has for its images, which are read one at a time."""
    from datasets import Image  # noqa: PLC0415 - see _local

    (image,) = wanted["image"]
    if not isinstance(table.features[image], Image):
        raise DataError(f"{name}: the column {image} holds {table.features[image]}, no images")
    others = {kind: names for kind, names in wanted.items() if kind != "image"}
    columns = {kind: [table[one][:] for one in names] for kind, names in others.items()}
    labels, items = (next(iter(columns.get(kind, ())), None) for kind in ("label", "item"))
    said = said_in(columns, lambda row: f"{name}, row {row}")
    images = cell_images(table, image, name)
    return Rows(images, labels, [str(one) for one in items or ()], said)
