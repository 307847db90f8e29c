import datetime as dt
import decimal
from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from vlbench.data import parquet_files
from vlbench.data.parquet_files import read_parquet, values

COUNT = 1_000_000

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COLUMNS = {name: pa.array([1, None], getattr(pa, name)()) for name in INTEGERS}
COLUMNS |= {
    f"list of {name}": pa.array([[1, 2], None], pa.list_(getattr(pa, name)())) for name in INTEGERS
}
COLUMNS |= {
    "float16": pa.array(np.array([1, 2], np.float16)),
    "float32": pa.array([1.5, None], pa.float32()),
    "float64": pa.array([1.5, None]),
    "bool": pa.array([True, None]),
    "nothing": pa.nulls(2),
    "text": pa.array(["a", None]),
    "large text": pa.array(["a", None], pa.large_string()),
    "bytes": pa.array([b"\xff", None]),
    "two bytes": pa.array([b"ab", None], pa.binary(2)),
    "decimal": pa.array([decimal.Decimal("1.23"), None]),
    "wide decimal": pa.array([decimal.Decimal("1.23"), None], pa.decimal256(50, 2)),
    "date": pa.array([dt.date(2026, 11, 25), None]),
    "time": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None]),
    "category": pa.array(["x", None]).dictionary_encode(),
    "image": pa.array([{"bytes": b"x", "path": None}, None]),
    "lists of lists": pa.array([[["a"], []], None]),
    "two numbers": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    "records": pa.array([[{"a": "x"}], None]),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
}


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 1 << 20)


def stored(column, **options):
    """Return a file with one column, `a`."""
    file = BytesIO()
    parquet.write_table(pa.table({"a": column}), file, compression="zstd", **options)
    return file


def test_what_pyarrow_reads_is_read():
    for name, column in COLUMNS.items():
        file = stored(column)
        rows = parquet.read_table(file).to_pylist()
        assert read_parquet(file).to_pylist() == rows, name
        assert values(read_parquet(file), file) == {"a": [row["a"] for row in rows]}, name


DELTAS = pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])


def delta(table, encoding, texts):
    file = BytesIO()
    ways = dict.fromkeys(texts, encoding)
    parquet.write_table(table, file, compression="zstd", use_dictionary=False, column_encoding=ways)
    return file


@DELTAS
def test_texts_stored_as_differences_are_read(encoding):
    columns = {"a": ["one", "ones", None] * 400, "b": [["x"], [], None] * 400, "n": [1, 2, 3] * 400}
    file = delta(pa.table(columns), encoding, ["a", "b.list.element"])
    assert values(read_parquet(file), file) == columns
    assert values(read_parquet(file, ["b"]), file) == {"b": columns["b"]}


@DELTAS
def test_texts_stored_as_differences_take_no_more_memory_than_others(encoding, monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 20 << 20)
    text = "".join(map(chr, np.random.default_rng(0).integers(33, 127, 1 << 13)))
    file = delta(pa.table({"a": [text] * 10_000}), encoding, ["a"])
    with pytest.raises(ValueError, match=r"unpack to over \d+ MB"):
        read_parquet(file)


def test_some_columns_are_read():
    rows = [{"a": 1.5, "b": "x", "c": ["y", None]}, {"a": None, "b": None, "c": []}]
    file = BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    assert values(read_parquet(file, ["b"]), file) == {"b": ["x", None]}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "column", [np.zeros(COUNT), pa.repeat("a text", COUNT), ["x" * COUNT * 2]], ids=["0", "a", "x"]
)
def test_a_small_file_that_says_it_unpacks_to_much_is_refused_unread(column, monkeypatch):
    bomb = stored(pa.array(column), use_dictionary=False)
    monkeypatch.delattr(parquet.ParquetFile, "read")
    assert len(bomb.getvalue()) < 6_000
    with pytest.raises(ValueError, match=r"its \d+ bytes unpack to over \d+ MB"):
        read_parquet(bomb)


def test_equal_texts_are_read_but_not_written_out(monkeypatch):
    monkeypatch.setattr(parquet_files, "FLOOR", 40 << 20)
    file = stored(pa.repeat("a text of thirty-two characters.", COUNT))
    table = read_parquet(file)
    assert table.nbytes < 5 * COUNT
    with pytest.raises(ValueError, match="unpack to over 91 MB"):
        values(table, file)


def test_a_broken_footer_is_an_error_and_no_end_of_the_process():
    content = stored(pa.array(["x", "y"] * 50)).getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - length, len(content)):
        broken = bytearray(content)
        broken[place] ^= 0x5A
        try:
            read_parquet(BytesIO(broken))
        except (pa.ArrowException, OSError, ValueError) as error:
            assert str(error)  # noqa: PT017 - some of the bytes do not matter
