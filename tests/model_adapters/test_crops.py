import numpy as np
import pytest
import torch
from PIL import Image
from tiny_joint import CPU, adapter

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo

Crops = adapter("crops:Crops")


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
