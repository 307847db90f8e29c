"""The same rows, written for each source of rows that vlbench.data reads.

A row is `Row(level, label, caption, ...)`: its image is of one colour, `level`. Whoever adds a
loader that takes `vlbench.data.gate.RowOptions` adds a line to `SOURCES`.
"""

import csv
from collections.abc import Callable
from typing import Any, NamedTuple

import datasets
import pyarrow as pa
from foil_files import image_bytes
from PIL import Image
from pyarrow import parquet
from tar_shards import put_split

from vlbench.data import hub, table, webdataset
from vlbench.data.captioned_folder import captioned_folder
from vlbench.data.image_folder import image_folder


def row(level, label="cat", caption=("a cat",), name="", **more):
    """Return a row; `name` is its item, `more` columns of texts."""
    name = name or f"{level}"
    return {"level": level, "label": label, "caption": list(caption), "name": name, **more}


def encoded(level):
    return image_bytes(Image.new("RGB", (4, 3), (level, 0, 0)), "PNG")


def in_folders(root, rows, split):
    for one in rows:
        folder = root / split / one["label"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one['name']}.png").write_bytes(encoded(one["level"]))


def in_captioned_folder(root, rows, _):
    root.mkdir(exist_ok=True)
    for one in rows:
        (root / f"{one['name']}.png").write_bytes(encoded(one["level"]))
        (root / f"{one['name']}.txt").write_bytes("\r\n".join(one["caption"]).encode())


def files_of(root, rows):
    root.mkdir(exist_ok=True)
    for one in rows:
        (root / f"{one['level']}.png").write_bytes(encoded(one["level"]))
    kept = ("level", "name")
    return [
        {"image": f"{one['level']}.png", "name": one["name"]}
        | {key: value for key, value in one.items() if key not in kept}
        for one in rows
    ]


def in_csv(root, rows, split):
    with (root / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
        own = files_of(root, rows)
        for one in own:
            (one["caption"],) = one["caption"] or [""]
        writer = csv.DictWriter(file, own[0])
        writer.writeheader()
        writer.writerows(own)


def in_parquet(root, rows, split):
    parquet.write_table(pa.Table.from_pylist(files_of(root, rows)), root / f"{split}.parquet")


def as_dataset(rows):
    names = list(dict.fromkeys(one["label"] for one in rows))
    columns = {key: [one[key] for one in rows] for key in rows[0] if key not in ("level", "label")}
    columns["image"] = [{"bytes": encoded(one["level"]), "path": None} for one in rows]
    columns["label"] = [names.index(one["label"]) for one in rows]
    types = {key: datasets.Value("string") for key in columns}
    types["caption"] = datasets.Sequence(datasets.Value("string"))
    types |= {"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}
    return datasets.Dataset.from_dict(columns, datasets.Features(types))


def on_the_hub(root, rows, split):
    (root / "data").mkdir(exist_ok=True)
    as_dataset(rows).to_parquet(root / f"data/{split}-00000-of-00001.parquet")


def saved_to_disk(root, rows, split):
    datasets.DatasetDict({split: as_dataset(rows)}).save_to_disk(root)


def in_shards(root, rows, split):
    names = list(dict.fromkeys(one["label"] for one in rows))
    members = []
    for one in rows:
        parts = {"png": encoded(one["level"]), "cls": str(names.index(one["label"])).encode()}
        parts["txt"] = "\r\n".join(one["caption"]).encode()
        others = ("level", "label", "caption", "name")
        parts |= {key: value.encode() for key, value in one.items() if key not in others}
        members += [(f"{one['name']}.{suffix}", content) for suffix, content in parts.items()]
    put_split(root, [members], split=split, names=names)


class Source(NamedTuple):
    """A loader, how its rows are written, its arguments for two splits, and the columns it has."""

    load: Callable[..., Any]
    put: Callable[..., None]
    arguments: dict[str, Any]
    columns: dict[str, str]


HUB = {"repository": "a/b", "revision": "0", "splits": {"test": "test"}}
NAMED = {"label": "label", "caption": "caption", "item": "name", "foil": "foil", "image_2": "image"}
SOURCES = {
    "folders": Source(image_folder, in_folders, {}, {"label": "label"}),
    "captioned folder": Source(captioned_folder, in_captioned_folder, {}, {"caption": "caption"}),
    "csv": Source(table.images, in_csv, {"test": "test.csv"}, NAMED),
    "parquet": Source(table.images, in_parquet, {"test": "test.parquet"}, NAMED),
    "hub": Source(hub.images, on_the_hub, HUB, NAMED),
    "saved": Source(hub.images, saved_to_disk, HUB, NAMED),
    "shards": Source(
        webdataset.images,
        in_shards,
        {"splits": {"test": "test"}},
        {"label": "cls", "caption": "txt", "foil": "foil", "item": "__key__"},
    ),
}


def with_column(*kinds):
    """Return the names of the sources that have columns of these kinds."""
    return [name for name, one in SOURCES.items() if {*kinds} <= one.columns.keys()]


def load(name, root, rows, kinds=(), **options):
    """Write rows for a source, and return what it reads of columns of these kinds."""
    source = SOURCES[name]
    root.mkdir(exist_ok=True)
    source.put(root, rows, "test")
    named = {kind: source.columns[kind] for kind in kinds}
    unlabelled = {} if "label" in kinds or "label" not in source.columns else {"label": ""}
    return source.load(root=root, **source.arguments, **{**unlabelled, **named, **options})
