import numpy as np
import pytest

from vlbench.probes.grounding.attention import COUNTED, HeadSums
from vlbench.probes.grounding.measures import MEASURES, STATS
from vlbench.probes.grounding.scores import (
    best_heads,
    groups_of,
    head_table,
    scores_of,
    split_half,
)


def sums_of(accuracy, attention=0.5, *, whole=True, has_scores=True, layers=1):
    """Return sums of one query per image; accuracy is [images, heads] of one group."""
    accuracy = np.asarray(accuracy, np.float32)
    images, heads = accuracy.shape
    parts = {"accuracy": accuracy, "attention": np.full_like(accuracy, attention)}
    blank = np.zeros_like(accuracy)
    measures = np.stack([parts.get(name, blank) for name in MEASURES], -1)
    stats = np.zeros((images, 1, len(COUNTED) + len(STATS)))
    columns = (*COUNTED, *STATS)
    for name, value in {"n": 1, "read": 1, "random_region": 0.25, "upper_bound": 1}.items():
        stats[:, 0, columns.index(name)] = value
    shaped = measures.reshape(images, 1, layers, heads // layers, len(MEASURES))
    return HeadSums(shaped, stats, whole=whole, own_patches=False, has_scores=has_scores)


def scores(sums, conditions=({},)):
    return scores_of(groups_of(sums, conditions, 0))


def named(sums):
    return {(s.metric, *s.at.values()): s for s in scores(sums)}


RIGHT = [[1, 0, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]]


def test_every_head_and_the_best_of_each_layer_have_a_score():
    found = named(sums_of(RIGHT, layers=2))
    heads = [found["head_accuracy", layer, head].value for layer in (0, 1) for head in (0, 1)]
    assert heads == [0.75, 0.5, 0.25, 0.0]
    assert [found["layer_accuracy", layer].value for layer in (0, 1)] == [0.75, 0.25]
    assert found["best_head_accuracy",].value == 0.75
    assert found["upper_bound",].value == 1.0


def test_a_score_has_the_chance_and_the_floors_of_its_measure():
    found = named(sums_of(RIGHT))
    best = found["best_head_accuracy",]
    assert (best.n, best.chance) == (4, 0.25)
    assert set(best.floors) == {"random_region", "largest_region", "most_confident_region"}
    assert found["pointing_accuracy",].floors == {}
    bare = named(sums_of(RIGHT, has_scores=False))["best_head_accuracy",]
    assert set(bare.floors) == {"random_region", "largest_region"}


def test_the_best_active_head_is_chosen_among_active_ones():
    sums = sums_of(RIGHT)
    sums.heads[..., 0, MEASURES.index("attention")] = 0.1
    (group,) = groups_of(sums, [{}], 0)
    assert (group.best, group.best_active) == (0, 1)
    assert named(sums)["best_active_head_accuracy",].value == 0.5


def test_over_200_scores_stay_in_the_table():
    sums = sums_of(np.ones((3, 300)), layers=30)
    metrics = [score.metric for score in scores(sums)]
    assert "head_accuracy" not in metrics
    assert metrics.count("layer_accuracy") == 30
    assert head_table(groups_of(sums, [{}], 0)).num_rows == 300


def test_a_table_has_a_row_per_head_with_its_group():
    rows = head_table(groups_of(sums_of(RIGHT, layers=2), [{"relation": "det"}], 0)).to_pylist()
    assert [(r["relation"], r["layer"], r["head"], r["accuracy"]) for r in rows] == [
        ("det", 0, 0, 0.75), ("det", 0, 1, 0.5), ("det", 1, 0, 0.25), ("det", 1, 1, 0.0)
    ]  # fmt: skip
    assert [r["active"] for r in rows] == [True] * 4


def test_a_group_without_queries_is_left_out():
    sums = sums_of(RIGHT)
    sums.stats[:, 0, COUNTED.index("n")] = 0
    assert groups_of(sums, [{}], 0) == []


def test_each_half_is_judged_by_the_head_that_the_other_chose():
    # Head 0 is right on images 0..3, head 1 on 4..7: whoever chooses by one half, errs on it.
    credit = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    found = split_half(credit, np.ones(8), seed=0)
    order = np.random.default_rng(0).permutation(np.arange(8))
    halves = order[:4], order[4:]
    chosen = [best_heads(credit[half].sum(0)) for half in halves]
    assert [found.judges[image] for image in halves[1]] == [chosen[0]] * 4
    assert found.credit[halves[1]].tolist() == credit[halves[1]][:, chosen[0]].mean(1).tolist()
    assert found.credit[halves[0]].tolist() == credit[halves[0]][:, chosen[1]].mean(1).tolist()


def test_tied_heads_share_the_choice():
    found = split_half(np.array([[1.0, 0.0], [1.0, 0.0]]) @ np.full((2, 2), 0.5), np.ones(2))
    assert found.credit.tolist() == [0.5, 0.5]
    assert best_heads(np.array([1.0, 3.0, 3.0 - 1e-9])) == [1, 2]


def test_images_without_items_are_in_no_half_and_one_image_has_none():
    found = split_half(np.ones((4, 1)), np.array([1, 0, 1, 0]))
    assert found.credit.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert found.judges == [[0], [], [0], []]
    with pytest.raises(ValueError, match="1 image with items; two halves need two"):
        split_half(np.ones((2, 1)), np.array([3, 0]))
