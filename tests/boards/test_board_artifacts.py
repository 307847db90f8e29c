import hashlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from planted_boards import result as planted
from planted_boards import score
from safetensors.torch import load_file

from vlbench.boards.artifacts import read_items, read_tensor
from vlbench.boards.board import read_board, save_artifacts, write_result
from vlbench.errors import OutputError
from vlbench.metrics.items import Answers, Examples, item_table, join_items


def test_a_tensor_becomes_safetensors(tmp_path):
    tensor = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    saved = save_artifacts(tmp_path, "t", "m", {"heads": tensor})
    file = tmp_path / "artifacts" / "t" / "m" / "heads.safetensors"
    checksum = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    assert saved == {"heads": {"file": "artifacts/t/m/heads.safetensors", "sha256": checksum}}
    (loaded,) = load_file(file).values()
    assert torch.equal(loaded, tensor.detach())


def test_a_table_becomes_parquet(tmp_path):
    table = pa.table({"layer": [1, 2], "score": [0.5, 0.25]})
    saved = save_artifacts(tmp_path, "t", "m", {"scores": table})
    file = tmp_path / saved["scores"]["file"]
    assert saved["scores"]["sha256"] == "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    assert (file.suffix, pq.read_table(file).equals(table)) == (".parquet", True)


def trials(count, names=1000):
    """Return items of so many trials over images whose digests are random."""
    rng = np.random.default_rng(0)
    ids = [f"{i}.png" for i in range(names)]
    examples = Examples(ids, [f"{one:016x}" for one in rng.integers(1 << 62, size=names)], ids)
    answers = Answers(list("abcdefghij"), *(rng.integers(10, size=names) for _ in range(2)))
    return item_table(examples, "accuracy", {}, rng.integers(2, size=(count, names)), answers)


def test_items_are_written_smaller_than_pyarrow_does_and_read_as_they_were(tmp_path):
    table, usual = join_items([trials(50)]), BytesIO()
    pq.write_table(table, usual, compression="zstd")
    row = replace(planted("m"), artifacts=save_artifacts(tmp_path, "t", "m", {"items": table}))
    assert (tmp_path / row.artifacts["items"]["file"]).stat().st_size < usual.tell()
    assert read_items(tmp_path, row).equals(table)


def test_items_that_an_older_vlbench_wrote_are_read_as_they_were(tmp_path):
    table, file = join_items([trials(2)]), tmp_path / "items.parquet"
    pq.write_table(table, file, compression="zstd")
    saved = {"file": file.name, "sha256": "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()}
    row = replace(planted("m"), artifacts={"items": saved})
    assert read_items(tmp_path, row).equals(table)


def test_a_picture_is_moved(tmp_path):
    picture = tmp_path / "drawn.png"
    Image.new("RGB", (4, 4), "red").save(picture)
    content = picture.read_bytes()
    saved = save_artifacts(tmp_path / "out", "t", "m", {"map": picture})
    assert saved["map"]["file"] == "artifacts/t/m/map.png"
    assert saved["map"]["sha256"] == "sha256:" + hashlib.sha256(content).hexdigest()
    assert (tmp_path / "out" / saved["map"]["file"]).read_bytes() == content
    assert not picture.exists()


def test_no_artifacts_write_nothing(tmp_path):
    assert save_artifacts(tmp_path, "t", "m", {}) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["../../up", "..", "a/b", "clip[weights=x.pt]", "a b:c"])
def test_the_name_of_a_model_never_leaves_its_folder(tmp_path, model):
    saved = save_artifacts(tmp_path, "t", model, {"heads": torch.zeros(1)})
    file = tmp_path / saved["heads"]["file"]
    assert file.resolve().parents[1] == (tmp_path / "artifacts" / "t").resolve()
    assert file.is_file()


def test_the_name_of_an_artifact_never_leaves_its_folder(tmp_path):
    saved = save_artifacts(tmp_path, "t", "m", {"../../../up": torch.zeros(1)})
    (entry,) = saved.values()
    assert (tmp_path / entry["file"]).resolve().is_relative_to(tmp_path / "artifacts")


def test_the_artifacts_of_two_models_are_kept_apart(tmp_path):
    one, two = (save_artifacts(tmp_path, "t", m, {"h": torch.zeros(1)}) for m in ("a b", "a_b"))
    assert one["h"]["file"] != two["h"]["file"]


def test_a_picture_that_cannot_be_moved_stays(tmp_path):
    (tmp_path / "out").write_text("in the way")
    (tmp_path / "drawn.png").write_bytes(b"picture")
    with pytest.raises(OutputError, match="cannot write"):
        save_artifacts(tmp_path / "out", "t", "m", {"map": tmp_path / "drawn.png"})
    assert (tmp_path / "drawn.png").read_bytes() == b"picture"


def test_an_artifact_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "artifacts").write_text("in the way")
    with pytest.raises(OutputError, match=r"cannot write .*heads\.safetensors"):
        save_artifacts(tmp_path, "t", "m", {"heads": torch.zeros(1)})


def test_a_file_that_belongs_to_another_row_is_not_overwritten(tmp_path):
    for i, key in enumerate("aab"):
        row = planted("m", score(), comparable=key)
        write_result(tmp_path, row, {"heads": torch.full((1,), float(i))})
    first, other = read_board(tmp_path / "t.json").results
    assert first.artifacts["heads"]["file"] == "artifacts/t/m/heads.safetensors"
    assert other.artifacts["heads"]["file"].startswith("artifacts/t/m/heads-")
    assert [read_tensor(tmp_path, row, "heads").tolist() for row in (first, other)] == [[1], [2]]


def test_a_file_of_an_archived_row_is_not_overwritten(tmp_path):
    for version in (1, 2):
        row = planted("m", score(), version=version)
        write_result(tmp_path, row, {"heads": torch.full((1,), float(version))})
    archived = read_board(tmp_path / "archive" / "t.v1.json").results[0]
    assert read_tensor(tmp_path, archived, "heads").tolist() == [1]
