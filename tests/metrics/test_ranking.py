from itertools import permutations, product

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from vlbench.metrics.ranking import (
    TIED,
    all_equal,
    all_parallel,
    average_precision,
    choose,
    choose_any,
    credit_among,
    join_choices,
    median_rank,
    ranks_of_chance,
    recall_at,
    right_ranks,
)


def credit_of(scores, right, **options):
    return choose(torch.tensor(scores), torch.tensor(right), **options).credit.tolist()


def test_the_highest_score_alone_earns_everything_or_nothing():
    assert credit_of([[0.1, 0.9], [0.9, 0.1]], [1, 1]) == [1.0, 0.0]
    assert choose(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).credit.tolist() == []


def test_a_tie_with_the_right_one_earns_its_share_and_one_without_it_nothing():
    assert credit_of([[0.5, 0.5, 0.5, 0.1]] * 2, [1, 3]) == pytest.approx([1 / 3, 0.0])
    assert credit_of([[2.0] * 4] * 4, [0, 1, 2, 3]) == [0.25] * 4
    assert credit_of([[0.0, 0.0]], [1]) == [0.5]


def test_tied_means_within_a_millionth_of_the_largest_magnitude():
    scores = torch.tensor([[1000.0, 999.9995], [1000.0, 999.998]])
    assert choose(scores, torch.tensor([0, 0])).tied.tolist() == [True, False]
    # A negative magnitude counts too.
    assert credit_of([[-1e-6, -2e-6, -5.0]], [0]) == [0.5]


def test_the_scale_is_what_entered_before_it_cancelled():
    scores, right = torch.tensor([[1e-4, 0.0], [1e-4, 0.0]]), torch.tensor([0, 0])
    choice = choose(scores, right, scale=torch.tensor([1e3, 1.0]))
    assert choice.credit.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("margin", [-60.0, 0.0, 4.0, 20.0, 60.0])
def test_log_odds_are_tied_by_what_they_are_compared_with(margin):
    near = TIED * max(10.0, abs(margin)) / 2
    scores = torch.tensor([[margin, margin - near, -1e9], [margin, margin - 4 * near, -1e9]])
    right = torch.zeros(2, dtype=torch.int64)
    choices = [
        choose(scores.double(), right, log_odds=True).credit,
        choose_any(scores.double(), torch.eye(3)[[0, 0]].bool(), log_odds=True).credit,
        recall_at(right_ranks(scores.double(), right[:, None], log_odds=True), 1),
        credit_among(scores.double(), right, 1, log_odds=True),
    ]
    assert [credit.tolist() for credit in choices] == [[0.5, 1.0]] * 4


def test_half_precision_is_widened_before_it_is_compared_and_double_stays():
    for near, dtype in ((0.999, torch.float16), (1 - 2e-6, torch.float64)):
        scores = torch.tensor([[1.0, near]], dtype=dtype)
        assert choose(scores, torch.tensor([0])).tied.tolist() == [False]


@pytest.mark.parametrize(("value", "place"), [(torch.nan, 0), (torch.inf, 1), (-torch.inf, 2)])
def test_a_score_that_is_not_finite_is_refused_with_its_row_by_every_function(value, place):
    scores, right = torch.tensor([[0.2, 0.5, 0.1]] * 4), torch.arange(4) % 3
    scores[2, place] = value
    several = torch.nn.functional.one_hot(right, 3).bool()
    for ask in (
        lambda: choose(scores, right),
        lambda: choose(scores, right, scale=torch.ones(4)),
        lambda: credit_among(scores, right, 1),
        lambda: right_ranks(scores, right[:, None]),
        lambda: choose_any(scores, several),
        lambda: choose_any(scores, several, candidates=torch.ones(3, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match=f"a score is not finite: row 2 has {value}"):
            ask()


def test_tied_choices_share_the_credit_of_those_that_are_right():
    scores = torch.tensor([[0.5, 0.5 - 1e-9, 0.5, 0.2], [0.1, 0.4, 0.2, 0.3]])
    right = torch.tensor([[True, True, False, True], [False, True, True, False]])
    credit, tied, _ = choose_any(scores, right)
    assert credit.tolist() == pytest.approx([2 / 3, 1.0])
    assert tied.tolist() == [True, False]


@pytest.mark.parametrize("padding", [0.0, 9.0, -9.0, torch.nan, torch.inf, -torch.inf])
def test_what_is_no_candidate_does_not_count_whatever_stands_there(padding):
    scores = torch.tensor([[-0.5, -0.5, -0.7, padding], [-0.1, padding, padding, padding]])
    right = torch.tensor([[True, False, False, True], [True, True, False, True]])
    candidates = torch.tensor([[True, True, True, False], [True, False, False, False]])
    credit, tied, _ = choose_any(scores, right, candidates=candidates)
    assert credit.tolist() == [0.5, 1.0]
    assert tied.tolist() == [True, False]


def test_a_row_without_candidates_or_a_right_one_and_a_scale_that_is_no_number_are_refused():
    candidates = torch.tensor([[[True, True], [False, False]]])
    with pytest.raises(ValueError, match="row 0, 1 has no candidate to choose"):
        choose_any(torch.zeros(1, 2, 2), candidates, candidates=candidates)
    with pytest.raises(ValueError, match="row 1 has no right candidate"):
        right_ranks(torch.ones(2, 3), torch.tensor([[0], [-1]]))
    with pytest.raises(ValueError, match="the scale of row 0 is nan"):
        credit_of([[0.0, 1.0]], [0], scale=torch.tensor([torch.nan]))


def test_choosing_among_several_right_ones_is_choose_where_one_is_right():
    scores = torch.rand(50, 6, generator=torch.Generator().manual_seed(0)).mul(4).round()
    right = torch.arange(50) % 6
    several = choose_any(scores, torch.nn.functional.one_hot(right, 6).bool())
    assert all(torch.equal(a, b) for a, b in zip(several, choose(scores, right), strict=True))


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


def test_the_candidate_chosen_is_known_unless_several_are_tied():
    scores = torch.tensor([[0.1, 0.9, 0.2], [0.5, 0.1, 0.5]])
    assert choose(scores, torch.tensor([0, 0])).chosen.tolist() == [1, -1]


def test_rows_that_differ_by_rounding_are_equal_and_one_row_to_no_other():
    rows = torch.tensor([[100.0, 0.0], [100.00005, 0.00005]])
    assert all_equal(rows)
    assert not all_equal(rows * torch.tensor([[1.0], [1.00001]]))
    assert not all_equal(torch.ones(1, 3))


def test_rows_of_another_length_or_sign_are_parallel_but_not_equal():
    rows = torch.tensor([[1.0, 2.0], [2.0, 4.0], [-0.5, -1.0]])
    for some, equal, parallel in (
        (rows, False, True),
        (0 * rows, True, True),
        # A row of zeros is parallel to no other.
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), False, False),
    ):
        assert (bool(all_equal(some)), bool(all_parallel(some))) == (equal, parallel)


def test_rows_that_differ_in_direction_by_rounding_are_parallel():
    noise = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    signs = torch.tensor([1.0, -1.0] * 25)[:, None]
    assert all_parallel(signs * (1 + 1e-6 * noise))
    assert not all_parallel(signs * (1 + 1e-2 * noise))


def ranked(scores, right):
    """Return better, tied and right_tied of the best right candidate of one query."""
    found = right_ranks(torch.tensor([scores]), torch.tensor([right]))
    return [int(x[0, 0]) for x in (found.better, found.tied, found.right_tied)]


def test_the_best_of_several_right_candidates_counts():
    assert ranked([0.1, 0.9, 0.5, 0.7], [0, 2]) == [2, 1, 1]
    assert ranked([0.1, 0.9, 0.5, 0.7], [0, 1]) == [0, 1, 1]


def test_right_and_wrong_candidates_within_a_millionth_are_tied():
    assert ranked([9.0, 5.0, 5.0, 5.0, 1.0], [1, 3]) == [1, 3, 2]
    assert ranked([9.0, 5.0, 5.000004, 5.0, 1.0], [1, 3]) == [1, 3, 2]
    assert ranked([9.0, 5.0, 5.00002, 5.0, 1.0], [1, 3]) == [2, 2, 2]


def test_rows_with_fewer_right_candidates_are_filled_up():
    found = right_ranks(torch.tensor([[0.1, 0.9], [0.9, 0.1]]), torch.tensor([[0, 1], [1, -1]]))
    assert found.better.tolist() == [[0, 1], [1, 0]]
    assert found.tied.tolist() == [[1, 1], [1, 0]]
    assert found.right_better.tolist() == [[0, 1], [0, 0]]
    assert found.right_tied.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    ("scores", "right", "first", "first_right"),
    [
        ([0.1, 0.9, 0.5, 0.7], [0, 2], 1, 2),
        ([0.1, 0.9, 0.9, 0.7], [0, 2], -1, 2),
        ([0.1, 0.9, 0.9, 0.7], [3, 0], -1, 3),
        # Whichever of two right ones comes first, it is right.
        ([0.1, 0.9, 0.9, 0.7], [1, 2], 1, 1),
    ],
)
def test_the_candidate_that_ranks_first_is_named_unless_it_is_tied(
    scores, right, first, first_right
):
    found = right_ranks(torch.tensor([scores]), torch.tensor([right]))
    assert (found.first.item(), found.first_right.item()) == (first, first_right)


@pytest.mark.parametrize(("second", "first"), [(599, -1), (600, -1), (700, -1), (None, 3)])
def test_the_highest_of_many_candidates_is_named_unless_any_other_is_tied(second, first):
    scores = torch.linspace(0.1, 0.5, 701)[None]
    scores[0, [3] if second is None else [3, second]] = 0.9
    assert right_ranks(scores, torch.tensor([[0]])).first.item() == first


def test_two_places_of_four_hold_one_of_two_right_ones_five_times_of_six():
    found = ranks_of_chance(torch.tensor([4]), torch.tensor([2]))
    assert recall_at(found, 2).tolist() == [pytest.approx(5 / 6)]
    assert [recall_at(found, k).item() for k in (1, 3, 9)] == [0.5, 1, 1]
    # The first right one of two among four is at place 1 in 3 orders of 6, at 2 in 2, at 3 in 1.
    assert median_rank(found, 4) == 1.5


SMALL = [(s, r) for s in product([0.0, 1.0, 2.0], repeat=4) for r in ([0], [0, 1], [0, 1, 3])]


def orders_of(scores):
    """Return the candidates from the highest score on, in all orders of those that are tied."""
    return [sorted(order, key=lambda i: -scores[i]) for order in permutations(range(len(scores)))]


def by_every_order(scores, right, k):
    """Return recall at k and the median of the best rank, over all orders of tied candidates."""
    best = np.array([min(order.index(i) for i in right) for order in orders_of(scores)])
    return (best < k).mean(), np.median(best) + 1


def precision_by_loop(order, right):
    """Return the average precision of one order of candidates, place by place."""
    hits, precisions = 0, []
    for place, candidate in enumerate(order, 1):
        if candidate in right:
            hits += 1
            precisions.append(hits / place)
    return np.mean(precisions)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_recall_and_rank_are_means_over_every_order_of_tied_candidates(k):
    found = [right_ranks(torch.tensor([s]), torch.tensor([r])) for s, r in SMALL]
    values = [(recall_at(one, k).item(), median_rank(one, 4)) for one in found]
    wanted = [by_every_order(s, r, k) for s, r in SMALL]
    assert np.allclose(values, wanted, rtol=0, atol=1e-12)


def test_average_precision_is_its_mean_over_every_order_of_tied_candidates():
    found = [right_ranks(torch.tensor([s]), torch.tensor([r])) for s, r in SMALL]
    wanted = [np.mean([precision_by_loop(o, r) for o in orders_of(s)]) for s, r in SMALL]
    assert np.allclose([average_precision(x).item() for x in found], wanted, rtol=0, atol=1e-12)


def test_average_precision_is_scikit_learns_where_nothing_is_tied():
    scores = torch.randn(40, 300, generator=torch.Generator().manual_seed(0))
    right = torch.arange(40)[:, None] + torch.tensor([0, 40, 80, 120, 160])
    right[::3, 3:] = -1
    found = average_precision(right_ranks(scores, right))
    for row, own in enumerate(right.tolist()):
        target = np.isin(np.arange(300), own)
        wanted = average_precision_score(target, scores[row].numpy())
        assert found[row].item() == pytest.approx(wanted, abs=1e-12)


def test_the_average_precision_of_chance_is_that_of_a_constant_score():
    right = torch.tensor([[0, 1, 2], [4, -1, -1]])
    constant = average_precision(right_ranks(torch.ones(2, 5), right))
    chance = average_precision(ranks_of_chance(torch.tensor([5, 5]), torch.tensor([3, 1])))
    assert torch.allclose(constant, chance, rtol=0, atol=1e-12)
    # One right of five: the mean of 1, 1/2, ..., 1/5.
    assert chance[1].item() == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 5)


def test_the_median_rank_is_numpys():
    for queries in (7, 8):
        scores = torch.randn(queries, 90, generator=torch.Generator().manual_seed(queries))
        found = right_ranks(scores, torch.arange(queries)[:, None])
        ranks = (scores > scores.diagonal()[:, None]).sum(1).numpy() + 1
        assert median_rank(found, 90) == np.median(ranks)


def test_ranks_are_the_same_in_blocks_and_of_a_transposed_matrix(monkeypatch):
    scores = torch.randint(9, (40, 7), generator=torch.Generator().manual_seed(0)).float()
    right = (torch.arange(40) % 7)[:, None]
    whole, transposed = right_ranks(scores, right), right_ranks(scores.T.contiguous().T, right)
    monkeypatch.setattr("vlbench.metrics.ranking.COMPARED", 21)
    for other in (transposed, right_ranks(scores, right)):
        assert all(torch.equal(x, y) for x, y in zip(whole, other, strict=True))
