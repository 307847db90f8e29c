from itertools import permutations

import pytest
import torch

from vlbench.probes.matching.credits import group_choice


def by_orders(table):
    """Return how often both right ones are above both wrong ones, over all orders of ties."""
    right, wrong = [table[0][0], table[1][1]], [table[0][1], table[1][0]]
    scores, won, count = right + wrong, 0, 0
    for order in permutations(range(4)):
        values = [(score, order[i]) for i, score in enumerate(scores)]
        won += min(values[:2]) > max(values[2:])
        count += 1
    return won / count


@pytest.mark.parametrize(
    "table",
    [
        [[1, 0], [0, 1]], [[0, 1], [1, 0]], [[1, 1], [1, 1]], [[2, 1], [1, 1]], [[1, 1], [0, 1]],
        [[2, 1], [0, 1]], [[2, 2], [2, 1]], [[1, 2], [0, 3]], [[0, 0], [0, 0]], [[3, 1], [2, 1]],
    ],
)  # fmt: skip
def test_the_group_score_of_ties_is_that_of_all_their_orders(table):
    choice = group_choice(torch.tensor([table], dtype=torch.float64))
    assert choice.credit.item() == pytest.approx(by_orders(table))


def test_scores_within_a_millionth_are_tied():
    table = torch.tensor([[[1.0, 1 - 1e-8], [1 - 1e-8, 1.0]]], dtype=torch.float64)
    choice = group_choice(table)
    assert (choice.credit.item(), choice.tied.item()) == (pytest.approx(1 / 6), True)
