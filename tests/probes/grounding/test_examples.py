import pytest
from grounding_fakes import REGIONS, Patches, Planted, picture_of, two_things

from vlbench.probes.grounding.attention import Reader
from vlbench.probes.grounding.examples import Pointer, draw

PICTURE = picture_of(two_things(0, 0, 1), confident=True)


def seen(model):
    (look,) = Pointer(Reader(model, 1)).point(
        [PICTURE], [{"text": "a thing0 sees the thing1 0", "span": [2, 8], "head": 5}]
    )
    return look


def test_a_model_of_patches_is_shown_to_choose_among_regions():
    look = seen(Patches())
    assert look["boxes"].tolist() == REGIONS
    # Each quarter of the image has 1/8 of the attention, the one that the word names four times
    # that; the second region lies in two quarters, 12 x 24 of 32 x 32 pixels in each.
    wanted = [4 / 8 * 100 / 1024, (4 / 8 + 1 / 8) * 288 / 1024]
    assert look["weights"][:2].tolist() == pytest.approx(wanted)
    assert float(look["total"]) == pytest.approx(7 / 8)


def test_a_model_of_regions_is_shown_its_own_weights():
    look = seen(Planted())
    assert look["boxes"].tolist() == REGIONS
    assert float(look["weights"][0] / look["total"]) == pytest.approx(0.9)


def test_dollars_of_a_caption_are_no_formula():
    example = {"text": "a $_$ sign", "span": [0, 1], "gold": [REGIONS[0]], "title": "head 0-0"}
    draw([PICTURE], [example], [None]).unlink()
