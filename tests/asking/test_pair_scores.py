from dataclasses import replace

import pytest
import torch
from fakes import labels_in, planted_image

from vlbench.asking.pair_scores import PairScorer, other_images
from vlbench.capabilities import Picture
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import DataError, SpecError, TooFewRows

IMAGES = [planted_image(label, number) for number, label in enumerate([3, 1, 2])]


@pytest.fixture
def split():
    pictures = [Picture(image, None) for image in IMAGES]
    kinds = {"picture": pictures, "image": IMAGES}
    return Split({kind: named_column(values, kind) for kind, values in kinds.items()})


def named_column(values, kind):
    column = value_column(range(len(values)), kind)
    return type(column)(column.key, kind, values, column.rows, names=["a", "b", "c"])


class RedTimesLength:
    """Scores a pair by the red of the image times the length of the text."""

    def __init__(self):
        self.asked = []

    def score_pairs(self, pictures, texts):
        reds = [picture.image.getpixel((0, 0))[0] for picture in pictures]
        self.asked += zip(reds, texts, strict=True)
        self.pictures = pictures
        return torch.tensor([float(red * len(text)) for red, text in self.asked[-len(texts) :]])


def test_each_distinct_pair_is_scored_once_a_call_and_answers_come_in_order(split):
    model = RedTimesLength()
    scorer = PairScorer(model, split, Engine.for_tests())
    scores = scorer([2, 0, 2, 0, 1], ["ab", "a", "ab", "abc", "ab"])
    assert scores.tolist() == [4, 3, 4, 9, 2]
    assert scores.dtype == torch.float32
    assert len(model.asked) == 4 + REPEATED + 1
    assert scorer([], []).shape == (0,)


def test_texts_of_one_image_come_with_the_same_picture(split):
    model = RedTimesLength()
    PairScorer(model, split, Engine.for_tests())([0, 1, 0], ["a", "b", "c"])
    assert model.pictures[0] is model.pictures[1]


class Towers:
    """Encodes an image as its label, a text as its length, both beside a one; compares products.

    `pays` is what its matching score adds to that.
    """

    def __init__(self, pays=0.0):
        self.pays = pays
        self.seen = 0

    def preprocess(self, image):
        return torch.tensor(list(image.get_flattened_data())).T.reshape(3, 4, 4).float() / 255

    def encode_images(self, pixels):
        self.seen += len(pixels)
        return torch.stack([labels_in(pixels).float(), torch.ones(len(pixels))], dim=1)

    def encode_texts(self, texts):
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    def similarity(self, images, texts):
        return images @ texts.T

    def score_pairs(self, pictures, texts):
        pixels = torch.stack([self.preprocess(picture.image) for picture in pictures])
        pairs = zip(self.encode_images(pixels), self.encode_texts(texts), strict=True)
        return torch.stack([image @ text for image, text in pairs]) + self.pays


def test_two_towers_see_each_image_once_and_score_as_score_pairs_does(split):
    model, rows, texts = Towers(), [0, 1, 2, 0, 0], ["a", "ab", "abc", "abcd", "ab"]
    scorer = PairScorer(model, split, Engine.for_tests())
    first = scorer(rows, texts)
    seen = model.seen
    assert torch.equal(scorer(rows, texts), first)
    assert model.seen == seen
    expected = model.score_pairs([split["picture"][row] for row in rows], texts)
    torch.testing.assert_close(first, expected)


def test_towers_whose_matching_score_is_another_one_are_not_used(split):
    model = Towers(pays=0.5)
    scores = PairScorer(model, split, Engine.for_tests())([0, 2], ["a", "ab"])
    assert scores.tolist() == [4.5, 5.5]


class Bad(RedTimesLength):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def score_pairs(self, pictures, texts):
        return self.answer[: len(texts)] if self.answer.ndim else self.answer


class OnlyTowers:
    """Has the two towers alone."""

    def __init__(self):
        towers = Towers()
        self.preprocess, self.encode_images = towers.preprocess, towers.encode_images
        self.encode_texts, self.similarity = towers.encode_texts, towers.similarity


def test_two_towers_without_matching_scores_score_by_their_similarity(split):
    engine, pairs = Engine.for_tests(), ([2, 0, 2], ["ab", "a", "abc"])
    wanted = PairScorer(Towers(), split, engine)(*pairs)
    for rows in (split, Split({"image": split["image"]})):
        assert PairScorer(OnlyTowers(), rows, engine)(*pairs).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (lambda table: table.softmax(1), "must depend only on the two vectors of a pair"),
        (lambda table: table[:1], r"gave \[1, 2\] for 3 images and 2 texts"),
    ],
)
def test_a_similarity_that_is_none_of_pairs_is_refused(split, kind, problem):
    model = OnlyTowers()
    model.similarity = lambda images, texts: kind(images @ texts.T)
    scorer = PairScorer(model, split, Engine.for_tests())
    with pytest.raises(SpecError, match=problem):
        scorer([0, 2], ["a", "ab"])


def test_a_similarity_that_is_no_finite_number_names_the_image_without_pictures(split):
    model = OnlyTowers()
    model.similarity = lambda images, texts: torch.full((len(images), len(texts)), torch.nan)
    scorer = PairScorer(model, Split({"image": split["image"]}), Engine.for_tests())
    with pytest.raises(DataError, match="OnlyTowers gave the score nan to image c with the text"):
        scorer([2], ["ab"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_finite_number_names_model_image_and_text(split, value):
    scorer = PairScorer(Bad(torch.tensor([1.0, value])), split, Engine.for_tests())
    with pytest.raises(DataError, match=r"Bad gave the score \w+ to image c with the text 'two'"):
        scorer([0, 2], ["one", "two"])


@pytest.mark.parametrize("shape", [(1,), (2, 1), ()])
def test_another_number_of_scores_is_refused(split, shape):
    scorer = PairScorer(Bad(torch.zeros(shape)), split, Engine.for_tests())
    with pytest.raises(ValueError, match="for 2 pairs"):
        scorer([0, 2], ["one", "two"])


@pytest.mark.parametrize("count", [2, 3, 100])
def test_every_image_stands_for_another_one_and_one_has_no_other(count):
    others = other_images(count, seed=1)
    assert sorted(others) == list(range(count))
    assert all(row != other for row, other in enumerate(others))
    with pytest.raises(TooFewRows, match="1 image;"):
        other_images(1, seed=0)


def test_other_images_are_drawn_with_the_seed():
    assert other_images(50, seed=1) == other_images(50, seed=1)
    assert other_images(50, seed=1) != other_images(50, seed=2)


def test_the_other_image_of_a_copy_is_no_copy_of_it():
    digests = ["a", "b", "a", "c", "b", "a"]
    column = value_column(range(6), "image")
    rows = Split({"image": replace(column, digests=digests)})
    for seed in range(9):
        others = other_images(rows, seed)
        assert all(digests[row] != digests[other] for row, other in enumerate(others))
