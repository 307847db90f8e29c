from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from planted_boards import result, score, with_items

from vlbench.boards.artifacts import read_items, read_table, read_tensor
from vlbench.boards.board import save_artifacts
from vlbench.data import parquet_files
from vlbench.errors import DataError
from vlbench.metrics.items import SCHEMA, Examples, item_table


@pytest.fixture
def row(tmp_path):
    artifacts = {"t": pa.table({"a": [1, 2]}), "x": torch.arange(3.0)}
    return result("m", artifacts=save_artifacts(tmp_path, "t", "m", artifacts))


def test_a_table_and_a_tensor_come_back(tmp_path, row):
    assert read_table(tmp_path, row, "t", ["a"]) == [{"a": 1}, {"a": 2}]
    np.testing.assert_array_equal(read_tensor(tmp_path, row, "x"), [0, 1, 2])


@pytest.mark.parametrize(
    ("name", "why"),
    [("t", "has no column b"), ("x", "x.safetensors is not a table: "), ("z", "has no z")],
)
def test_what_is_no_such_table_is_named(tmp_path, row, name, why):
    with pytest.raises(DataError, match=why):
        read_table(tmp_path, row, name, ["a", "b"])


def test_what_is_no_tensor_is_named(tmp_path, row):
    with pytest.raises(DataError, match=r"t\.parquet is not a tensor"):
        read_tensor(tmp_path, row, "t")


def test_an_altered_file_and_one_that_is_gone_are_named(tmp_path, row):
    file = tmp_path / row.artifacts["t"]["file"]
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    message = r"t\.parquet is not the file that was written with its row;"
    with pytest.raises(DataError, match=message):
        read_table(tmp_path, row, "t", ["a"])
    file.unlink()
    with pytest.raises(DataError, match=r"t\.parquet is missing; run the task again"):
        read_table(tmp_path, row, "t", ["a"])


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, row):
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "t").symlink_to(tmp_path / row.artifacts["t"]["file"])
    out = {"t": row.artifacts["t"] | {"file": "t"}}
    with pytest.raises(DataError, match="t is a link out of the boards' folder"):
        read_table(tmp_path / "boards", replace(row, artifacts=out), "t", ["a"])


def kept(folder, **changed):
    """Return a row that keeps a table of two items, with other columns."""
    table = item_table(Examples(["a", "b"], ["x", "y"]), "accuracy", {}, [1, 0])
    for name, column in changed.items():
        table = table.drop_columns([name])
        table = table.append_column(name, column) if column is not None else table
    return with_items(folder, result("m"), table)


@pytest.mark.parametrize("changed", [{}, {"id": pa.array(["a", "b"], pa.large_string())}])
def test_items_come_back_in_their_types(tmp_path, changed):
    items = read_items(tmp_path, kept(tmp_path, **changed))
    assert items.schema == SCHEMA
    assert (items["id"].to_pylist(), items["credit"].to_pylist()) == (["a", "b"], [1, 0])


def test_items_of_a_corpus_score_keep_their_statistics(tmp_path):
    table = item_table(Examples(["a"], ["x"]), "bleu_1", {}, [0])
    table = table.append_column("statistics", pa.array([[1, 2]]))
    row = with_items(tmp_path, result("m"), table)
    assert read_items(tmp_path, row)["statistics"].to_pylist() == [[1.0, 2.0]]


NO_ITEMS = [
    ("credit", ["a", "b"], r"items\.parquet is not a table of items: Failed to parse"),
    ("id", [1.5, 2.5], r"items\.parquet is not a table of items: Unsupported cast"),
    (
        "credit",
        [0.0, float("nan")],
        r"items\.parquet contains credit that is not finite; run the t",
    ),
    (
        "credit",
        [0.0, float("inf")],
        r"items\.parquet contains credit that is not finite; run the t",
    ),
    ("credit", [0.0, None], r"items\.parquet contains credit that is not finite; run the t"),
    ("digest", None, r"items\.parquet has no column digest"),
]


@pytest.mark.parametrize(("column", "values", "why"), NO_ITEMS)
def test_what_is_no_table_of_items_is_named(tmp_path, column, values, why):
    with pytest.raises(DataError, match=why):
        read_items(tmp_path, kept(tmp_path, **{column: values and pa.array(values)}))


def test_a_row_without_items_is_refused(tmp_path):
    with pytest.raises(DataError, match="its row has no items"):
        read_items(tmp_path, result("m"))


def test_a_small_file_of_very_many_rows_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 1 << 20)
    equal = pa.table({"a": pa.repeat(0, 1_000_000)})
    row = result("m", artifacts=save_artifacts(tmp_path, "t", "m", {"t": equal}))
    with pytest.raises(DataError, match=r"t\.parquet is not a table: its \d+ bytes unpack to over"):
        read_table(tmp_path, row, "t", ["a"])


def test_more_items_than_the_rows_n_allows_are_refused_before_they_are_read(tmp_path):
    table = item_table(Examples(["a", "b"], ["x", "y"]), "accuracy", {}, [1, 0])
    row = with_items(tmp_path, result("m", score(n=1), counts={"n": 1}), table)
    message = "it has 2 rows; its row's n allows at most 1; run the task"
    with pytest.raises(DataError, match=message):
        read_items(tmp_path, row)
