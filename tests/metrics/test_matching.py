import numpy as np
import pytest

from vlbench.metrics.matching import code_rule, greedy, hungarian, items_right, overlaps


def test_overlaps_count_clusters_in_rows_and_classes_in_columns():
    found = overlaps(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 1]), 3)
    assert found.tolist() == [[0, 2, 0], [1, 0, 0], [0, 1, 0]]


# Greedy: 9 at (0, 0), 7 at (2, 2), 2 at (1, 1). Code: classes 0 and 1 both take cluster 0, which
# goes to class 1 (8); class 2 takes cluster 2 (7); cluster 1 falls to class 0 (0).
# Best: 8 at (0, 1), 5 at (1, 2), 6 at (2, 0).
@pytest.mark.parametrize(("rule", "right"), [(greedy, 18), (code_rule, 15), (hungarian, 19)])
def test_each_rule_on_a_table_worked_by_hand(rule, right):
    counts = np.array([[9, 8, 0], [0, 2, 5], [6, 0, 7]])
    assert items_right(counts, rule(counts)) == right


# Greedy: 2 at (0, 0), then 0 at (1, 1). Code: both classes take cluster 0, which goes to class 1
# (2); cluster 1 falls to class 0 (2).
@pytest.mark.parametrize(("rule", "right"), [(greedy, 2), (code_rule, 4), (hungarian, 4)])
def test_of_equal_overlaps_the_lower_cluster_then_the_lower_class_goes_first(rule, right):
    counts = np.array([[2, 2], [2, 0]])
    assert items_right(counts, rule(counts)) == right


@pytest.mark.parametrize("rule", [greedy, code_rule, hungarian])
def test_clusters_that_are_the_classes_in_another_order_are_all_right(rule):
    counts = np.array([[0, 4, 0], [0, 0, 2], [7, 0, 0]])
    assert items_right(counts, rule(counts)) == 13


@pytest.mark.parametrize("rule", [greedy, hungarian])
def test_one_cluster_for_everything_gets_the_largest_class(rule):
    counts = np.array([[0, 0, 0], [3, 5, 1], [0, 0, 0]])
    assert items_right(counts, rule(counts)) == 5


def test_the_class_of_each_cluster_is_known():
    counts = np.array([[9, 8, 0], [0, 2, 5], [6, 0, 7]])
    found = [rule(counts).tolist() for rule in (greedy, code_rule, hungarian)]
    assert found == [[0, 1, 2], [1, 0, 2], [1, 2, 0]]


def test_a_cluster_that_overlaps_no_class_that_is_left_has_none():
    assert greedy(np.array([[2, 0], [1, 0]])).tolist() == [0, -1]
