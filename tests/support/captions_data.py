"""The little world of `captions_world` as data, and models with a planted taste for captions."""

import torch
from captions_world import PAIRS, PLAN, THINGS, captions, features
from fakes import Reader, numbers_in, planted_image

from vlbench.capabilities import Picture, Regions
from vlbench.data.records import Column, Data, Split
from vlbench.digests import digest
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.captioner_training import SelfCritical

SETTINGS = Captioner(
    regions="sum",
    rare=0,
    embedding=16,
    hidden=32,
    cross_entropy=PLAN._replace(epochs=4, validate_steps=5),
    self_critical=SelfCritical(epochs=3, images=5, learning_rate=1e-2),
)


def world(**changed):
    """Return data whose three splits are the same 15 images; `changed` replaces columns."""
    images = [planted_image(0, number) for number in range(len(PAIRS))]
    seen = [_regions(pair) for pair in PAIRS]
    columns = {
        "image": _column(images, "image"),
        "regions": _column(seen),
        "picture": _column([*map(Picture, images, seen)], "picture"),
        "captions": _column([captions(pair) for pair in PAIRS]),
    }
    split = Split(columns | {name: _column(values) for name, values in changed.items()})
    return Data(splits=dict.fromkeys(("train", "val", "test"), split))


class SeesPairs(Reader):
    """Encodes the number of an image as what is seen there."""

    def encode_images(self, pixels):
        return features()[numbers_in(pixels)]


class Likes:
    """Scores a text by a taste: a function of the image's two things and the text."""

    fingerprint = "a taste"

    def __init__(self, taste):
        self.taste = taste

    def score_pairs(self, pictures, texts):
        pairs = [PAIRS[picture.image.getpixel((0, 0))[1]] for picture in pictures]
        scores = [float(self.taste(p, text)) for p, text in zip(pairs, texts, strict=True)]
        return torch.tensor(scores)


def length(_, text):
    return len(text.split())


def _regions(pair):
    vectors = torch.tensor([[3.0 * (thing == one) for thing in THINGS] for one in pair])
    boxes = torch.tensor([[0.0, 0, 2, 2]]).expand(len(pair), 4)
    return Regions(boxes, vectors, None, None, (4, 4))


def _column(values, kind="value"):
    names = [f"{number:04d}.jpg" for number in range(len(values))]
    key = digest([kind, repr(values) if kind == "value" else len(values)])
    return Column(key, kind, values, range(len(values)), names=names)
