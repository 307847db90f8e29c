from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from vlbench.data import parquet_files
from vlbench.data.parquet_files import read_parquet, values

COUNT = 1_000_000
ZEROS = pa.ListArray.from_arrays(pa.array([0, COUNT], pa.int32()), pa.array(np.zeros(COUNT)))
EQUAL = pa.array(["a text of thirty-two characters."]).take(pa.array(np.zeros(COUNT, np.int32)))


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 1 << 20)


def stored(column, **options):
    """Return a file with one column, `a`."""
    file = BytesIO()
    parquet.write_table(pa.table({"a": column}), file, compression="zstd", **options)
    return file


def varint(number, length):
    """Return a number of the footer in so many bytes, which may be more than it needs."""
    digits = [number * 2 >> 7 * i & 127 for i in range(length)]
    return bytes([128 | digit for digit in digits[:-1]] + digits[-1:])


def lying(file, number, length):
    """Return a file whose footer says 1 where it said a number."""
    content = file.getvalue()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    assert varint(number, length) in footer
    return BytesIO(content[:start] + footer.replace(varint(number, length), varint(1, length)))


def test_numbers_texts_and_lists_come_back():
    rows = [{"a": 1.5, "b": "x", "c": ["y", None]}, {"a": None, "b": None, "c": []}]
    file = BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    assert read_parquet(file).to_pylist() == rows
    assert values(read_parquet(file, ["b"]), file) == {"b": ["x", None]}


@pytest.mark.parametrize(
    "bomb",
    [
        stored(ZEROS),
        lying(stored(ZEROS), COUNT, 3),
        stored(pa.array(["x" * COUNT * 2]), use_dictionary=False),
        stored(pa.array(["x" * COUNT * 2])),
        stored(pa.array(np.zeros(COUNT)), data_page_version="2.0"),
    ],
    ids=["list", "list that the footer calls short", "text", "dictionary", "version 2"],
)
def test_a_small_file_that_unpacks_to_much_is_refused_unread(bomb, monkeypatch):
    monkeypatch.delattr(parquet.ParquetFile, "read")
    assert len(bomb.getvalue()) < 5_000
    with pytest.raises(ValueError, match=r"its \d+ bytes unpack to over \d+ MB"):
        read_parquet(bomb)


def test_equal_texts_are_read_but_not_written_out(monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 40 << 20)
    file = stored(EQUAL)
    table = read_parquet(file)
    assert table.nbytes < 5 * COUNT
    with pytest.raises(ValueError, match="unpack to over 91 MB"):
        values(table, file)


def test_a_file_whose_footer_points_at_no_page_is_refused():
    file = stored(pa.array([1]))
    content = bytearray(file.getvalue())
    content[4:20] = b"\xff" * 16
    with pytest.raises(ValueError, match="no page of Parquet stands where its footer says"):
        read_parquet(BytesIO(content))


def test_a_large_footer_is_refused(monkeypatch):
    monkeypatch.setattr(parquet_files, "MOST_FOOTER", 100)
    with pytest.raises(ValueError, match=r"its footer has \d+ bytes; at most 100 are read"):
        read_parquet(stored(pa.array([1])))
