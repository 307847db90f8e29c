import numpy as np
import pytest
import torch
from PIL import Image
from tiny_joint import CPU, adapter
from torchvision.ops import roi_align
from torchvision.transforms import functional

from vlbench.adapter_kit.images import resizing
from vlbench.capabilities import Picture
from vlbench.errors import CannotDo

Crops, Grid = adapter("crops:Crops"), adapter("crops:Grid")
find_view = adapter("crops:find_view")


class Corners:
    """Encodes an image as its size and the red of its first and last pixels."""

    def preprocess(self, image):
        first, last = (
            image.getpixel((0, 0))[0],
            image.getpixel((image.width - 1, image.height - 1))[0],
        )
        values = torch.tensor([image.width / 100, image.height / 100, first / 255, last / 255])
        return values.view(1, 1, 4).expand(3, 1, 4).clone()

    def encode_images(self, pixels):
        return pixels[:, 0, 0] * torch.tensor([100, 100, 255, 255])


@pytest.fixture
def picture():
    """A picture 20 wide and 10 high whose red is 20 y + x."""
    red = np.arange(200, dtype=np.uint8).reshape(10, 20)
    return Picture(Image.fromarray(np.stack([red, red, red], 2)), None)


def encoded(picture, *boxes):
    found = Crops(device=CPU, encoder=Corners()).encode_regions([picture], [torch.tensor(boxes)])
    return found[0].round().int().tolist()


def test_a_box_is_encoded_as_what_it_cuts_out(picture):
    assert encoded(picture, [0.0, 0, 20, 10], [2.0, 3, 5, 7]) == [[20, 10, 0, 199], [3, 4, 62, 124]]


def test_a_box_covers_every_pixel_that_it_touches(picture):
    assert encoded(picture, [2.6, 3.6, 4.2, 6.1]) == [[3, 4, 62, 124]]


def test_a_box_is_cut_at_the_pictures_edge(picture):
    assert encoded(picture, [-5.0, -5, 30, 40]) == [[20, 10, 0, 199]]


@pytest.mark.parametrize("box", [[4.0, 4, 4, 4], [4.0, 4, 2, 2]])
def test_a_box_of_no_area_is_one_pixel(picture, box):
    assert encoded(picture, box) == [[1, 1, 84, 84]]


def test_a_box_beside_the_picture_is_its_nearest_pixel(picture):
    assert encoded(picture, [50.0, 50, 60, 60]) == [[1, 1, 199, 199]]


def test_an_encoder_that_keeps_sizes_is_refused():
    class Ragged(Corners):
        ragged = True

    with pytest.raises(CannotDo, match="keeps each picture's size; crops need one"):
        Crops(device=CPU, encoder=Ragged())


class Quarters:
    """Sees the middle of a picture, 40 pixels square, in a grid of 2 x 2 cells: their mean red."""

    def preprocess(self, image):
        wide, tall = (40 * side // min(image.size) for side in image.size)
        small = functional.to_tensor(image.resize((wide, tall), Image.Resampling.BILINEAR))
        return functional.center_crop(small, [40, 40])

    def encode_images(self, pixels):
        return pixels.flatten(1)

    def encode_grid(self, pixels):
        cells = pixels[:, :1].unfold(2, 20, 20).unfold(3, 20, 20).mean((4, 5))
        return torch.cat([255 * cells, cells.new_ones(cells.shape)], 1)


@pytest.fixture
def columns():
    """A picture 160 wide and 80 high: red is 0, 40, 80 and 120 in four columns, 8 more below."""
    red = np.repeat([0, 40, 80, 120], 40) + np.repeat([0, 8], 40)[:, None]
    return Picture(Image.fromarray(np.stack([red, red, red], 2).astype(np.uint8)), None)


def averaged(picture, *boxes, encoder=None):
    grid = Grid(device=CPU, encoder=encoder or Quarters())
    return grid.encode_regions([picture], [torch.tensor(boxes)])[0]


COVERED = [
    # The view is x 40 to 120: its cells are 40, 80 above and 48, 88 below.
    ([40.0, 0, 80, 40], 40),
    ([80.0, 40, 120, 80], 88),
    ([40.0, 0, 120, 80], 64),
    # Three quarters of the left cell, one quarter of the right one.
    ([50.0, 10, 90, 20], 50),
    # What lies outside the view does not count.
    ([0.0, 0, 80, 40], 40),
    # Without area, or outside: the nearest cell.
    ([110.0, 70, 110, 70], 88),
    ([0.0, 0, 10, 10], 40),
    ([150.0, 60, 160, 80], 88),
]


@pytest.mark.parametrize(("box", "red"), COVERED)
def test_a_box_is_the_mean_of_the_cells_that_it_covers_in_the_view(columns, box, red):
    assert averaged(columns, box)[0].tolist() == pytest.approx([red, 1], abs=0.5)


def test_a_picture_without_boxes_has_vectors_of_the_same_width(columns):
    assert Grid(device=CPU, encoder=Quarters()).encode_regions([columns], [torch.zeros(0, 4)])[
        0
    ].shape == (0, 2)


class Noise(Quarters):
    """Gives a grid of random cells, of 8 pixels each."""

    def encode_grid(self, pixels):
        rng = torch.Generator().manual_seed(0)
        return torch.randn(len(pixels), 3, 5, 5, generator=rng)


def test_boxes_of_whole_cells_are_those_of_torchvisions_roi_align(columns):
    cells = torch.tensor([[1.0, 2, 4, 5], [0, 0, 5, 5], [3, 1, 4, 3]])
    boxes = cells * 16 + torch.tensor([40, 0, 40, 0])
    (found,) = Grid(device=CPU, encoder=Noise()).encode_regions([columns], [boxes])
    grid = Noise().encode_grid(torch.zeros(1, 3, 40, 40))
    expected = roi_align(grid, [cells], 1, aligned=True).flatten(1)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02)


VIEWS = [
    ((640, 480), False, "bicubic"),
    ((333, 500), True, "bilinear"),
    ((90, 30), False, "nearest"),
    ((90, 30), True, "bicubic"),
    ((1, 1), False, "bilinear"),
    ((7, 2), True, "nearest"),
]


@pytest.mark.parametrize(("size", "squash", "interpolation"), VIEWS)
def test_a_view_is_found_from_what_preprocess_does_alone(size, squash, interpolation):
    steps = resizing(256, 224, squash=squash, interpolation=interpolation)
    found = find_view(steps, size).place(torch.tensor([[0.0, 0, *size]]))
    sides = [256, 256] if squash else [256 * side / min(size) for side in size]
    low, high = ([112 + sign * side / 2 for side in sides] for sign in (-1, 1))
    assert found[0].tolist() == pytest.approx([*low, *high], abs=1)


OTHER_STEPS = [
    lambda pixels: pixels.flip(2),
    lambda pixels: pixels.mT,
    lambda pixels: pixels**2,
    lambda pixels: pixels.mean(0, keepdim=True).expand(3, -1, -1),
    lambda pixels: pixels[:, :1, :1],
]


@pytest.mark.parametrize("change", OTHER_STEPS)
def test_preprocessing_that_is_no_resize_and_crop_is_refused(change):
    with pytest.raises(CannotDo, match="does more than resize and crop, so boxes cannot be mapped"):
        find_view(lambda image: change(Quarters().preprocess(image)), (160, 80))


def test_each_size_of_picture_is_looked_at_once(columns):
    encoder, seen = Quarters(), []
    whole = encoder.preprocess
    encoder.preprocess = lambda image: seen.append(image.size) or whole(image)
    grid = Grid(device=CPU, encoder=encoder)
    for _ in range(3):
        grid.encode_regions([columns], [torch.tensor([[0.0, 0, 1, 1]])])
    assert seen == [(160, 80)] * 4


def test_an_encoder_without_a_grid_or_of_all_sizes_is_refused():
    class Ragged(Quarters):
        ragged = True

    with pytest.raises(CannotDo, match="keeps each picture's size; a grid needs one"):
        Grid(device=CPU, encoder=Ragged())
    with pytest.raises(CannotDo, match="the image encoder has no encode_grid"):
        Grid(device=CPU, encoder=Corners())
