import json

import numpy as np
import pytest
import torch
from PIL import Image

from vlbench.cli import main
from vlbench.metrics.representation_similarity import cka_debiased, mutual_knn


@pytest.fixture
def folder(tmp_path):
    """Forty images of two classes, one of them twice."""
    rng = np.random.default_rng(0)
    for i in range(40):
        file = tmp_path / "images" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(file)
    (tmp_path / "images/b/copy.png").write_bytes((tmp_path / "images/a/0.png").read_bytes())
    return tmp_path / "images"


def measure(capsys, *words):
    assert main(["similarity", *map(str, words), "--no-cache"]) == 0
    return capsys.readouterr().out


def test_two_models_are_compared_on_a_folder_each_image_once(folder, tmp_path, capsys):
    found = json.loads(
        measure(capsys, "raw-pixels", "colour-histogram", folder, "-k", "3", "--json")
    )
    by_name = {one["metric"]: one for one in found}
    assert {one["n"] for one in found} == {40}
    vectors = []
    for model in ("raw-pixels", "colour-histogram"):
        file = str(tmp_path / f"{model}.npz")
        assert main(["features", model, str(folder), "-o", file, "--no-cache"]) == 0
        arrays = np.load(file)
        kept = [not name.endswith("copy.png") for name in arrays["ids"]]
        vectors.append(torch.from_numpy(arrays["vectors"][kept]))
    assert by_name["cka_debiased"]["value"] == pytest.approx(cka_debiased(*vectors))
    assert by_name["mutual_knn"]["value"] == pytest.approx(mutual_knn(*vectors, 3))
    assert by_name["mutual_knn"]["chance"] == pytest.approx(3 / 39)


def test_a_model_is_like_itself(folder, capsys):
    lines = measure(capsys, "raw-pixels", "raw-pixels", folder).splitlines()
    assert "raw-pixels and raw-pixels on" in lines[0]
    assert any("cka_debiased" in line and "1.000" in line for line in lines)


REFUSED = [
    (["raw-pixels", "raw-pixels", "nowhere"], "nowhere"),
    (["raw-pixels", "tiny-bert", "few_shot_digits"], "tiny-bert does not implement ImageEncoder"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_compared_is_said(words, message, capsys):
    assert main(["similarity", *words, "--no-cache"]) == 2
    assert message in capsys.readouterr().err


def test_the_matrix_of_a_folder_is_of_its_classes(folder, tmp_path, capsys):
    file = tmp_path / "rdm.csv"
    assert main(["rdm", "raw-pixels", str(folder), "-o", str(file), "--no-cache"]) == 0
    head, first, second = (line.split(",") for line in file.read_text().splitlines())
    assert (head, first[0], second[0]) == (["", "a", "b"], "a", "b")
    assert float(first[1]) == float(second[2]) == 0
    assert float(first[2]) == float(second[1]) > 0
    capsys.readouterr()
    assert main(["rdm", "raw-pixels", str(folder / "a"), "-o", str(file), "--no-cache"]) == 2
    assert (
        "a matrix needs two or more classes, a folder each; there are 0" in capsys.readouterr().err
    )
