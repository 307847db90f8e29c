"""Images whose captions are known, and a captioner and models with planted answers."""

import numpy as np
import torch
from fakes import planted_image

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.digests import digest
from vlbench.probes.captioning.captioner import Captioner, Favourites

THINGS = ("dog", "cat", "owl", "cup", "hat", "jet", "car", "pear")
TAGS = {"a": "DET", "of": "ADP", "and": "CCONJ", "image": "NOUN", "is": "AUX", "there": "PRON"}


def things(number):
    """Return the two things in an image."""
    first = number % len(THINGS)
    return THINGS[first], THINGS[(first + 1 + number // len(THINGS)) % len(THINGS)]


def references(number):
    one, other = things(number)
    return [f"a {one} and a {other}", f"a image of a {one}", f"there is a {other}"]


def captioned(train=40, test=16, *, own=references):
    """Return images with two things each and captions of them, tagged where they train."""
    return Data(splits={"train": _split(range(train)), "test": _split(range(test), own)})


def _split(numbers, own=references):
    captions = [own(number) for number in numbers]
    words = [[text.split() for text in texts] for texts in captions]
    tags = [[[TAGS.get(word, "NOUN") for word in one] for one in texts] for texts in words]
    images = [planted_image(0, number) for number in numbers]
    named = [f"{number}.png" for number in numbers]
    rows = range(len(numbers))
    columns = {
        "captions": value_column(captions),
        "words": value_column(words),
        "tags": value_column(tags),
        "image": Column(digest([*rows]), "image", images, rows, names=named),
        "picture": Column(
            digest([*rows, "p"]), "picture", [Picture(i, None) for i in images], rows, names=named
        ),
    }
    return Split(columns)


def number_in(picture):
    """Return the number of a planted image."""
    _, low, high = picture.image.getpixel((0, 0))
    return low + 256 * high


class Likes:
    """Scores a pair by a rule of the number of the image and the words of the text."""

    def __init__(self, rule):
        self.rule = rule
        self.asked = 0

    def score_pairs(self, pictures, texts):
        self.asked += len(texts)
        pairs = zip(pictures, texts, strict=True)
        return torch.tensor([float(self.rule(number_in(p), t.split())) for p, t in pairs])


def nouns_of_the_image(number, words):
    return np.mean([thing in words for thing in things(number)])


def constant(*_):
    return 0.5


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
