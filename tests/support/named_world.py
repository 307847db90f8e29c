"""Images whose objects are named, regions and words with planted vectors."""

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from vlbench.capabilities import Picture, Regions, TokenVectors
from vlbench.data.coco_files import Named
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.system.digests import digest

Image = Sequence[tuple[str, str]]  # (category, word) of each object


def world(
    train: Sequence[Image], test: Sequence[Image], vectors: Tensor, classes: Sequence[str] = ()
) -> Data:
    """Return images whose objects' regions have the rows of `vectors`, in order, as vectors."""
    first = sum(map(len, train))
    categories = {category: None for image in (*train, *test) for category, _ in image}
    splits = {"train": _split(train, vectors[:first]), "test": _split(test, vectors[first:])}
    return Data(splits=splits, classes=list(classes) or list(categories))


def caption(number: int, image: Image) -> str:
    return " ".join([f"{number}:", *(word for _, word in image)])


class PlantedWords:
    """Gives each word, split at blanks, the vector that `look_up(text, word)` returns, if any."""

    def __init__(self, look_up: Callable[[str, str], Tensor | None]) -> None:
        self.look_up = look_up

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> TokenVectors:
        words = [(m.span(), self.look_up(text, m[0])) for m in re.finditer(r"\S+", text)]
        tokens = [(span, vector) for span, vector in words if vector is not None]
        vectors = torch.stack([v for _, v in tokens]) if tokens else torch.empty(0, 1)
        return TokenVectors([span for span, _ in tokens], vectors)


class StaticWords(PlantedWords):
    """Gives each word of a table its vector, whatever the text."""

    def __init__(self, table: dict[str, Tensor]) -> None:
        super().__init__(lambda _, word: table.get(word))


class ReadsRegions:
    """Encodes a box as the vector of the data's region with that box; remembers the boxes."""

    def __init__(self) -> None:
        self.encoded: list[Tensor] = []

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        self.encoded += boxes
        return [
            regions.vectors[[regions.boxes.tolist().index(box) for box in given.tolist()]]
            for (_, regions), given in zip(pictures, boxes, strict=True)
        ]


class Detects:
    """Finds the regions of the data, changed by `change`."""

    def __init__(self, change: Callable[[Regions], Regions]) -> None:
        self.change = change

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        return [self.change(picture.regions) for picture in pictures]


def _split(images: Sequence[Image], vectors: Tensor) -> Split:
    sizes = [len(image) for image in images]
    pictures = [
        Picture(None, Regions(_boxes(n), rows, torch.ones(n), [c for c, _ in image], (10, 10)))
        for n, rows, image in zip(sizes, vectors.split(sizes), images, strict=True)
    ]
    key = digest([vectors, [list(map(list, image)) for image in images]])
    columns = {
        "picture": pictures,
        "boxes": [_boxes(n) for n in sizes],
        "named": [_named(i, image) for i, image in enumerate(images)],
    }
    stored = {n: Column(f"{n} {key}", "value", v, range(len(v))) for n, v in columns.items()}
    return Split(
        stored
        | {
            "caption": value_column([caption(i, image) for i, image in enumerate(images)], "text"),
            "categories": value_column([[c for c, _ in image] for image in images]),
        }
    )


def _boxes(n: int) -> Tensor:
    return torch.tensor([[i, 0.0, i + 1.0, 5.0] for i in range(n)])


def _named(number: int, image: Image) -> list[Named]:
    text, found, start = caption(number, image), [], 0
    for category, word in image:
        start = text.index(word, start or text.index(" "))
        found.append(Named(category, word, start, start + len(word)))
        start += len(word)
    return found


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Return normal noise."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
