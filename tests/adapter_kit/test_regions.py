import pytest
import torch

from vlbench.adapter_kit.regions import box_geometry, pad_regions, regions_of
from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo, DataError

CPU = torch.device("cpu")


def regions(count, width=2, size=(50, 20)):
    boxes = torch.tensor([[10.0, 5, 30, 15]]).repeat(count, 1)
    return Regions(boxes, torch.full((count, width), float(count)), None, None, size)


def test_regions_become_a_padded_batch():
    batch = pad_regions([regions(1), regions(3, size=(100, 50))], [2], CPU)
    assert batch.counts == [1, 3]
    assert batch.mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert batch.vectors[:, :, 0].tolist() == [[1, 0, 0], [3, 3, 3]]
    torch.testing.assert_close(batch.corners[0, 0], torch.tensor([0.2, 0.25, 0.6, 0.75]))
    torch.testing.assert_close(batch.corners[1, 2], torch.tensor([0.1, 0.1, 0.3, 0.3]))
    assert batch.corners[0, 1:].abs().sum() == 0


def test_pictures_without_regions_make_a_batch_without_columns():
    batch = pad_regions([regions(0)], [2], CPU)
    assert (batch.vectors.shape, batch.mask.shape) == ((1, 0, 2), (1, 0))


def test_vectors_of_another_width_are_refused_with_both_widths():
    with pytest.raises(DataError, match=r"picture 1 .* 3 wide; the model reads width 2 or 8$"):
        pad_regions([regions(1), regions(1, width=3)], [2, 8], CPU)


@pytest.mark.parametrize("lacking", [None, regions(1)._replace(vectors=None)])
def test_a_picture_without_region_vectors_is_named(lacking):
    with pytest.raises(DataError, match="picture 1 of the batch has no region vectors"):
        regions_of([Picture(None, regions(1)), Picture(None, lacking)])


def test_data_without_regions_are_what_the_model_cannot_do():
    with pytest.raises(CannotDo, match="the task's data have none"):
        regions_of([Picture(None, None), Picture(None, None)])


def test_regions_are_taken_out_of_their_pictures():
    given = [regions(1), regions(2)]
    assert regions_of([Picture(None, one) for one in given]) == given


@pytest.mark.parametrize(
    ("numbers", "added"), [(4, []), (5, [0.2]), (6, [0.4, 0.5]), (7, [0.4, 0.5, 0.2])]
)
def test_a_box_is_described_by_four_to_seven_numbers(numbers, added):
    corners = torch.tensor([[[0.2, 0.25, 0.6, 0.75]]])
    expected = torch.tensor([[[0.2, 0.25, 0.6, 0.75, *added]]])
    torch.testing.assert_close(box_geometry(corners, numbers), expected)


def test_no_other_description_of_a_box_is_known():
    with pytest.raises(ValueError, match="4 to 7 numbers, not 8"):
        box_geometry(torch.zeros(1, 4), 8)
