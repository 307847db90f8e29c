"""vlbench/adapter_kit/cuts.py: outputs of heads for other pictures, in a network wired by hand."""

import pytest
from cut_fakes import Sum
from PIL import Image

from vlbench.adapter_kit.cuts import without
from vlbench.capabilities import Cut, Donors, Look, Picture
from vlbench.errors import CannotDo

TEXT, IMAGE = (0, 0), (0, 1)


class Unwrapped(Sum):
    def score_pairs(self, pictures, texts):
        with without(self._cut, self.layers):
            return self.sum(self.read(pictures, texts))[..., 0].detach()


class Long(Sum):
    """Has as many positions as the picture is red."""

    def read(self, pictures, texts):
        states = super().read(pictures, texts)
        return states[:, None].expand(-1, int(states[0, 1]), -1)


def red(value, size=(4, 4)):
    return Picture(Image.new("RGB", size, (value, 0, 0)), None)


def scores(model, head, *reds):
    donors = Donors("", len(reds), [red(one) for one in reds]) if reds else None
    cut = model.cut(Cut((head,), donors=donors))
    return cut.score_pairs([red(10), red(20)], ["1", "2"]).tolist()


def test_a_head_that_does_not_read_the_image_says_the_same_of_another():
    assert scores(Sum(), TEXT) == [10, 20]
    assert scores(Sum(), TEXT, 50) == [11, 22]


def test_a_head_that_reads_the_image_says_what_the_others_are_or_their_mean():
    assert scores(Sum(), IMAGE) == [1, 2]
    assert scores(Sum(), IMAGE, 50) == [51, 52]
    assert scores(Sum(), IMAGE, 50, 100) == [76, 77]


def test_donors_are_as_large_as_the_picture():
    donors = Donors("", 1, [red(50, (2, 2)), red(100), red(150)])
    cut = Sum().cut(Cut((IMAGE,), donors=donors))
    assert cut.score_pairs([red(1), red(1, (2, 2))], ["1", "2"]).tolist() == [101, 52]
    with pytest.raises(CannotDo, match="need 1 other image with 3 x 3 pixels, and there are 0"):
        cut.score_pairs([red(1, (3, 3))], ["1"])


def test_donors_that_cannot_be_put_in_are_refused():
    with pytest.raises(CannotDo, match="only zero"):
        scores(Unwrapped(), IMAGE, 50)
    with pytest.raises(CannotDo, match="another number of positions"):
        scores(Long(), IMAGE, 50)


def test_a_second_cut_keeps_the_donors_of_the_first():
    donors = Donors("", 1, [red(50)])
    both = Sum().cut(Cut((IMAGE,), donors=donors)).cut(Cut((TEXT,)))
    assert both.score_pairs([red(10)], ["1"]).tolist() == [51]
    assert both._cut == Cut((IMAGE, TEXT), (), donors)


def test_looks_need_no_donors():
    looks = (Look("text", "image", (0, 1)),)
    assert Sum().cut(Cut(looks=looks, donors=Donors("", 1, [])))._cut.looks == looks
