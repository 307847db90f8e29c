"""Vocabulary, captions as word numbers, and files of the captioner."""

from __future__ import annotations

import json
import math
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from vlbench.adapter_kit.weights import load_weights, read_state_dict
from vlbench.data.coco_files import read_text
from vlbench.errors import DataError, WeightsError
from vlbench.probes.captioning.captioner_network import END, FcCaptioner, Sizes
from vlbench.system.digests import digest

# Stands for all rare words.
UNKNOWN = "UNK"

# A word that occurs this often or less in the training captions is rare, as in arXiv:2210.09550.
RARE = 5

# Words to which training captions are cut, also as in the paper.
LONGEST_CAPTION = 16

PUNCTUATION = str.maketrans("", "", string.punctuation)

# A feature with a smaller standard deviation is not scaled.
LEAST_DEVIATION = 1e-6

# Names of weight files, in order of preference.
WEIGHTS = ("model.safetensors", "model-best.pth", "model.pth")
WORDS = "cocotalk.json"
ABOUT = "captioner.json"

# An upper limit of the vocabulary, because a file may contain anything.
MOST_WORDS = 1_000_000


@dataclass(frozen=True)
class Vocabulary:
    """The words of a captioner; word number i + 1 is `words[i]`, and 0 is the end of a caption."""

    words: tuple[str, ...]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: i + 1 for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def split(self, text: str) -> list[str]:
        """Return the words of a text in lower case, tokenised as in the captioner's training.

        Punctuation is removed unless it is a word of the vocabulary, or part of a word.
        """
        words = [self._word_form(piece) for piece in text.lower().split()]
        return [word for word in words if word]

    def _word_form(self, piece: str) -> str:
        forms = (piece, piece.strip(string.punctuation), piece.translate(PUNCTUATION))
        return next((form for form in forms if form in self.numbers), forms[-1])

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's words; unknown words are UNK, or left out without UNK."""
        unknown = self.numbers.get(UNKNOWN, END)
        numbers = [self.numbers.get(word, unknown) for word in self.split(text)]
        return [number for number in numbers if number != END]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the words up to the first END, with single spaces between."""
        stop = numbers.index(END) if END in numbers else len(numbers)
        return " ".join(self.words[number - 1] for number in numbers[:stop])

    def texts(self, captions: Tensor) -> list[str]:
        """Return captions [N, T] as texts."""
        return [self.decode(row) for row in captions.tolist()]

    def known(self, texts: Iterable[str]) -> float:
        """Return the fraction of the words of texts in the vocabulary; 1 if there are no words."""
        hits = [word in self.numbers for text in texts for word in self.split(text)]
        return sum(hits) / len(hits) if hits else 1.0


def learn_vocabulary(
    captions: Iterable[str], *, rare: int = RARE, punctuation: bool = False
) -> Vocabulary:
    """Return the sorted words of captions, with UNK at the end if some words are rare.

    If `punctuation`, text between spaces is a word unchanged; otherwise its punctuation is removed.
    """
    counts: Counter[str] = Counter()
    for text in captions:
        lower = text.lower()
        counts.update((lower if punctuation else lower.translate(PUNCTUATION)).split())
    common = sorted(word for word, n in counts.items() if n > rare)
    return Vocabulary((*common, *([UNKNOWN] if len(common) < len(counts) else [])))


class Labels(NamedTuple):
    """Captions of N images as word numbers int32 [M, T], padded with at least one END.

    Image i has the captions from `first[i]` to `first[i + 1]`, int64 [N + 1].
    """

    words: Tensor
    first: Tensor

    def draw(self, images: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Return `count` consecutive captions of each image [B], as int64 [B, count].

        If an image has fewer captions, they are drawn with replacement. The numbers are rows of
        `words`.
        """
        first, totals = self.first[images], self.first[images + 1] - self.first[images]
        few = (totals < count)[:, None]
        drawn = torch.rand(len(images), count, generator=rng, device=rng.device).cpu()
        start = (drawn[:, :1] * (totals[:, None] - count + 1)).long()
        each = (drawn * totals[:, None]).long()
        return first[:, None] + torch.where(few, each, start + torch.arange(count))


def label(
    vocabulary: Vocabulary, captions: Sequence[Sequence[str]], *, most: int = LONGEST_CAPTION
) -> Labels:
    """Return the captions of each image, cut to `most` words.

    A caption without words is left out. Raises DataError for an image without other captions.
    """
    rows: list[list[int]] = []
    counts = [0]
    for image, texts in enumerate(captions):
        encoded = [words for words in map(vocabulary.encode, texts) if words]
        if not encoded:
            raise DataError(f"image {image} of the training captions has no caption with a word")
        rows += [(words[:most] + [END] * (most + 1))[: most + 1] for words in encoded]
        counts.append(len(encoded))
    words = torch.tensor(rows, dtype=torch.int32).reshape(-1, most + 1)
    return Labels(words, torch.tensor(list(accumulate(counts))))


def draw_captioner(sizes: Sizes, rng: torch.Generator) -> FcCaptioner:
    """Return a network with PyTorch's initialisation, drawn from `rng` on the CPU."""
    network = empty_captioner(sizes)
    nn.init.normal_(network.embed.weight, generator=rng)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
            nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
    return network


def restore_captioner(weights: Mapping[str, Tensor], sizes: Sizes) -> FcCaptioner:
    """Return the network of these weights, on the CPU."""
    network = empty_captioner(sizes)
    network.load_state_dict(weights)
    return network


def spread(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation [D] of features [N, D]; 1 for constant features."""
    deviation, mean = torch.std_mean(features, 0, correction=0)
    return mean, deviation.masked_fill(deviation < LEAST_DEVIATION, 1.0)


def fold_scaling(
    weights: Mapping[str, Tensor], mean: Tensor | float, deviation: Tensor | float
) -> dict[str, Tensor]:
    """Return weights for original features from weights for standardised features."""
    first = weights["fc_embed.weight"] / deviation
    bias = weights["fc_embed.bias"] - (first * mean).sum(1)
    return {**weights, "fc_embed.weight": first, "fc_embed.bias": bias}


def empty_captioner(sizes: Sizes) -> FcCaptioner:
    """Return a network without values, which leaves torch's global generator unchanged."""
    with torch.device("meta"):
        network = FcCaptioner(sizes)
    return network.to_empty(device="cpu")


class StoredCaptioner(NamedTuple):
    """A trained network with its vocabulary; `about` describes its features, if known."""

    network: FcCaptioner
    vocabulary: Vocabulary
    about: dict[str, Any]


def read_captioner(folder: Path) -> StoredCaptioner:
    """Return the captioner in a folder, float32 on the CPU.

    Raises WeightsError if weights or vocabulary are absent or unreadable, or if the vocabulary
    belongs to another captioner.
    """
    files = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not files:
        raise WeightsError(f"no captioner in {folder}; it must contain one of {', '.join(WEIGHTS)}")
    vocabulary = read_vocabulary(folder / WORDS)
    about = _read_json(folder / ABOUT) if (folder / ABOUT).is_file() else {}
    state = read_state_dict(files[0])
    sizes = _sizes(state, files[0])
    if sizes.words != len(vocabulary):
        raise WeightsError(
            f"{folder / WORDS} has {len(vocabulary)} words, {files[0].name} {sizes.words}: the "
            "vocabulary belongs to another captioner"
        )
    if about and about.get("vocabulary") != digest(vocabulary.words):
        raise WeightsError(
            f"{folder / WORDS} is not the vocabulary that {folder / ABOUT} names: it belongs to "
            "another captioner"
        )
    network = empty_captioner(sizes)
    load_weights(network, {name: value.float() for name, value in state.items()}, files[0])
    return StoredCaptioner(network, vocabulary, about)


def write_captioner(folder: Path, stored: StoredCaptioner, *, half: bool = False) -> None:
    """Write a captioner in vlbench's format; `half` stores the weights in half precision."""
    folder.mkdir(parents=True, exist_ok=True)
    state = stored.network.state_dict()
    weights = {k: (v.half() if half else v).contiguous().cpu() for k, v in state.items()}
    save_file(weights, folder / WEIGHTS[0], {"format": "pt"})
    words = {str(i): word for word, i in stored.vocabulary.numbers.items()}
    _write(folder / WORDS, {"ix_to_word": words})
    _write(folder / ABOUT, {**stored.about, "vocabulary": digest(stored.vocabulary.words)})


def read_vocabulary(file: Path) -> Vocabulary:
    """Return the words under `ix_to_word` in a cocotalk.json, numbered from 1 without gaps.

    Raises WeightsError.
    """
    if not file.is_file():
        raise WeightsError(
            f"no vocabulary at {file}: put the captioner's cocotalk.json beside its weights (the "
            "words in infos_*.pkl are not read)"
        )
    words = _read_json(file).get("ix_to_word")
    if not isinstance(words, dict) or not 0 < len(words) <= MOST_WORDS:
        raise WeightsError(f"{file} has no words under 'ix_to_word'")
    listed = [words.get(str(i + 1)) for i in range(len(words))]
    gaps = [
        i for i, word in enumerate(listed, 1) if not isinstance(word, str) or [word] != word.split()
    ]
    if gaps:
        raise WeightsError(f"{file}: number {gaps[0]} of 'ix_to_word' is not a word")
    if len(set(listed)) < len(listed):
        raise WeightsError(f"{file}: 'ix_to_word' has a word twice")
    return Vocabulary(tuple(str(word) for word in listed))


def _sizes(state: dict[str, Any], file: Path) -> Sizes:
    """Return the widths, read from the shapes of the weights. Raises WeightsError."""
    shapes = [
        list(value.shape) if isinstance(value := state.get(name), Tensor) else []
        for name in ("fc_embed.weight", "embed.weight", "logit.weight")
    ]
    if any(len(shape) != 2 or 0 in shape for shape in shapes):
        raise WeightsError(
            f"{file} has no fc_embed.weight, embed.weight and logit.weight: it is not an FC "
            "captioner (caption_model: newfc) of ImageCaptioning.pytorch"
        )
    (embedding, features), (words, _), (_, hidden) = shapes
    return Sizes(features, words - 1, embedding, hidden)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError, DataError) as error:
        raise WeightsError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise WeightsError(f"{file} does not contain a JSON object")
    return content


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
