"""Pictures whose words have planted boxes, and models with planted attention to them."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from vlbench.capabilities import Cut, JointAttention, Parts, Picture, Regions
from vlbench.data.coco_files import Arc, Phrase
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.results import Outcome, Score
from vlbench.system.digests import digest

SIZE = 64
LAYERS, HEADS = 2, 3

# A layer and a head; the number of items that a model without some heads is asked.
Head = tuple[int, int]
ABLATED = 80

# Four regions that do not touch; the first is the most confident, the second the largest.
REGIONS = [[0, 0, 10, 10], [20, 0, 44, 24], [0, 30, 10, 40], [50, 50, 60, 60]]
CONFIDENCE = [0.9, 0.5, 0.4, 0.3]

ARCS = [
    Arc("det", 1, 0), Arc("nsubj", 2, 1), Arc("det", 4, 3), Arc("dobj", 2, 4), Arc("punct", 2, 5),
]  # fmt: skip


class Scene(NamedTuple):
    """An image of REGIONS, with one caption; each phrase is its first and last word and boxes."""

    words: Sequence[str]
    phrases: Sequence[tuple[int, int, tuple[int, ...]]]
    regions: Sequence[Sequence[float]] = REGIONS
    gold: Sequence[Sequence[float]] = REGIONS


def two_things(number: int, first: int, second: int) -> Scene:
    """Return scene number n, of which regions `first` and `second` are named."""
    words = ["a", f"thing{first}", "sees", "the", f"thing{second}", str(number)]
    return Scene(words, [(0, 2, (first,)), (3, 5, (second,))])


def data_of(scenes: Sequence[Scene], *, confident: bool = True, arcs: bool = True) -> Data:
    """Return the scenes as a test split, one caption an image."""
    pictures = [picture_of(scene, confident) for scene in scenes]
    columns = {
        "picture": Column(
            digest([list(map(list, s.regions)) for s in scenes] + [s.words for s in scenes]),
            "picture", pictures, range(len(pictures)),
        ),
        "boxes": _column([torch.tensor(s.gold).float().view(-1, 4) for s in scenes]),
        "captions": value_column([[" ".join(s.words)] for s in scenes]),
        "words": value_column([[list(s.words)] for s in scenes]),
        "phrases": value_column([[[Phrase(*p) for p in s.phrases]] for s in scenes]),
    }  # fmt: skip
    if arcs:
        columns["arcs"] = value_column([[ARCS] for _ in scenes])
    return Data(splits={"test": Split(columns)})


def picture_of(scene: Scene, confident: bool) -> Picture:
    boxes = torch.tensor(scene.regions).float().view(-1, 4)
    scores = torch.tensor(CONFIDENCE[: len(boxes)]) if confident else None
    image = Image.new("RGB", (SIZE, SIZE), (90, 120, 150))
    return Picture(image, Regions(boxes, None, scores, None, (SIZE, SIZE)))


def _column(values: Sequence[Tensor]) -> Column:
    return Column(digest([v.tolist() for v in values]), "value", values, range(len(values)))


def spans_of(text: str, limit: int | None = None) -> list[tuple[int, int]]:
    """Return two tokens a word: its first character and its last; of at most `limit` words."""
    spans, start = [], 0
    for word in text.split(" ")[:limit]:
        stop = start + len(word)
        cut = start + max(1, len(word) - 1)
        spans += [(start, cut), (cut, stop)] if stop > cut else [(start, stop)]
        start = stop + 1
    return spans


class Constant:
    """Gives every region the same attention."""

    layers, heads, whole, limit = LAYERS, HEADS, True, None
    image_share = 0.5  # the fraction of all attention that goes to the image

    def __init__(self, *, device: object = None, dtype: object = None) -> None:
        pass

    @property
    def fingerprint(self) -> str:
        return type(self).__name__

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        return [self.look(p, text) for p, text in zip(pictures, texts, strict=True)]

    def look(self, picture: Picture, text: str) -> JointAttention:
        boxes, spans = self.columns(picture), spans_of(text, self.limit)
        even = self.image_share / len(boxes)
        weights = torch.full((self.layers, self.heads, len(spans), len(boxes)), even)
        self.plant(weights, text, spans)
        return JointAttention(spans, weights, boxes, self.whole)

    def columns(self, picture: Picture) -> Tensor:
        return picture.regions.boxes

    def plant(self, weights: Tensor, text: str, spans: Sequence[tuple[int, int]]) -> None:
        """Change the weights in place."""


class Plan(NamedTuple):
    """A head's fraction of attention to the image, and on how many images it is right."""

    share: float = 0.8
    images: int = 1_000


class Planted(Constant):
    """Heads whose last sub-word of `thing<i>` gives region i 90 % of its region attention.

    On images whose number is not below the plan's, the region after i has that.
    """

    plans = {(1, 2): Plan(0.8), (0, 1): Plan(0.8, 0), (0, 2): Plan(0.1)}  # noqa: RUF012

    def __init__(self, plans: dict[tuple[int, int], Plan] | None = None, **_: object) -> None:
        self.plans = plans or self.plans

    def plant(self, weights: Tensor, text: str, spans: Sequence[tuple[int, int]]) -> None:
        number, columns = int(text.rpartition(" ")[2]), weights.shape[-1]
        for t, (start, stop) in enumerate(spans):
            word = text[:stop].rpartition(" ")[2]
            if not word[:-1].startswith("thing") or stop - start != 1:
                continue
            for (layer, head), plan in self.plans.items():
                region = (int(word[5:]) + (number >= plan.images)) % columns
                weights[layer, head, t] = plan.share * 0.1 / (columns - 1)
                weights[layer, head, t, region] = plan.share * 0.9


class Patches(Constant):
    """Attends to patches of its own, quarters of the image; from `thing<i>` most to quarter i."""

    def columns(self, picture: Picture) -> Tensor:
        half = SIZE / 2
        corners = torch.tensor([[0.0, 0.0], [half, 0.0], [0.0, half], [half, half]])
        return torch.cat([corners, corners + half], 1)

    def plant(self, weights: Tensor, text: str, spans: Sequence[tuple[int, int]]) -> None:
        for t, (_, stop) in enumerate(spans):
            word = text[:stop].rpartition(" ")[2]
            if word[:-1].startswith("thing"):
                weights[:, :, t, int(word[5:])] *= 4


class Noisy(Constant):
    """Attends at random, in the same way for the same text."""

    def plant(self, weights: Tensor, text: str, spans: Sequence[tuple[int, int]]) -> None:
        drawn = torch.Generator().manual_seed(sum(map(ord, text)))
        weights.copy_(torch.randn(weights.shape, generator=drawn).softmax(-1) * self.image_share)


def many_scenes() -> Data:
    """Return enough scenes that each of two processes has a shard."""
    return data_of([two_things(i, i % 4, (i + 1 + i // 4 % 3) % 4) for i in range(600)])


def numbered(values: Sequence[int], kind: str) -> Column:
    """Return a column of numbers in the place of images or pictures."""
    made = value_column(range(len(values)), kind)
    digests = [f"sha256:{one}" for one in values]
    return Column(made.key, kind, values, made.rows, digests=digests)


def foils_and_scenes() -> Data:
    """Return items of two captions, of which a picture's number tells the right one."""
    columns = {
        "image": numbered([*range(ABLATED)], "image"),
        "picture": numbered([*range(ABLATED)], "picture"),
        "caption": value_column([f"number {i % 2}" for i in range(ABLATED)], "text"),
        "foils": value_column([[f"number {1 - i % 2}"] for i in range(ABLATED)]),
    }
    scenes = [two_things(i, i % 4, (i + 1) % 4) for i in range(6)]
    return Data(splits={"test": Split(columns), "phrases": data_of(scenes).splits["test"]})


class Needs(Planted):
    """Sees the picture while one of some heads is there, which look at it; others may look, too."""

    def __init__(self, *heads: Head, looks: Sequence[Head] = ()) -> None:
        super().__init__({head: Plan() for head in looks or heads})
        self.needed, self.taken = heads, Cut()

    def parts(self) -> Parts:
        return Parts((HEADS,) * LAYERS, ("image", "text"))

    def cut(self, what: Cut) -> "Needs":
        other = copy.copy(self)
        other.taken = what
        return other

    def sees(self) -> bool:
        blind = {layer for look in self.taken.looks for layer in range(*look.layers)}
        return any(h not in self.taken.heads and h[0] not in blind for h in self.needed)

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        pairs = zip(pictures, texts, strict=True)
        return torch.tensor(
            [float(self.sees() and text[-1] == str(p.image % 2)) for p, text in pairs]
        )


def score(outcome: Outcome, metric: str, **at: object) -> Score:
    """Return the one score of a metric under these conditions."""
    (found,) = [s for s in outcome.scores if s.metric == metric and dict(s.at) == at]
    return found
