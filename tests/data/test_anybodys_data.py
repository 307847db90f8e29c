"""One data set as parquet of the hub, as tar shards and as a CSV table: the same data and rows."""

import csv
import json
import shutil
from functools import cache
from itertools import chain

import datasets
import numpy as np
import pytest
import torch
from foil_files import image_bytes
from PIL import Image
from runs import evaluate
from sources import ADAPTER, MODELS, write
from tar_shards import pack, put_split

from vlbench.cli import main
from vlbench.data import hub, table, webdataset
from vlbench.engine import Engine

NAMES = ["blue", "green", "red"]
SHARDS = 20
# Each format in every shard, since a reader might take that of the first example for all.
FORMS = ("PNG", "JPEG", "WEBP")

TASK = """\
version: 1
probe: few_shot
paper: "a paper"
data: {data}
params: {{shots: [1], trials: 2}}
primary: {{metric: accuracy, at: {{shots: 1}}}}
"""
LOADERS = {
    "hub": '{loader: "vlbench.data.hub:images", root: ../../hub, repository: a/b, revision: c,'
    " splits: {train: train, test: test}}",
    "shards": '{loader: "vlbench.data.webdataset:images", root: ../../shards,'
    " splits: {train: train, test: test}}",
    "table": '{loader: "vlbench.data.table:images", root: ../../table, train: train.csv,'
    " test: test.csv, classes: [blue, green, red]}",
}


@cache
def encoded(i, form):
    """Return an image of one of three classes, of its own."""
    pixels = np.random.default_rng(i).integers(0, 90, (4, 4, 3), np.uint8)
    pixels[..., 2 - i % 3] += 150
    return image_bytes(Image.fromarray(pixels), form)


def rows_of(split, count):
    start = 0 if split == "train" else count
    for i in range(start, start + count):
        form = FORMS[i // 3 % 3]
        # Of many images, most are repeated: encoding them takes longest.
        stored = encoded(i % 900, form)
        yield f"s{i:07}", form.lower().replace("jpeg", "jpg"), stored, i % 3


def put(root, per_shard):
    """Write the two splits of one data set in three ways."""
    for split, count in (("train", 9), ("test", SHARDS * per_shard)):
        rows = list(rows_of(split, count))
        packed = [
            [(f"{key}.{suffix}", stored), (f"{key}.cls", str(label).encode())]
            for key, suffix, stored, label in rows
        ]
        size = max(1, len(packed) // SHARDS)
        parts = [[*chain(*packed[i : i + size])] for i in range(0, len(packed), size)]
        put_split(root / "shards", parts, split=split, names=NAMES)
        put_parquet(root / "hub" / "data", split, rows)
        put_table(root / "table", split, rows)
    for name, data in LOADERS.items():
        write(root / "ours/tasks" / f"few_shot_{name}.yaml", TASK.format(data=data))
    write(root / "ours/model_adapters/colours.py", ADAPTER)
    write(root / "ours/model_adapters/models.yaml", MODELS)
    return root


def put_parquet(folder, split, rows):
    folder.mkdir(parents=True, exist_ok=True)
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    for part in range(2):
        own = rows[part * len(rows) // 2 : (part + 1) * len(rows) // 2]
        columns = {
            "image": [{"bytes": stored, "path": None} for _, _, stored, _ in own],
            "label": [label for *_, label in own],
        }
        stored = datasets.Dataset.from_dict(columns, datasets.Features(features))
        stored.to_parquet(folder / f"{split}-{part:05}-of-00002.parquet")


def put_table(folder, split, rows):
    (folder / split).mkdir(parents=True)
    with (folder / f"{split}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label"])
        for key, suffix, stored, label in rows:
            (folder / split / f"{key}.{suffix}").write_bytes(stored)
            writer.writerow([f"{split}/{key}.{suffix}", NAMES[label]])


def loaded(root, cache, **options):
    splits = {"train": "train", "test": "test"}
    return {
        "hub": hub.images(
            root=root / "hub",
            repository="a/b",
            revision="c",
            splits=splits,
            cache_dir=cache,
            **options,
        ),
        "shards": webdataset.images(root=root / "shards", splits=splits, **options),
        "table": table.images(
            root=root / "table", train="train.csv", test="test.csv", classes=NAMES, **options
        ),
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return put(tmp_path_factory.mktemp("anybody"), 6)


class Colours:
    """The mean of each colour."""

    def preprocess(self, image):
        return torch.from_numpy(np.asarray(image).transpose(2, 0, 1) / np.float32(255))

    def encode_images(self, pixels):
        return pixels.mean((2, 3))


def test_no_image_is_read_of_a_split_that_is_not_wanted(root, tmp_path):
    found = loaded(root, tmp_path, wanted_splits=["test"]).values()
    assert [list(data.splits) for data in found] == [["test"]] * 3
    assert len({data.digest() for data in found}) == 1


@pytest.mark.parametrize("per_shard", [6, pytest.param(1000, marks=pytest.mark.nightly)])
def test_the_same_images_are_the_same_data_and_features(tmp_path, per_shard):
    found = loaded(put(tmp_path / "all", per_shard), tmp_path / "cache")
    assert len({data.digest() for data in found.values()}) == 1
    columns = [data.splits["test"]["image"] for data in found.values()]
    assert {len(column) for column in columns} == {SHARDS * per_shard}
    few = [column.select(range(0, len(column), max(1, per_shard // 60))) for column in columns]
    of_hub, *others = (Engine.for_tests().features(Colours().encode_images, one) for one in few)
    assert len(of_hub.unique(dim=0)) > 100
    assert all(torch.equal(of_hub, other) for other in others)


def test_the_same_images_are_the_same_row(root, tmp_path):
    tasks = [f"few_shot_{name}" for name in LOADERS]
    results = evaluate(root / "ours", tasks=tasks, cache_dir=tmp_path)
    assert [result.primary_score.value for result in results] == [1, 1, 1]
    assert len({str(result.scores) for result in results}) == 1
    assert len({result.provenance["data"].split()[-1] for result in results}) == 1


def data_of(root, task, *words):
    return main(["data", task, "--include-path", str(root / "ours"), *words])


def test_what_each_task_will_read_is_shown(root, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shown = []
    for name in LOADERS:
        assert data_of(root, f"few_shot_{name}", "--json") == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert len({one["data"] for one in shown}) == 1
    (train, test) = shown[1]["splits"].values()
    assert (train["rows"], test["rows"], shown[1]["classes"]) == (9, 120, 3)
    assert train["examples"][1] == "s0000001: green"
    assert test["sizes"] == {"4x4": 120}
    assert (test["duplicates"], test["overlap"]) == (0, {"train": 0})


def test_rows_twice_and_in_both_splits_are_counted_in_shards(root, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(root / "ours", tmp_path / "all/ours")
    x, y, z = ([(f"{key}.png", encoded(0, "PNG")), (f"{key}.cls", b"0")] for key in "xyz")
    put_split(tmp_path / "all/shards", [[*x, *y]], split="train", names=NAMES)
    put_split(tmp_path / "all/shards", [z], names=NAMES)
    assert data_of(tmp_path / "all", "few_shot_shards") == 0
    told = capsys.readouterr().out
    assert "2 rows of train also in test" in told
    assert "1 row of test also in train" in told
    assert any(row.split()[:4] == ["train", "2", "0", "1"] for row in told.splitlines())


@pytest.mark.parametrize("end", [None, -30])
def test_data_and_a_run_name_a_broken_image_of_a_shard(root, capsys, tmp_path, monkeypatch, end):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(root, tmp_path / "all")
    broken = encoded(0, "JPEG")[:end] if end else b"\xff\xd8\xff no image"
    members = [("s1.jpg", encoded(0, "JPEG")), ("s1.cls", b"0"), ("s2.jpg", broken)]
    pack(tmp_path / "all/shards/test/3.tar", [*members, ("s2.cls", b"0")])
    assert data_of(tmp_path / "all", "few_shot_shards") == 2
    assert "test/3.tar: s2 cannot be decoded as an image" in capsys.readouterr().err
    (result,) = evaluate(tmp_path / "all/ours", tasks="few_shot_shards")
    assert result.status == "failed"
    assert "test/3.tar: s2 cannot be decoded as an image" in result.reason
