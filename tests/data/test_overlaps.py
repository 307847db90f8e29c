from vlbench.data.overlaps import content, overlaps
from vlbench.data.records import Column, Data, Split, value_column


def images(digests):
    stored = [object() for _ in digests]
    return Split({"image": Column("k", "image", stored, range(len(stored)), digests=digests)})


def test_rows_are_counted_in_each_order_by_their_content():
    data = Data(splits={"train": images("aab"), "test": images("acd"), "val": images("x")})
    shared = overlaps(data)
    assert shared.pop(("train", "test")) == 2
    assert shared.pop(("test", "train")) == 1
    assert set(shared.values()) == {0}
    assert len(shared) == 4


def test_without_known_content_nothing_is_shared():
    plain = Split({"label": value_column([1, 2])})
    assert content(plain) is None
    assert set(overlaps(Data(splits={"train": plain, "test": plain})).values()) == {0}
