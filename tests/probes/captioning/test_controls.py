import math

import pytest

from vlbench.data.records import Split, value_column
from vlbench.errors import TooFewRows
from vlbench.probes.captioning.controls import TextScorer, other_images


@pytest.mark.parametrize("count", [2, 3, 100])
def test_every_image_stands_for_another_one(count):
    others = other_images(count, seed=1)
    assert sorted(others) == list(range(count))
    assert all(row != other for row, other in enumerate(others))


def test_other_images_are_drawn_with_the_seed():
    assert other_images(50, seed=1) == other_images(50, seed=1)
    assert other_images(50, seed=1) != other_images(50, seed=2)


def test_one_image_has_no_other():
    with pytest.raises(TooFewRows, match="1 image;"):
        other_images(1, seed=0)


def scorer(*captions):
    return TextScorer(Split({"captions": value_column([list(captions)])}))


def test_texts_score_their_mean_log_probability_by_word():
    # Four captions begin, three of them with dog, after which they end. No count is discounted: no
    # bigram occurs twice. So the denominators grow by one, to leave something for unseen words.
    found = scorer("Dog .", "dog", "dog", "cat")(["dog"])
    assert found.item() == pytest.approx((math.log10(3 / 5) + math.log10(3 / 4)) / 2, abs=1e-6)


def test_unknown_words_and_empty_texts_score_the_end_alone():
    score = scorer("a dog", "a cat", "a dog")
    empty, unknown = score(["", "zebra ..."]).tolist()
    assert math.isfinite(empty)
    assert math.isfinite(unknown)


def test_what_captions_say_scores_higher_and_long_texts_are_scored():
    score = scorer(*["a dog sees a cat"] * 3, "a cat sees a dog")
    likely, odd, long = score(["a dog sees a cat", "cat a a sees dog", "a dog " * 5000]).tolist()
    assert likely > odd
    assert math.isfinite(long)
