"""Images that show known things, captions of them, and models with a planted taste for captions.

Three sets of images, each of which its captions tell apart: numbered images of two of eight things
(`captioned`), one image for each pair of six things, whose features a captioner learns from
(`pairs`), and two images of four nouns each (`world`).
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from fakes import Reader, numbers_in, planted_image
from torch import Tensor

from vlbench.capabilities import Picture, Regions
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.metrics.language_model import words_of
from vlbench.probes.captioning.captioner import Captioner, Favourites
from vlbench.probes.captioning.captioner_files import (
    draw_captioner,
    empty_captioner,
    label,
    learn_vocabulary,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import (
    CrossEntropy,
    CrossEntropyTraining,
    SelfCritical,
    TrainingCaptions,
    ValidationCaptions,
)
from vlbench.system.digests import digest

TAGS = {
    **dict.fromkeys(["a", "the", "this", "these"], "DET"),
    **dict.fromkeys(["of", "above", "towards", "with", "near", "on"], "ADP"),
    **dict.fromkeys(["posing", "riding", "parked", "shows"], "VERB"),
    **dict.fromkeys(["but", "and"], "CCONJ"),
    **dict.fromkeys(["is", "was"], "AUX"),
    **dict.fromkeys(["white", "brown", "rural"], "ADJ"),
    **dict.fromkeys(["his", "there"], "PRON"),
    "that": "SCONJ",
    ".": "PUNCT",
}


def tagged(text: str) -> list[tuple[str, str]]:
    """Return the words of a text with their tags; a word that TAGS does not have is a noun."""
    return [(word, TAGS.get(word, "NOUN")) for word in text.split()]


class Likes:
    """Scores a pair by a rule of the number of the image and the words of the text."""

    fingerprint = "a taste"

    def __init__(self, rule: Callable[..., float]) -> None:
        self.rule = rule
        self.asked = 0

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        self.asked += len(texts)
        pairs = zip(pictures, texts, strict=True)
        return torch.tensor([float(self.score(number_in(p), text)) for p, text in pairs])

    def score(self, number: int, text: str) -> float:
        return self.rule(number, text.split())


def number_in(picture: Picture) -> int:
    """Return the number of a planted image."""
    _, low, high = picture.image.getpixel((0, 0))
    return low + 256 * high


def constant(*_) -> float:
    return 0.5


EIGHT = ("dog", "cat", "owl", "cup", "hat", "jet", "car", "pear")


def things(number):
    """Return the two things in an image."""
    first = number % len(EIGHT)
    return EIGHT[first], EIGHT[(first + 1 + number // len(EIGHT)) % len(EIGHT)]


def references(number):
    one, other = things(number)
    return [f"a {one} and a {other}", f"a image of a {one}", f"there is a {other}"]


def captioned(train=40, test=16, *, own=references):
    """Return images with two things each and tagged captions of them; `own` captions test."""
    return Data(splits={"train": _split(range(train)), "test": _split(range(test), own)})


def _split(numbers, own=references):
    captions = [own(number) for number in numbers]
    pairs = [[tagged(text) for text in texts] for texts in captions]
    images = [planted_image(0, number) for number in numbers]
    names = [f"{number}.png" for number in numbers]
    columns = {
        "captions": value_column(captions),
        "words": value_column([[[word for word, _ in one] for one in texts] for texts in pairs]),
        "tags": value_column([[[tag for _, tag in one] for one in texts] for texts in pairs]),
        "image": _column(images, "image", names),
        "picture": _column([Picture(image, None) for image in images], "picture", names),
    }
    return Split(columns)


def _column(values, kind="value", names=()):
    key = digest([kind, repr(values) if kind == "value" else len(values)])
    return Column(key, kind, values, range(len(values)), names=names)


def nouns_of_the_image(number, words):
    return np.mean([thing in words for thing in things(number)])


def plant(monkeypatch, before, *favourites, before_last=None):
    """Give the captioner these captions of all images: before, and the favourites of each seed.

    Those before the last epochs are the favourites, unless others are given.
    """
    where = "vlbench.probes.captioning.caption_sets"

    def first_captions(data, *_):
        return [before(i) for i in range(len(data.splits["test"]))]

    def own(_model, data, *_, seed):
        told = favourites[seed % len(favourites)]
        captions = [told(i) for i in range(len(data.splits["test"]))]
        earlier = [(before_last or told)(i) for i in range(len(captions))]
        return Favourites(dict.fromkeys((1, 3), captions), earlier, [], 0.5, 10)

    monkeypatch.setattr(f"{where}.first_captions", first_captions)
    monkeypatch.setattr(f"{where}.favourites", own)


NO_CAPTIONER = Captioner()


THINGS = ("boat", "cat", "dog", "hat", "plane", "tree")
PAIRS = list(combinations(THINGS, 2))

FORMS = (
    "there is a {} and a {}",
    "a {} and a {} on a plain background",
    "a {} near a {}",
    "a {}",
    "a picture of a {} and a {}",
)

VOCABULARY = learn_vocabulary([form.format(*PAIRS[0]) for form in FORMS] + [*THINGS], rare=0)
SIZES = Sizes(features=len(THINGS), words=len(VOCABULARY), embedding=16, hidden=32)
PLAN = CrossEntropy(
    epochs=80, images=5, learning_rate=0.01, decay=1.0, sampling=0.0, dropout=0.0, clip=1.0
)
SETTINGS = Captioner(
    regions="sum",
    rare=0,
    embedding=SIZES.embedding,
    hidden=SIZES.hidden,
    cross_entropy=PLAN._replace(epochs=4, validate_steps=5),
    self_critical=SelfCritical(epochs=3, images=5, learning_rate=1e-2),
)


def captions(pair):
    """Return five captions of an image that shows two things."""
    return [form.format(*pair) for form in FORMS]


def features():
    """Return what an encoder sees of each image, [15, 6], 0 or 3."""
    return torch.tensor([[3.0 * (thing in pair) for thing in THINGS] for pair in PAIRS])


def named(text):
    """Return the things that a text names, with repetitions."""
    return [word for word in text.split() if word in THINGS]


def cross_entropy(plan):
    """Return a training on all images, validated on the same."""
    texts = [captions(pair) for pair in PAIRS]
    lesson = TrainingCaptions(features(), label(VOCABULARY, texts), VOCABULARY)
    weights = draw_captioner(SIZES, torch.Generator().manual_seed(plan.seed)).state_dict()
    validation = ValidationCaptions(features(), texts)
    return CrossEntropyTraining(lesson, validation, weights, plan, torch.device("cpu"))


def run(training, start=0, stop=None):
    """Do the steps from `start` to `stop`, or to the end."""
    for number in range(start, training.steps if stop is None else stop):
        training.step(number)
    return training


@cache
def taught():
    """Return what a training gives that ends with a captioner of these images."""
    return run(cross_entropy(PLAN)).result()


def network(weights):
    found = empty_captioner(SIZES)
    found.load_state_dict(weights)
    return found


def said(weights):
    """Return the greedy caption of each image."""
    return VOCABULARY.texts(greedy_captions(network(weights), features()))


def pairs(**changed):
    """Return data whose three splits are the same 15 images; `changed` replaces columns."""
    images = [planted_image(0, number) for number in range(len(PAIRS))]
    regions = [_regions(pair) for pair in PAIRS]
    names = [f"{number:04d}.jpg" for number in range(len(PAIRS))]
    columns = {
        "image": _column(images, "image", names),
        "regions": _column(regions, names=names),
        "picture": _column([*map(Picture, images, regions)], "picture", names),
        "captions": _column([captions(pair) for pair in PAIRS], names=names),
    }
    replaced = {name: _column(values, names=names) for name, values in changed.items()}
    return Data(splits=dict.fromkeys(("train", "val", "test"), Split(columns | replaced)))


def _regions(pair):
    vectors = torch.tensor([[3.0 * (thing == one) for thing in THINGS] for one in pair])
    boxes = torch.tensor([[0.0, 0, 2, 2]]).expand(len(pair), 4)
    return Regions(boxes, vectors, None, None, (4, 4))


class SeesPairs(Reader):
    """Encodes the number of an image as what is seen there."""

    def encode_images(self, pixels):
        return features()[numbers_in(pixels)]


class LikesPairs(Likes):
    """Scores a pair by a rule of the two things of the image and the text."""

    def score(self, number, text):
        return self.rule(PAIRS[number], text)


def word_count(_, text):
    return len(text.split())


NOUNS = ("boat", "car", "cat", "cup", "dog", "fish", "hat", "owl", "rose", "tree")
OTHERS = ("a", "big", "near", "red", "sees", "the")

# The nouns of each image, and what its references say; no two images share a noun.
SHOWN = (("dog", "cat", "hat", "car"), ("boat", "cup", "fish", "owl"))
REFERENCES = [
    ["A dog near a cat.", "the dog sees a red hat", "a dog and a car"],
    ["A boat near a cup.", "the boat sees a red fish", "a boat and an owl"],
]
CAPTIONS = ["a dog near a big cat.", "the boat sees a cup ."]


def world(references: Sequence[Sequence[str]] = REFERENCES) -> Data:
    """Return test images with these references, and tagged training captions of all words."""
    every = [f"{other} {noun}" for noun in NOUNS for other in OTHERS]
    words = [caption.split() for caption in every]
    train = {
        "captions": value_column([every]),
        "words": value_column([words]),
        "tags": value_column([[["X", "NOUN"]] * len(words)]),
    }
    pictures = [Picture(planted_image(0, number), None) for number in range(len(references))]
    test = {"captions": value_column(list(references)), "picture": _column(pictures, "picture")}
    return Data(splits={"train": Split(train), "test": Split(test)})


def results(folder: Path, captions: Sequence[str] = CAPTIONS) -> Path:
    """Write captions of images 0, 1, ... in COCO's result format."""
    file = folder / "captions.json"
    entries = [{"image_id": i, "caption": caption} for i, caption in enumerate(captions)]
    file.write_text(json.dumps(entries))
    return file


class Taste(Likes):
    """Scores a pair by a rule of the text's words and of the nouns that the image shows."""

    def score(self, number, text):
        return self.rule(words_of(text), SHOWN[number % len(SHOWN)])


def right_nouns(words: list[str], shown: Sequence[str]) -> float:
    return float(len(set(words) & set(shown)))


def nothing(_words: list[str], _shown: Sequence[str]) -> float:
    return 0.7


def length(words: list[str], _shown: Sequence[str]) -> float:
    return float(len(words))


def scores_of(outcome) -> dict[tuple[str, ...], float]:
    """Return the values of scores under their metric and the values of their conditions."""
    return {(s.metric, *(str(v) for v in s.at.values())): s.value for s in outcome.scores}
