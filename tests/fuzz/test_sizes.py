"""A file that is huge, or unpacks to much, is refused in about the memory of a small right one."""

from functools import partial

import pyarrow as pa
import pytest
from planted_boards import board, measured, result, score, write
from pyarrow import parquet
from sources import TASK, make_source
from trials import growth

from vlbench.boards.board import read_board, save_artifacts
from vlbench.catalog.strict_yaml import load_yaml
from vlbench.cli import main
from vlbench.data.table import images
from vlbench.errors import VlbenchError
from vlbench.metrics.items import SCHEMA

GIGABYTE, MOST = 1 << 30, 300 << 20
LISTED = TASK.replace("image_folder:image_folder", "table:images").replace(
    "../images", "../images, train: a.csv, test: a.csv"
)


def boards(folder):
    write(folder, board(measured(folder, "m", [1, 0])))
    return ["items", "t", "m", "--output", str(folder)], folder / "t.json", 4 * GIGABYTE


def task(folder):
    file = make_source(folder) / "tasks/few_shot_colours.yaml"
    return ["validate", str(file), "--include-path", str(folder)], file, 2 * GIGABYTE


def table(folder):
    make_source(folder, few_shot_listed=LISTED)
    (folder / "images/a.csv").write_text("image,label\ntest/red/0.png,red\ntest/red/1.png,red\n")
    words = ["data", "few_shot_listed", "--include-path", str(folder)]
    return words, folder / "images/a.csv", 6 * GIGABYTE


def readers(file):
    return {
        boards: partial(read_board, file),
        task: partial(load_yaml, file),
        table: partial(images, root=file.parent, test=file.name),
    }


def refused(read):
    with pytest.raises(VlbenchError):
        read()


def made_huge(file, size):
    with file.open("r+b") as opened:
        opened.truncate(size)


def bomb(folder):
    """Return a row whose items are ten million times the same in a few kilobytes."""
    texts = pa.repeat("a text of thirty characters...", 10_000_000)
    numbers = pa.repeat(0, 10_000_000)
    columns = [texts if pa.types.is_dictionary(one.type) else numbers for one in SCHEMA]
    file = folder / "bomb.parquet"
    whole = {"row_group_size": 10_000_000, "data_page_size": 1 << 30, "compression": "zstd"}
    parquet.write_table(
        pa.table(columns, SCHEMA.names), file, max_rows_per_page=10_000_000, **whole
    )
    assert file.stat().st_size < 10_000
    return result("m", score(), artifacts=save_artifacts(folder, "t", "m", {"items": file}))


@pytest.mark.parametrize("put", [boards, task, table])
def test_a_sparse_file_is_refused_in_little_memory(put, tmp_path):
    _, file, size = put(tmp_path)
    read = readers(file)[put]
    small = growth(read)
    made_huge(file, size)
    with pytest.raises(VlbenchError, match=f"{file.name}.*it has {size} bytes; at most"):
        read()
    assert growth(partial(refused, read)) < small + MOST


@pytest.mark.parametrize("size", [1 << 20, 1 << 30])
def test_a_table_of_one_line_is_refused_in_little_memory(size, tmp_path):
    _, file, _ = table(tmp_path)
    read = readers(file)[table]
    small = growth(read)
    made_huge(file, size)
    assert growth(partial(refused, read)) < small + MOST


@pytest.mark.nightly
@pytest.mark.parametrize("put", [boards, task, table])
def test_a_command_refuses_a_sparse_file_in_little_memory(put, tmp_path, capfd):
    words, file, size = put(tmp_path)
    small = growth(lambda: main(words))
    made_huge(file, size)
    assert growth(lambda: main(words)) < small + MOST
    assert f"it has {size} bytes; at most" in capfd.readouterr().err


@pytest.mark.nightly
def test_a_command_refuses_items_that_unpack_to_much_in_little_memory(tmp_path, capfd):
    words, *_ = boards(tmp_path)
    small = growth(lambda: main(words))
    write(tmp_path, board(bomb(tmp_path)))
    assert growth(lambda: main(words)) < small + MOST
    assert "items.parquet is not a table: it has 10,000,000 rows" in capfd.readouterr().err
