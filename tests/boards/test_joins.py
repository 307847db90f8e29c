import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from planted_boards import score

from vlbench.boards.joins import compare, items_of
from vlbench.errors import DataError
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.items import Answers, Examples, item_table, join_items
from vlbench.metrics.paired import compare_corpora, compare_items

EXAMPLES = Examples(["x", "y", "z"], ["1", "2", "3"])


def table(credit, examples=EXAMPLES, metric="accuracy", **rest):
    return item_table(examples, metric, {"shots": 5}, credit, **rest)


def items(model, credit, examples=EXAMPLES, **rest):
    value = float(np.nanmean(np.atleast_2d(np.array(credit, float)), 1).mean())
    return items_of(model, table(credit, examples, **rest), score(value))


def compared(a, b):
    return compare(a, b, higher_is_better=True)


def test_items_are_joined_on_their_ids_whatever_their_order():
    turned = Examples(["z", "x", "y"], ["3", "1", "2"])
    found = compared(items("a", [1, 1, 0]), items("b", [0, 1, 0], turned))
    assert found == compare_items([1, 1, 0], [1, 0, 0], np.arange(3))


def test_items_of_other_scores_are_left_aside():
    other = [
        table([0, 0, 0], metric="accuracy_cosine"),
        item_table(EXAMPLES, "accuracy", {}, [0] * 3),
    ]
    found = items_of("a", join_items([*other, table([1, 0, 1])]), score(2 / 3))
    assert found.values.tolist() == [[1, 0, 1]]


def test_trials_keep_their_order_and_what_they_leave_out():
    credit = [[1, 0, 1], [0, math.nan, 1]]
    found = items("a", credit)
    np.testing.assert_array_equal(found.values, credit)


def test_items_of_one_image_are_one_cluster_and_an_item_without_is_its_own():
    examples = EXAMPLES._replace(clusters=["i", "i", "j"])
    assert compared(items("a", [1, 1, 0], examples), items("b", [0, 1, 0], examples)).clusters == 2
    assert compared(items("a", [1, 1, 0]), items("b", [0, 1, 0])).clusters == 3


def test_items_of_two_clusters_are_compared_by_both():
    examples = EXAMPLES._replace(clusters=["p\tq", "r\tp", "q\tr"])
    found = compared(items("a", [1, 1, 0], examples), items("b", [0, 1, 0], examples))
    assert found == compare_items([1, 1, 0], [0, 1, 0], np.array([[0, 1], [2, 0], [1, 2]]))


def test_scores_of_halves_are_compared_by_their_differences():
    def halved(model, credit, halves):
        found = replace(score(sum(credit) / 3), halves=halves)
        return items_of(model, table(credit), found)

    a, b = halved("a", [1, 1, 0], [0.5, 0.8, 0.9]), halved("b", [0, 1, 0], [0.3, 0.4, 0.3])
    expected = {"halves": [0.2, 0.4, 0.6]}
    assert compared(a, b).p == pytest.approx(
        compare_items([1, 1, 0], [0, 1, 0], np.arange(3), **expected).p
    )
    with pytest.raises(DataError, match="a and c have different numbers of halves"):
        compared(a, halved("c", [0, 1, 0], [0.3, 0.4]))
    # What is chance by construction is so on every half.
    chance = halved("c", [1, 0, 0], [])
    expected = {"halves": np.array([0.5, 0.8, 0.9])}
    found = compare_items([1, 1, 0], [1, 0, 0], np.arange(3), **expected)
    assert compared(a, chance).p == pytest.approx(found.p)


def test_draws_are_no_halves_though_the_items_are_pooled_over_them():
    def pooled(model, credit, draws):
        found = replace(score(sum(credit) / 3), draws=draws)
        return items_of(model, table(credit), found)

    a, b = pooled("a", [1, 0.5, 0], [0.4, 0.6]), pooled("b", [0, 0.5, 0], [0.1, 0.1, 0.3])
    assert compared(a, b) == compare_items([1, 0.5, 0], [0, 0.5, 0], np.arange(3))


def test_items_of_the_same_rows_are_placed_once_and_others_by_themselves():
    first = items("a", [1, 1, 0])
    alike = items_of("b", table([0, 1, 0]), score(1 / 3), first)
    turned = Examples(["z", "x", "y"], ["3", "1", "2"])
    other = items_of("b", table([0, 0, 1], turned), score(1 / 3), first)
    assert (alike.placed is first.placed, other.placed is first.placed) == (True, False)
    assert alike.values.tolist() == other.values.tolist() == [[0, 1, 0]]


def test_where_lower_is_better_the_lower_wins():
    a, b = items("a", [1, 1, 0]), items("b", [0, 0, 0])
    assert compare(a, b, higher_is_better=False).outcomes == (0, 2, 1)
    assert compare(a, b, higher_is_better=False).difference == pytest.approx(2 / 3)


def with_statistics(values, metric="bleu_1"):
    examples = Examples([str(i) for i in range(len(values))], ["d"] * len(values))
    return table(np.zeros(len(values)), examples, metric).append_column(
        "statistics", pa.array(values)
    )


def test_a_corpus_score_is_compared_by_its_statistics():
    stats = np.array([[3, 2, 1, 0, 4, 3, 2, 1, 4, 4], [1, 0, 0, 0, 4, 3, 2, 1, 4, 5]], float)
    formula = CORPORA["bleu_1"].formula
    both = [
        items_of(name, with_statistics(one.tolist()), score(float(formula(one.sum(0))), "bleu_1"))
        for name, one in (("a", stats), ("b", stats * 0.5))
    ]
    assert compared(*both) == compare_corpora(stats, stats * 0.5, np.arange(2), formula)


FOUND, STATISTICS = table([1, 1, 0]), "an item does not have 10 statistics"
REFUSED = [
    (with_statistics([[1.0]]), score(0.5, "bleu_1"), STATISTICS),
    (with_statistics([[1.0] * 10, None]), score(0.5, "bleu_1"), STATISTICS),
    (
        with_statistics([[1.0] * 9 + [math.nan]]),
        score(0.5, "bleu_1"),
        "an item has a statistic that is not finite",
    ),
    (
        with_statistics([[1.0]], "spice"),
        score(0.5, "spice"),
        "no corpus score is called spice; there are bleu_1, bleu_2",
    ),
    (FOUND, score(metric="reliability"), "a has no items of this score, which is not a mean"),
    (FOUND, score(0.7), r"^the items of a give 0\.666667, not its 0\.7"),
    (pa.concat_tables([FOUND] * 2), score(2 / 3), "a lists an item twice"),
    (
        FOUND.set_column(0, "id", pa.array(["x", "y", None]).dictionary_encode()),
        score(2 / 3),
        "a has an item without an id",
    ),
]


@pytest.mark.parametrize(("found", "its", "why"), REFUSED, ids=range(len(REFUSED)))
def test_items_that_do_not_make_a_score_are_refused(found, its, why):
    with pytest.raises(DataError, match=why):
        items_of("a", found, its)


def answered(model, last):
    return items(model, [1, 1, 0], answers=Answers(["cat", "dog"], [0, 0, 0], [0, 0, last]))


A, B = items("a", [1, 1, 0]), items("b", [1, 1, 0])
TWO, OTHER = Examples(["x", "y"], ["1", "2"]), Examples(["x", "y", "w"], ["1", "2", "3"])
CHANGED = EXAMPLES._replace(digests=["1", "7", "3"])
CLUSTERED = EXAMPLES._replace(clusters=["i"] * 3)
DIFFERENT = [
    (A, items("b", [1, 1, 0], OTHER), "a has the item 'z', but b does not"),
    (A, items("b", [1, 1, 0], CHANGED), "the item 'y' of a and of b differ in content"),
    (A, items("b", [1, 1, 0], CLUSTERED), "the item 'x' of a and of b differ in cluster"),
    (items("a", [1, 1], TWO), B, "b has the item 'z', but a does not"),
    (answered("a", 0), answered("b", 1), "the item 'z' of a and of b differ in target"),
]


@pytest.mark.parametrize(("a", "b", "why"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_items_that_are_not_the_same_are_named(a, b, why):
    with pytest.raises(DataError, match=why):
        compared(a, b)


def test_other_trials_are_refused():
    once, twice = items("a", [1, 1, 0]), items("b", [[1, 1, 0]] * 2)
    with pytest.raises(DataError, match="a and b have items in different trials"):
        compared(once, twice)
    out = replace_cell(twice)
    with pytest.raises(DataError, match="b and c have items in different trials"):
        compared(twice, out)


def replace_cell(found):
    values = found.values.copy()
    values[0, 0] = math.nan
    return found._replace(model="c", values=values)
