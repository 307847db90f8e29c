import pytest
from PIL import Image

from vlbench.data.crops import crop_box


@pytest.mark.parametrize(
    ("box", "place"),
    [
        ((1.0, 2.0, 4.0, 5.0), (1, 2, 4, 5)),
        ((1.2, 2.9, 3.1, 4.0), (1, 2, 4, 4)),
        ((-3.0, -1.0, 2.0, 2.0), (0, 0, 2, 2)),
        ((8.0, 5.0, 99.0, 99.0), (8, 5, 10, 6)),
        ((3.0, 3.0, 3.0, 3.0), (3, 3, 4, 4)),
        ((20.0, 20.0, 30.0, 30.0), (9, 5, 10, 6)),
    ],
    ids=["whole", "widened", "left and above", "cut", "without area", "outside"],
)
def test_a_box_is_widened_to_whole_pixels_and_cut_at_the_edge(box, place):
    image = Image.frombytes("RGB", (10, 6), bytes(range(180)))
    assert crop_box(image, box).tobytes() == image.crop(place).tobytes()
