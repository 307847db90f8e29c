import pytest
import torch
from torchvision.ops import box_iou

from vlbench.metrics.boxes import areas, centres_inside, covered_fractions, iou

SQUARE = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
POINT = torch.tensor([[5.0, 5.0, 5.0, 5.0]])


def random_boxes(n, seed):
    corners = torch.rand(n, 2, 2, generator=torch.Generator().manual_seed(seed)) * 100
    return torch.cat([corners.amin(1), corners.amax(1)], 1)


def test_iou_is_torchvisions():
    first, second = random_boxes(40, 0), random_boxes(30, 1)
    assert torch.allclose(iou(first, second).float(), box_iou(first, second))


def test_boxes_overlap_by_exactly_half_also_outside_the_image():
    boxes = [[0.0, 0.0, 10.0, 5.0], [-10.0, -10.0, 10.0, 0.0], [-10.0, 0.0, 10.0, 10.0]]
    assert iou(SQUARE, torch.tensor(boxes)).tolist() == [[0.5, 0.0, 0.5]]
    assert iou(torch.empty(0, 4), SQUARE).shape == (0, 1)


def test_a_box_of_no_area_overlaps_and_contains_nothing():
    assert iou(POINT, torch.cat([SQUARE, POINT])).tolist() == [[0.0, 0.0]]
    assert not centres_inside(SQUARE, POINT).any()
    assert covered_fractions(POINT, SQUARE).tolist() == [[0.0]]


def test_a_centre_is_inside_up_to_the_right_and_lower_edge():
    boxes = torch.tensor([[5.0, 5.0, 9.0, 9.0], [0.0, 0.0, 5.0, 9.0], [3.0, 3.0, 4.0, 4.0]])
    assert centres_inside(SQUARE, boxes).tolist() == [[True, False, False]]


def test_the_covered_fraction_is_of_the_patchs_own_area():
    boxes = torch.tensor([[0.0, 0.0, 5.0, 5.0], [-5.0, -5.0, 30.0, 30.0], [20.0, 20.0, 30.0, 30.0]])
    assert covered_fractions(SQUARE, boxes).tolist() == [[0.25, 1.0, 0.0]]


@pytest.mark.parametrize("box", [[9.0, 0.0, 1.0, 5.0], [0.0, float("nan"), 1.0, 1.0]])
def test_corners_the_wrong_way_round_are_refused(box):
    with pytest.raises(ValueError, match=r"box 1 is .*; it needs x1 <= x2 and y1 <= y2"):
        iou(torch.cat([SQUARE, torch.tensor([box])]), SQUARE)


def test_areas_have_no_pixel_added_and_what_is_no_list_of_boxes_is_refused():
    assert areas(SQUARE).tolist() == [100.0]
    with pytest.raises(ValueError, match=r"boxes have shape \[4\]; they must be \[N, 4\]"):
        areas(SQUARE[0])
