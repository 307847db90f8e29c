"""Data sets of the hub as a user names them: written here as the hub keeps them."""

import json
import os
import shutil
from functools import partial

import datasets
import numpy as np
import pytest
from PIL import Image

from vlbench.data.hub import images
from vlbench.data.hub_sets import encoded_digest
from vlbench.data.image_folder import image_folder
from vlbench.data.records import labels
from vlbench.errors import DataAbsent, DataError
from vlbench.system.digests import remembered_in

NAMES = ["cat", "dog"]
# Nine labels of each class, as Arrow stores them.
CLASS_0, CLASS_1 = (number.to_bytes(8, "little") * 9 for number in (0, 1))
SOURCE = {"repository": "org/pets", "revision": "a" * 40, "splits": {"test": "validation"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three images in class folders: two PNGs and a JPEG."""
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for name in ("cat/a.png", "cat/b.jpg", "dog/c.png"):
        file = root / "test" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)).save(file)
    return root


@pytest.fixture(scope="module")
def table(folder):
    files = sorted((folder / "test").rglob("*.*"))
    rows = {
        "image": [{"bytes": file.read_bytes(), "path": None} for file in files],
        "label": [0, 0, 1],
        "text": ["a cat", "another", "a dog"],
        "id": ["one", "two", "three"],
    }
    types = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    text = {name: datasets.Value("string") for name in ("text", "id")}
    return datasets.Dataset.from_dict(rows, datasets.Features({**types, **text}))


def parquet(table, root):
    (root / "data").mkdir(parents=True)
    for part in range(2):
        rows = table.select(range(1) if part == 0 else range(1, len(table)))
        rows.to_parquet(root / "data" / f"validation-{part:05}-of-00002.parquet")
    return root


def on_disk(table, root):
    datasets.DatasetDict(validation=table).save_to_disk(root, num_shards={"validation": 2})
    return root


def load(root, tmp_path, **options):
    return images(root=root, cache_dir=tmp_path / "cache", **{**SOURCE, **options})


@pytest.mark.parametrize("written", [parquet, on_disk])
def test_a_folder_of_the_hub_is_the_same_data_as_its_images(written, table, folder, tmp_path):
    data = load(written(table, tmp_path / "pets"), tmp_path)
    assert data.digest() == image_folder(root=folder).digest()
    assert data.classes == NAMES
    assert labels(data.splits["test"]).tolist() == [0, 0, 1]


def test_a_download_is_the_same_data(table, folder, tmp_path, monkeypatch):
    asked = []

    def fetch(source, _):
        asked.append((source.repository, source.revision, source.configuration))
        return {"validation": table}

    monkeypatch.setattr("vlbench.data.hub.open_tables", fetch)
    data = load(tmp_path / "absent", tmp_path, download=True, config="small")
    assert data.digest() == image_folder(root=folder).digest()
    assert asked == [("org/pets", "a" * 40, "small")]


def test_nothing_is_downloaded_unasked(tmp_path):
    message = r"^org/pets, revision a+ not found; get it from the hub \(--download\); put it at "
    with pytest.raises(DataAbsent, match=message):
        load(tmp_path / "absent", tmp_path)


LACKING = [
    ({"splits": {"test": "valid"}}, "no split is named 'valid'"),
    ({"image": "text"}, "validation: the column text contains .*, not images"),
    (
        {"caption": "label"},
        r"validation/data-00000-of-00002\.arrow, row 0: the caption is 0, not a text",
    ),
]


@pytest.mark.parametrize(("options", "message"), LACKING)
def test_what_a_data_set_lacks_is_named(options, message, table, tmp_path):
    with pytest.raises(DataError, match=message):
        load(on_disk(table, tmp_path / "pets"), tmp_path, **options)


def broken(table, encoded):
    rows = table.select_columns(["image", "label"])
    stored = rows.cast_column("image", datasets.Image(decode=False)).to_dict()
    stored["image"][2] = encoded and {"bytes": encoded, "path": None}
    return datasets.Dataset.from_dict(stored, rows.features)


BROKEN_IMAGES = [
    (b"nothing", r"row \d cannot be decoded as an image"),
    (None, r"row \d: the table contains no image, only references"),
]


@pytest.mark.parametrize(("encoded", "message"), BROKEN_IMAGES)
@pytest.mark.parametrize(
    ("written", "file"),
    [(parquet, r"^data/validation-00001-of-00002\.par"), (on_disk, "^validation/data-00001-of-0")],
)
def test_a_broken_image_is_named_by_file_and_row(written, file, encoded, message, table, tmp_path):
    root = written(broken(table, encoded), tmp_path / "pets")
    with pytest.raises(DataError, match=f"{file}.*, {message}"):
        load(root, tmp_path)


@pytest.mark.parametrize("name", ["../../outside.arrow", "/etc/passwd", "", None])
def test_a_file_of_save_to_disk_is_beside_its_list(name, table, tmp_path):
    root = on_disk(table, tmp_path / "pets")
    shutil.copy(root / "validation/data-00000-of-00002.arrow", tmp_path / "outside.arrow")
    state = {"_data_files": [{"filename": name}] if name is not None else []}
    (root / "validation/state.json").write_text(json.dumps(state))
    message = r"validation/state\.json names (.*not in the same|no file)"
    with pytest.raises(DataError, match=message):
        load(root, tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"splits": 7}', b"[" * 100_000, b"\xff"])
def test_a_list_that_save_to_disk_did_not_write_is_named(content, table, tmp_path):
    root = on_disk(table, tmp_path / "pets")
    (root / "dataset_dict.json").write_bytes(content)
    with pytest.raises(DataError, match=r"dataset_dict\.json "):
        load(root, tmp_path)


def test_files_of_other_columns_are_named(table, tmp_path):
    root = parquet(table, tmp_path / "pets")
    other = table.cast_column("label", datasets.Value("string"))
    other.to_parquet(root / "data/validation-00001-of-00002.parquet")
    with pytest.raises(DataError, match=r"00001-of-00002\.parquet do not have the same columns"):
        load(root, tmp_path)


def test_a_column_that_one_file_lacks_is_named(table, tmp_path):
    root = parquet(table, tmp_path / "pets")
    table.remove_columns("text").to_parquet(root / "data/validation-00001-of-00002.parquet")
    with pytest.raises(DataError, match="validation: no column is named 'text'; there are"):
        load(root, tmp_path, caption="text", item="text")


@pytest.mark.parametrize("file", ["data/{}-00000-of-00001.parquet", "{}/0000.parquet"])
def test_splits_whose_classes_are_in_another_order_are_refused(file, table, tmp_path):
    root = tmp_path / "pets"
    turned = table.cast_column("label", datasets.ClassLabel(names=NAMES[::-1]))
    for name, rows in {"train": table, "test": turned}.items():
        (root / file.format(name)).parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(root / file.format(name))
    with pytest.raises(DataError, match="train, test: the column label is not of one ClassLabel"):
        load(root, tmp_path, splits={"train": "train", "test": "test"})


WRONG_FILES = [
    (["data/{}-00001-of-00003"], r"shard 0 of the 3 .* missing beside data/validation-00001-o"),
    (
        ["{}-00000-of-00001", "{}-00001-of-00001"],
        "00001-of-.* is beyond the 1 shards that its name declares",
    ),
    (["data/{}-00000-of-00001-a", "data/{}-00000-of-00001-b"], "twice, as data/v.*-a.*-b.par"),
    (["data/{}-00000-of-00001", "data/{}-00000-of-00002"], "validation is there twice"),
    (["small/{}-00000-of-00001", "large/{}-00000-of-00001"], "twice, as large/.*, small/"),
    (["{}", "{}-00000-of-00001"], "the split validation is there twice"),
    (
        ["{}", "validation-more"],
        r"validation-more.parquet may or may not belong to the split validation",
    ),
    (["train-00000-of-00001"], r"^no split is named 'validation'; there are train"),
]


@pytest.mark.parametrize(("files", "message"), WRONG_FILES)
def test_a_split_of_other_files_than_its_own_is_refused(files, message, table, tmp_path):
    for name in files:
        file = tmp_path / "pets" / f"{name.format('validation')}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        table.to_parquet(file)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "pets", tmp_path)


FILES = [
    ["data/{}-00000-of-00001", "data/validation_b-00000-of-00001"],
    ["data/{}-00000-of-00002-a1", "data/{}-00001-of-00002-b2", "data/train-00000-of-00002"],
    ["{}/0000", "{}/0001", "train/0000"],
    ["default/{}/0000", "default/train/0000"],
    ["pets_{}_0", "pets_{}_1", "pets_train"],
    ["plain/{}-00000-of-00001", ".ipynb_checkpoints/{}-00000-of-00001", "__old/{}"],
    ["{}", ".cache/huggingface/download/{}-00000-of-00001"],
]


@pytest.mark.parametrize("files", FILES)
def test_a_split_has_the_rows_that_datasets_reads(files, table, tmp_path):
    root = tmp_path / "pets"
    for place, name in enumerate(files):
        file = root / f"{name.format('validation')}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        table.select([place % 3]).to_parquet(file)
    theirs = datasets.load_dataset(str(root), cache_dir=str(tmp_path / "theirs"))["validation"]
    ours = load(root, tmp_path, item="", caption="text").splits["test"]
    assert list(ours["caption"]) == theirs["text"][:]


@pytest.mark.parametrize("written", [parquet, on_disk])
def test_images_are_read_once_until_files_change(written, table, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("vlbench.system.digests.SETTLED_NS", -1)
    root, read = written(table, tmp_path / "pets"), []

    def counted(encoded, name):
        read.append(name)
        return encoded_digest(encoded, name)

    monkeypatch.setattr("vlbench.data.hub_sets.encoded_digest", counted)
    with remembered_in(tmp_path / "digests.sqlite"):
        assert load(root, tmp_path).digest() == load(root, tmp_path).digest()
        assert sorted(name[-5:] for name in read) == ["row 0", "row 0", "row 1"]
        shutil.rmtree(root)
        other = load(written(table.select([1, 2]), root), tmp_path)
    files = image_folder(root=folder).splits["test"]["image"]
    assert other.splits["test"]["image"].digests == files.digests[1:]


def test_a_folder_of_something_else_is_refused(folder, tmp_path):
    message = "contains neither parquet files nor the files that save_to_disk writes"
    with pytest.raises(DataError, match=message):
        load(folder, tmp_path)


def test_a_parquet_file_of_other_content_and_the_same_date_is_converted_again(table, tmp_path):
    file = parquet(table, tmp_path / "root") / "data" / "validation-00000-of-00002.parquet"
    before = images(root=tmp_path / "root", cache_dir=tmp_path / "cache", **SOURCE)
    date = file.stat().st_mtime_ns
    table.select([2]).to_parquet(file)
    os.utime(file, ns=(date, date))
    after = images(root=tmp_path / "root", cache_dir=tmp_path / "cache", **SOURCE)
    assert labels(before.splits["test"]).tolist() == [0, 0, 1]
    assert labels(after.splits["test"]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("keep", [lambda old: old.replace(CLASS_1, CLASS_0), lambda old: old[:90]])
def test_a_damaged_conversion_of_a_parquet_file_is_made_again(table, tmp_path, keep):
    parquet(table.select([2] * 10), tmp_path / "root")
    read = partial(images, root=tmp_path / "root", cache_dir=tmp_path / "cache", **SOURCE)
    assert labels(read().splits["test"]).tolist() == [1] * 10
    for file in (tmp_path / "cache").rglob("*.arrow"):
        file.write_bytes(keep(file.read_bytes()))
    assert labels(read().splits["test"]).tolist() == [1] * 10


@pytest.mark.parametrize(("write", "suffix"), [(parquet, "parquet"), (on_disk, "arrow")])
def test_a_shard_that_is_a_copy_of_another_is_refused(table, tmp_path, write, suffix):
    write(table, tmp_path / "root")
    first, second = sorted((tmp_path / "root").rglob(f"*.{suffix}"))
    shutil.copy(first, second)
    message = f"{first.name}, .*{second.name} have the same content; fetch them again"
    with pytest.raises(DataError, match=message):
        images(root=tmp_path / "root", **SOURCE)
