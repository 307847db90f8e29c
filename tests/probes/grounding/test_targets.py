import pytest
import torch
from grounding_fakes import CONFIDENCE, REGIONS

from vlbench.capabilities import Regions
from vlbench.probes.grounding.targets import STATS, column_coverage, geometry

BOXES = torch.tensor(REGIONS).float()
ALL = Regions(BOXES, None, torch.tensor(CONFIDENCE), None, (64, 64))
QUARTERS = torch.tensor([[0, 0, 32, 32], [32, 0, 64, 32], [0, 32, 32, 64], [32, 32, 64, 64]])


def stats(found, target=0):
    return dict(zip(STATS, found.stats[target].tolist(), strict=True))


def test_columns_that_are_regions_are_right_where_they_overlap_any_gold_box_by_half():
    nearly = [0.0, 0.0, 10.0, 5.0]
    found = geometry(ALL, BOXES, [[REGIONS[1], REGIONS[3]], [nearly], [[0.0, 0.0, 10.0, 4.9]]])
    assert found.right.tolist() == [
        [False, True, False, True], [True, False, False, False], [False] * 4
    ]  # fmt: skip
    assert torch.equal(found.gold, found.right.double())
    assert not found.own_patches


def test_boxes_that_were_scaled_and_scaled_back_are_the_regions():
    assert column_coverage(BOXES + 0.005, BOXES) is None


def test_a_patch_covers_regions_by_its_own_fraction():
    found = column_coverage(QUARTERS, BOXES)
    assert found[0].tolist() == pytest.approx([100 / 1024, 12 * 24 / 1024, 10 * 2 / 1024, 0])


def test_gold_of_a_patch_is_the_largest_fraction_that_one_gold_box_covers():
    found = geometry(ALL, QUARTERS, [[REGIONS[0], REGIONS[1]]])
    assert found.own_patches
    assert found.gold[0].tolist() == pytest.approx([288 / 1024, 288 / 1024, 0, 0])
    assert found.right.tolist() == [[True, True, False, False]]


def test_a_column_points_at_a_gold_box_that_its_centre_lies_in():
    found = geometry(ALL, QUARTERS, [[[10.0, 10.0, 20.0, 20.0]]])
    assert found.inside.tolist() == [[True, False, False, False]]


def test_baselines_are_the_credit_of_choices_that_look_at_no_word():
    found = geometry(ALL, BOXES, [[REGIONS[0]], [REGIONS[1]], [[60.0, 0.0, 64.0, 4.0]]])
    assert stats(found) == {
        "random_region": 0.25, "largest_region": 0, "most_confident_region": 1, "upper_bound": 1,
        "random_pointing": 0.25, "even_attention": 0.25,
    }  # fmt: skip
    assert stats(found, 1)["largest_region"] == 1
    assert set(stats(found, 2).values()) == {0.0}


def test_regions_without_scores_have_no_most_confident_one():
    found = geometry(ALL._replace(scores=None), BOXES, [[REGIONS[0]]])
    assert not found.has_scores
    assert stats(found)["most_confident_region"] == 0
