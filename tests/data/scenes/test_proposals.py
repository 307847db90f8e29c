import numpy as np
import pytest
from numpy.random import default_rng

from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.layout import single
from vlbench.data.scenes.proposals import overlap, propose


def test_proposals_find_most_things_and_the_most_confident_comes_first(rows):
    found = []
    for boxes, regions in zip(rows["boxes"], rows["regions"], strict=True):
        assert regions.vectors.shape == (len(regions.boxes), 768)
        assert regions.scores.tolist() == sorted(regions.scores.tolist(), reverse=True)
        assert len(regions.labels) == len(regions.boxes) >= len(boxes) + 3
        found += _best_overlaps(boxes.numpy(), regions.boxes.numpy())
    assert 0.85 < np.mean(np.array(found) >= 0.5) < 1


def _best_overlaps(gold, proposed):
    low = np.maximum(gold[:, None, :2], proposed[None, :, :2])
    high = np.minimum(gold[:, None, 2:], proposed[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (gold, proposed)]
    return (shared / (areas[0][:, None] + areas[1] - shared)).max(1).tolist()


@pytest.mark.parametrize(
    ("second", "expected"),
    [((0, 0, 4, 2), 1), ((2, 0, 6, 2), 1 / 3), ((4, 0, 8, 2), 0), ((5, 5, 8, 8), 0)],
)
def test_the_overlap_is_the_intersection_over_the_union(second, expected):
    assert overlap((0, 0, 4, 2), second) == pytest.approx(expected)


def test_proposals_are_float32_inside_the_image():
    scene = single("owl", default_rng(0))
    proposals = propose(scene, draw(scene), default_rng(0))
    assert {a.dtype for a in (proposals.boxes, proposals.vectors, proposals.scores)} == {
        np.dtype("float32")
    }
    assert proposals.boxes.min() >= 0
    assert proposals.boxes.max() <= 64
    assert (proposals.boxes[:, 2:] - proposals.boxes[:, :2]).min() >= 2
