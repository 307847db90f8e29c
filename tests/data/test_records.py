import numpy as np
import pytest

from vlbench.data.records import (
    Column,
    Data,
    Split,
    content,
    copies,
    fewest_rows,
    labels,
    overlaps,
    same_images,
    value_column,
)
from vlbench.errors import DataError


def numbered(*label_counts, n=None):
    """Return a split with a row number, and labels where their counts are given."""
    marks = np.repeat(range(len(label_counts)), label_counts).tolist()
    columns = {"number": value_column(list(range(n or len(marks))))}
    return Split(columns | ({"label": value_column(marks)} if marks else {}))


def numbers(split):
    return list(split["number"])


def test_a_column_gives_the_selected_rows_in_their_order():
    column = Column("key", "text", ["a", "b", "c", "d"], [3, 1])
    assert (list(column), len(column), column[0], column[1]) == (["d", "b"], 2, "d", "b")


def test_a_selection_of_a_selection_counts_in_the_selection():
    column = value_column(["a", "b", "c", "d"]).select([3, 2, 0])
    assert list(column.select([2, 0, 0])) == ["a", "d", "d"]
    assert list(column.select([2, 0]).rows) == [0, 3]


def test_the_key_does_not_know_the_selection():
    column = value_column(["a", "b", "c"])
    assert column.select([1]).key == column.key
    assert value_column(["b"]).key != column.key


def test_equal_values_have_one_key_and_others_another():
    assert value_column([1, 2]).key == value_column(range(1, 3)).key
    assert value_column([1, 2]).key != value_column([2, 1]).key


def test_a_split_selects_all_its_columns():
    chosen = numbered(2, 2).select([3, 0])
    assert (numbers(chosen), labels(chosen).tolist(), len(chosen)) == ([3, 0], [1, 0], 2)


def test_labels_are_an_array_of_int64():
    found = labels(numbered(1, 2))
    assert (found.dtype, found.tolist()) == (np.int64, [0, 1, 1])


def test_the_digest_knows_content_rows_columns_splits_and_classes():
    split = numbered(2, 2)
    kinds = [
        Data(splits={"test": split}),
        Data(splits={"train": split}),
        Data(splits={"test": split.select([0, 1])}),
        Data(splits={"test": split.select([1, 0])}),
        Data(splits={"test": Split({"number": split["number"]})}),
        Data(splits={"test": split}, classes=["a", "b"]),
        Data(splits={"test": numbered(1, 3)}),
    ]
    assert len({data.digest() for data in kinds}) == len(kinds)


def test_the_digest_does_not_know_how_rows_were_chosen():
    split = numbered(2, 2)
    data = Data(splits={"test": split}, expected={"test": 9})
    assert data.digest() == Data(splits={"test": split.select(np.arange(4))}).digest()


def test_missing_rows_are_those_of_splits_that_are_too_small():
    data = Data(
        splits={"train": numbered(3, 3), "test": numbered(2, 2), "val": numbered(n=5)},
        expected={"train": 10, "test": 4, "val": 3},
    )
    assert data.missing_rows() == {"train": 4}


def test_a_split_that_is_not_there_lacks_all_its_rows():
    data = Data(splits={"test": numbered(2, 2)}, expected={"train": 10, "test": 4})
    assert data.missing_rows() == {"train": 10}


@pytest.mark.parametrize(("n", "counts"), [(4, [3, 1]), (8, [6, 2]), (12, [9, 3]), (40, [30, 10])])
def test_each_labels_share_stays_as_it_was(n, counts):
    limited = Data(splits={"test": numbered(30, 10)}).limited(n)
    assert np.bincount(labels(limited.splits["test"])).tolist() == counts


def test_as_many_rows_as_labels_are_one_of_each():
    limited = Data(splits={"test": numbered(*[7] * 10)}).limited(10)
    assert labels(limited.splits["test"]).tolist() == list(range(10))


def test_the_same_seed_draws_the_same_rows_and_another_seed_others():
    data = Data(splits={"test": numbered(50, 50)})
    draws = [numbers(data.limited(20, seed=seed).splits["test"]) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_rows_are_drawn_with_seed_0_unless_another_is_given():
    data = Data(splits={"test": numbered(50, 50)})
    drawn, other = data.limited(20, seed=0), data.limited(20, seed=1)
    assert data.limited(20).digest() == drawn.digest() != other.digest()


def test_a_draw_is_ascending_and_draws_no_row_twice():
    rows = numbers(Data(splits={"test": numbered(30, 10, 5)}).limited(17).splits["test"])
    assert rows == sorted(set(rows))
    assert len(rows) == 17


def test_rows_are_drawn_from_all_over_the_split():
    drawn = [
        numbers(Data(splits={"test": numbered(n=100)}).limited(10, seed=seed).splits["test"])
        for seed in range(50)
    ]
    assert 35 < np.mean(drawn) < 65
    assert len(set(np.ravel(drawn))) > 90


def test_the_first_rows_of_a_split_are_all_that_is_expected_of_it():
    data = Data(splits={"test": Split({"x": value_column("abc")})}, expected={"test": 9})
    first = data.first("test", 2)
    assert (list(first.splits["test"]["x"]), first.missing_rows()) == (["a", "b"], {})
    assert data.first("test", 5).missing_rows() == {"test": 2}
    assert data.first("test", None) is data is data.first("train", 2)


def test_a_limit_above_the_size_changes_nothing():
    data = Data(splits={"test": numbered(3, 2), "train": numbered(n=4)}, classes=["a", "b"])
    assert data.limited(100).digest() == data.digest()


def test_every_split_is_limited_for_itself():
    limited = Data(splits={"test": numbered(3, 2), "train": numbered(n=9)}).limited(4)
    assert {name: len(split) for name, split in limited.splits.items()} == {"test": 4, "train": 4}


def test_a_limit_shares_the_stored_column():
    data = Data(splits={"test": numbered(30, 10)})
    assert data.limited(4).splits["test"]["number"].key == data.splits["test"]["number"].key


def test_examples_keep_their_identity_in_a_selection():
    column = Column("key", "image", "abc", range(3), ["a.jpg", "b.jpg", "c.jpg"], ["1", "2", "3"])
    found = column.select([2, 0]).examples()
    assert (found.ids, found.digests) == (["c.jpg", "a.jpg"], ["3", "1"])


def test_examples_without_names_are_known_by_their_place_and_the_content_of_their_column():
    one, other = value_column(["x", "y"]), value_column(["x", "z"])
    assert one.select([1]).examples().ids == ["1"]
    assert one.examples().digests[0] == value_column(["x", "y"]).examples().digests[0]
    assert len({*one.examples().digests, *other.examples().digests}) == 4


def test_names_that_stand_twice_identify_nothing():
    assert Column("key", "image", "ab", range(2), ["a.jpg", "a.jpg"]).examples().ids == ["0", "1"]


@pytest.mark.parametrize("fractions", [[10] * 4, [30, 25, 10, 7], [90, 2]])
@pytest.mark.parametrize("least", [1, 2])
def test_the_rows_a_class_needs_are_never_too_many_and_always_more(fractions, least):
    label = [place for place, count in enumerate(fractions) for _ in range(count)]
    data = Data(splits={"train": Split({"label": value_column(label)})}, classes=list("abcd"))

    def counts(n):
        return np.bincount(labels(data.limited(n).splits["train"]), minlength=len(fractions))

    enough = next(n for n in range(1, len(label) + 1) if counts(n).min() >= least)
    for n in range(1, enough):
        assert n < fewest_rows(counts(n).tolist(), least) <= enough


def test_of_classes_of_one_size_as_many_rows_are_named_as_are_needed():
    assert fewest_rows([2, 2, 1], 5) == 15


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


def test_images_of_one_content_are_copies_and_rows_of_one_image_are_none():
    assert [copies(images(digests)) for digests in ("abc", "aab", "aaab")] == [0, 1, 2]
    assert copies(images("ab").select([0, 0, 1, 0])) == 0
    assert copies(Split({"label": value_column([1, 1])})) == 0
    named = Column("k", "image", "xyz", range(3), names=["x", "x", "z"], digests="aaa")
    assert copies(Split({"image": named})) == 1


def test_the_rows_of_an_image_come_together():
    assert same_images(images("abacb")) == [[0, 2], [1, 4], [3]]
    assert same_images(images("abacb").select([4, 1, 0])) == [[0, 1], [2]]
    assert same_images(Split({"label": value_column([1, 1])})) == [[0], [1]]


def test_without_known_content_nothing_is_shared():
    plain = Split({"label": value_column([1, 2])})
    assert content(plain) is None
    assert set(overlaps(Data(splits={"train": plain, "test": plain})).values()) == {0}


LENGTHS, CATEGORIES = "columns of one split differ in length", ["animal", "animal"]
REFUSED = {
    "values": (lambda: value_column([object()]), TypeError, r"cannot digest a builtins\.object"),
    "row": (lambda: numbered(2, 2).select([4]), IndexError, "out of range"),
    "lengths": (
        lambda: Split({"a": value_column([1]), "b": value_column([1, 2])}),
        ValueError,
        rf"{LENGTHS}: \{{'a': 1, 'b': 2",
    ),
    "empty": (lambda: Split({}), ValueError, LENGTHS),
    "column": (
        lambda: numbered(1, 1)["caption"],
        DataError,
        "^the data have no column 'caption'; they have label",
    ),
    "limit": (lambda: Data(splits={"test": numbered(3, 2)}).limited(-1), ValueError, "-1"),
    "categories": (
        lambda: Data(splits={}, classes=["dog"], categories=CATEGORIES),
        ValueError,
        "2 categories of 1 classes",
    ),
}


@pytest.mark.parametrize(("ask", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_data_is_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask()
