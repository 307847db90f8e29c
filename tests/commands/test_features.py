import csv
import json

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet
from safetensors import safe_open

from vlbench.cli import main


@pytest.fixture
def images(tmp_path):
    for i, name in enumerate(["cat/a.png", "cat/b.png", "dog/c.png"]):
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i * 90, 0, 0)).save(file)
    return tmp_path / "images"


def write(source, file, *words):
    return main(["features", "raw-pixels", str(source), "-o", str(file), "--no-cache", *words])


def test_features_of_a_folder_are_the_same_in_each_format(images, tmp_path, capsys):
    for suffix in ("npz", "parquet", "safetensors"):
        assert write(images, tmp_path / f"f.{suffix}") == 0
        assert f"in {tmp_path / f'f.{suffix}'} (ids, vectors, labels)" in capsys.readouterr().out
    arrays = np.load(tmp_path / "f.npz")
    table = parquet.read_table(tmp_path / "f.parquet")
    with safe_open(tmp_path / "f.safetensors", "np") as tensors:
        named, vectors = tensors.metadata(), tensors.get_tensor("vectors")
    ids, labels = ["cat/a.png", "cat/b.png", "dog/c.png"], ["cat", "cat", "dog"]
    assert arrays["ids"].tolist() == table["ids"].to_pylist() == json.loads(named["ids"]) == ids
    assert arrays["labels"].tolist() == table["labels"].to_pylist() == labels
    assert json.loads(named["labels"]) == labels
    assert np.array_equal(arrays["vectors"], vectors)
    assert np.array_equal(arrays["vectors"], np.array(table["vectors"].to_pylist(), np.float32))
    assert vectors.dtype == np.float32


def test_features_of_a_tasks_split_have_its_classes(tmp_path):
    assert write("few_shot_digits", tmp_path / "f.npz", "--split", "train", "--limit", "20") == 0
    arrays = np.load(tmp_path / "f.npz")
    assert arrays["vectors"].shape[0] == arrays["labels"].shape[0] == 20


NOT_WRITTEN = [
    (["few_shot_digits", "-o", "f.txt"], "'f.txt' must end in one of .npz, .parquet"),
    (["few_shot_digits", "-o", "nowhere/f.npz"], "there is no folder nowhere"),
    (["few_shot_digits", "-o", "f.npz", "--split", "tset"], "no split is named 'tset'"),
    (["few_shot_digits", "-o", "f.npz", "--column", "pixels"], "no column 'pixels'"),
    (["nofolder", "-o", "f.npz"], "named 'nofolder'; `vlbench ls tasks` lists the tasks"),
    (["few_shot_digit", "-o", "f.npz"], "did you mean few_shot_digits"),
]


@pytest.mark.parametrize(("words", "message"), NOT_WRITTEN)
def test_what_cannot_be_written_is_said(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["features", "raw-pixels", *words, "--no-cache"])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_folder_without_images_has_no_features(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert write(tmp_path / "empty", tmp_path / "f.npz") == 2
    assert "empty has no images (" in capsys.readouterr().err


def test_a_matrix_is_written_square_with_names(tmp_path, scenes_cache, capsys):
    words = ["rdm", "raw-pixels", "rsa_scenes", "--cache-dir", str(scenes_cache / "vlbench")]
    for suffix in ("csv", "npz"):
        assert main([*words, "-o", str(tmp_path / f"r.{suffix}")]) == 0
    assert "40 x 40 distances in " in capsys.readouterr().out
    with (tmp_path / "r.csv").open() as file:
        (_, *names), *rows = csv.reader(file)
    arrays = np.load(tmp_path / "r.npz")
    assert arrays["names"].tolist() == names == [row[0] for row in rows]
    distances = np.array([row[1:] for row in rows], float)
    assert np.array_equal(distances, arrays["distances"])
    assert np.array_equal(distances, distances.T)
    assert not distances.diagonal().any()
    assert len({*arrays["categories"].tolist()}) == 12


def test_layers_stand_under_their_names(images, tmp_path, capsys):
    words = ["features", "tiny-rn", str(images), "--no-cache", "--layers", "layer2.0_mean,output"]
    for suffix in ("npz", "parquet", "safetensors"):
        assert main([*words, "-o", str(tmp_path / f"f.{suffix}")]) == 0
    told = f"3 x 64 + 128 numbers in {tmp_path / 'f.npz'} (ids, layer2.0_mean, output, labels)"
    assert told in capsys.readouterr().out
    arrays = np.load(tmp_path / "f.npz")
    table = parquet.read_table(tmp_path / "f.parquet")
    with safe_open(tmp_path / "f.safetensors", "np") as tensors:
        assert np.array_equal(tensors.get_tensor("output"), arrays["output"])
    assert np.array_equal(table["layer2.0_mean"].to_pylist(), arrays["layer2.0_mean"])
    assert (
        main(["features", "tiny-rn", str(images), "--no-cache", "-o", str(tmp_path / "g.npz")]) == 0
    )
    assert np.allclose(np.load(tmp_path / "g.npz")["vectors"], arrays["output"])


def test_a_model_without_layers_says_so(images, tmp_path, capsys):
    assert write(images, tmp_path / "f.npz", "--layers", "all") == 2
    assert "raw-pixels gives no layers: it has no encode_images_at" in capsys.readouterr().err
