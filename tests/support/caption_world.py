"""Images of known nouns with captions, and scorers with a planted taste in texts."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from fakes import planted_image
from torch import Tensor

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.digests import digest
from vlbench.metrics.language_model import words_of

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
    test = {"captions": value_column(list(references)), "picture": pictures(len(references))}
    return Data(splits={"train": Split(train), "test": Split(test)})


def pictures(count: int) -> Column:
    stored = [Picture(planted_image(0, number), None) for number in range(count)]
    return Column(digest(["pictures", count]), "picture", stored, range(count))


def results(folder: Path, captions: Sequence[str] = CAPTIONS) -> Path:
    """Write captions of images 0, 1, ... in COCO's result format."""
    file = folder / "captions.json"
    entries = [{"image_id": i, "caption": caption} for i, caption in enumerate(captions)]
    file.write_text(json.dumps(entries))
    return file


class Taste:
    """Scores a text by a function of its words and of the nouns that the image shows."""

    def __init__(self, function: Callable[[list[str], Sequence[str]], float]) -> None:
        self.function = function

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        pairs = zip(pictures, texts, strict=True)
        return torch.tensor([self.function(words_of(text), SHOWN[seen(p)]) for p, text in pairs])


def seen(picture: Picture) -> int:
    """Return the number of an image, of which there are as many as SHOWN tells."""
    return int(picture.image.getpixel((0, 0))[1]) % len(SHOWN)


def right_nouns(words: list[str], shown: Sequence[str]) -> float:
    return float(len(set(words) & set(shown)))


def nothing(_words: list[str], _shown: Sequence[str]) -> float:
    return 0.7


def length(words: list[str], _shown: Sequence[str]) -> float:
    return float(len(words))


def scores_of(outcome) -> dict[tuple[str, ...], float]:
    """Return the values of scores under their metric and the values of their conditions."""
    return {(s.metric, *(str(v) for v in s.at.values())): s.value for s in outcome.scores}
