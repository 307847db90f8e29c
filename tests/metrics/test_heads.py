import numpy as np
import pytest

from vlbench.metrics.heads import best_heads, split_half


def test_each_half_is_judged_by_the_head_that_the_other_chose():
    # Head 0 is right on images 0..3, head 1 on 4..7: whoever chooses by one half, errs on it.
    credit = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    found = split_half(credit, np.ones(8), seed=0)
    order = np.random.default_rng(0).permutation(np.arange(8))
    halves = order[:4], order[4:]
    chosen = [best_heads(credit[half].sum(0)) for half in halves]
    assert found.chosen == [chosen[0][0], chosen[1][0]]
    assert [found.judges[image] for image in halves[1]] == [chosen[0]] * 4
    assert found.credit[halves[1]].tolist() == credit[halves[1]][:, chosen[0]].mean(1).tolist()
    assert found.credit[halves[0]].tolist() == credit[halves[0]][:, chosen[1]].mean(1).tolist()


def test_tied_heads_share_the_choice():
    found = split_half(np.array([[1.0, 0.0], [1.0, 0.0]]) @ np.full((2, 2), 0.5), np.ones(2))
    assert found.credit.tolist() == [0.5, 0.5]
    assert best_heads(np.array([1.0, 3.0, 3.0 - 1e-9])) == [1, 2]


def test_images_without_items_are_in_no_half():
    found = split_half(np.ones((4, 1)), np.array([1, 0, 1, 0]))
    assert found.credit.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert found.judges == [[0], [], [0], []]


def test_one_image_has_no_halves():
    with pytest.raises(ValueError, match="1 image with items; two halves need two"):
        split_half(np.ones((2, 1)), np.array([3, 0]))
