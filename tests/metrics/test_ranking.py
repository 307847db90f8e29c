from itertools import permutations

import numpy as np
import pytest
import torch

from vlbench.metrics.ranking import choose, choose_any, credit_among, join_choices


def credit_of(scores, right, **options):
    return choose(torch.tensor(scores), torch.tensor(right), **options).credit.tolist()


def test_the_highest_score_alone_earns_everything_or_nothing():
    assert credit_of([[0.1, 0.9], [0.9, 0.1]], [1, 1]) == [1.0, 0.0]


def test_a_tie_with_the_right_one_earns_its_share():
    assert credit_of([[0.5, 0.5, 0.5, 0.1]], [1]) == [pytest.approx(1 / 3)]


def test_a_tie_without_the_right_one_earns_nothing():
    assert credit_of([[0.5, 0.5, 0.1]], [2]) == [0.0]


def test_equal_scores_earn_chance_wherever_the_right_one_stands():
    assert credit_of([[2.0] * 4] * 4, [0, 1, 2, 3]) == [0.25] * 4


def test_tied_rows_are_named():
    choice = choose(torch.tensor([[1.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0]))
    assert choice.tied.tolist() == [True, False]


def test_tied_means_within_a_millionth_of_the_largest_magnitude():
    scores = torch.tensor([[1000.0, 999.9995], [1000.0, 999.998]])
    assert choose(scores, torch.tensor([0, 0])).tied.tolist() == [True, False]


def test_a_negative_magnitude_counts_too():
    assert credit_of([[-1e-6, -2e-6, -5.0]], [0]) == [0.5]


def test_the_scale_is_what_entered_before_it_cancelled():
    scores, right = torch.tensor([[1e-4, 0.0], [1e-4, 0.0]]), torch.tensor([0, 0])
    choice = choose(scores, right, scale=torch.tensor([1e3, 1.0]))
    assert choice.credit.tolist() == [0.5, 1.0]


def test_all_zero_scores_are_tied():
    assert credit_of([[0.0, 0.0]], [1]) == [0.5]


def test_minus_infinity_is_no_candidate():
    assert credit_of([[1.0, 0.5, -torch.inf], [1.0, 1.0, -torch.inf]], [0, 1]) == [1.0, 0.5]


def test_half_precision_is_widened_before_it_is_compared():
    scores = torch.tensor([[1.0, 0.999]], dtype=torch.float16)
    assert choose(scores, torch.tensor([0])).credit.tolist() == [1.0]


def test_double_precision_stays():
    scores = torch.tensor([[1.0, 1.0 - 2e-6]], dtype=torch.float64)
    assert choose(scores, torch.tensor([0])).tied.tolist() == [False]


def test_no_rows_earn_no_credit():
    assert choose(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).credit.tolist() == []


@pytest.mark.parametrize("row", [[0.0, torch.nan], [torch.nan, 1.0], [torch.inf, 0.0]])
def test_a_score_that_is_no_number_is_refused_with_its_row(row):
    with pytest.raises(ValueError, match="the best score of row 1 is"):
        credit_of([[0.0, 1.0], row], [0, 0])


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(ValueError, match="the best score of row 0 is -inf; wanted a finite"):
        credit_of([[-torch.inf, -torch.inf]], [0])


def test_a_scale_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="the scale of row 0 is nan"):
        credit_of([[0.0, 1.0]], [0], scale=torch.tensor([torch.nan]))


def test_tied_choices_share_the_credit_of_those_that_are_right():
    scores = torch.tensor([[0.5, 0.5 - 1e-9, 0.5, -torch.inf], [0.1, 0.4, 0.2, 0.3]])
    right = torch.tensor([[True, True, False, True], [False, True, True, False]])
    credit, tied = choose_any(scores, right)
    assert credit.tolist() == pytest.approx([2 / 3, 1.0])
    assert tied.tolist() == [True, False]


def test_choosing_among_several_right_ones_is_choose_where_one_is_right():
    scores = torch.rand(50, 6, generator=torch.Generator().manual_seed(0)).mul(4).round()
    right = torch.arange(50) % 6
    several = choose_any(scores, torch.nn.functional.one_hot(right, 6).bool())
    assert all(torch.equal(a, b) for a, b in zip(several, choose(scores, right), strict=True))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_to_choose_among_several_is_refused(value):
    with pytest.raises(ValueError, match="a score is not finite, or there is nothing to choose"):
        choose_any(torch.full((1, 2), value), torch.ones(1, 2, dtype=torch.bool))


def test_credit_among_guesses_is_the_mean_over_every_order_of_tied_ones():
    scores = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    orders = list(permutations(range(5)))
    for right in range(5):
        found = credit_among(scores, torch.tensor([right, right]), 3)
        ranked = [[sorted(o, key=lambda c: -row[c])[:3] for o in orders] for row in scores]
        fractions = [np.mean([right in best for best in row]) for row in ranked]
        assert found.tolist() == pytest.approx(fractions)


def test_several_numbers_of_guesses_have_a_row_each():
    scores, right = torch.tensor([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0]]), torch.tensor([1, 2])
    found = credit_among(scores, right, torch.tensor([[1], [2]]))
    assert found.flatten().tolist() == pytest.approx([0, 1 / 3, 1, 2 / 3])


def test_blocks_of_choices_are_joined_in_order():
    scores, right = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0, 0])
    blocks = [choose(scores[:2], right[:2]), choose(scores[2:], right[2:])]
    joined = join_choices(blocks)
    assert all(torch.equal(a, b) for a, b in zip(joined, choose(scores, right), strict=True))
