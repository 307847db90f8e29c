import pickle
from functools import partial

import pyarrow as pa
import pytest

from vlbench.data.tables import BATCH, RowValues, Table, column_from, in_memory

SCHEMA = pa.schema({"name": pa.string(), "numbers": pa.list_(pa.int32())})


def rows(count=3, *, factor=1):
    return [{"name": f"row {i}", "numbers": [i * factor] * i} for i in range(count)]


def test_rows_are_read_back_in_their_order():
    table = in_memory(rows(BATCH + 2), SCHEMA)
    assert table.length == BATCH + 2
    assert table.values("name")[-1] == f"row {BATCH + 1}"


def test_no_rows_are_an_empty_table():
    table = in_memory([], SCHEMA)
    assert (table.length, table.values("name")) == (0, [])


def test_a_column_is_made_of_some_columns_of_a_row():
    column = column_from(in_memory(rows(), SCHEMA), ["name", "numbers"], "{}: {}".format, "text")
    assert list(column) == ["row 0: []", "row 1: [1]", "row 2: [2, 2]"]
    assert column.stored[1:] == ["row 1: [1]", "row 2: [2, 2]"]
    assert (column.kind, len(column)) == ("text", 3)


def test_a_key_knows_the_content_of_its_columns_and_its_kind():
    one, other = in_memory(rows(), SCHEMA), in_memory(rows(factor=2), SCHEMA)
    keys = [column_from(table, ["name"], str).key for table in (one, other)]
    assert keys[0] == keys[1] != column_from(one, ["name"], str, "text").key
    assert column_from(one, ["numbers"], len).key != column_from(other, ["numbers"], len).key


def test_rows_are_opened_once_and_not_before_a_value_is_read():
    opened = []

    def open_rows():
        opened.append(1)
        return pa.Table.from_pylist(rows(), SCHEMA)

    values = RowValues(Table(open_rows, 3, {}), ("name",), str)
    assert (len(values), opened) == (3, [])
    assert (values[0], values[2], opened) == ("row 0", "row 2", [1])


def test_opened_rows_stay_behind_when_a_table_travels():
    table = Table(partial(pytest.fail, "opened here"), 3, {"name": "sha256:0"})
    vars(table)["rows"] = "opened"
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    assert (copy.length, copy.digests) == (3, table.digests)
    assert "rows" not in vars(copy)
