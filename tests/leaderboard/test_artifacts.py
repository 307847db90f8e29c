from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from planted_boards import result

from vlbench.boards import save_artifacts
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_table, read_tensor


@pytest.fixture
def row(tmp_path):
    artifacts = {"t": pa.table({"a": [1, 2]}), "x": torch.arange(3.0)}
    return result("m", artifacts=save_artifacts(tmp_path, "t", "m", artifacts))


def test_a_table_and_a_tensor_come_back(tmp_path, row):
    assert read_table(tmp_path, row, "t", ["a"]) == [{"a": 1}, {"a": 2}]
    np.testing.assert_array_equal(read_tensor(tmp_path, row, "x"), [0, 1, 2])


@pytest.mark.parametrize(
    ("name", "why"),
    [("t", "has no column b"), ("x", "x.safetensors is no table; run"), ("z", "keeps no z")],
)
def test_what_is_no_such_table_is_named(tmp_path, row, name, why):
    with pytest.raises(DataError, match=why):
        read_table(tmp_path, row, name, ["a", "b"])


def test_what_is_no_tensor_is_named(tmp_path, row):
    with pytest.raises(DataError, match=r"t\.parquet is no tensor"):
        read_tensor(tmp_path, row, "t")


def test_an_altered_file_and_one_that_is_gone_are_named(tmp_path, row):
    file = tmp_path / row.artifacts["t"]["file"]
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"t\.parquet is not the file that its row was written w"):
        read_table(tmp_path, row, "t", ["a"])
    file.unlink()
    with pytest.raises(DataError, match=r"t\.parquet is absent; run the task again"):
        read_table(tmp_path, row, "t", ["a"])


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, row):
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "t").symlink_to(tmp_path / row.artifacts["t"]["file"])
    out = {"t": row.artifacts["t"] | {"file": "t"}}
    with pytest.raises(DataError, match="t is a link out of the boards' folder"):
        read_table(tmp_path / "boards", replace(row, artifacts=out), "t", ["a"])
