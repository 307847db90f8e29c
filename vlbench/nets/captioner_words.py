"""Words of the captioner: its vocabulary, and captions as rows of word numbers."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.errors import DataError
from vlbench.nets.captioner import END

# Stands for all rare words.
UNKNOWN = "UNK"

# A word is rare if the training captions have it this often or less, as in arXiv:2210.09550.
RARE = 5

# Words of a training caption that are learnt from, as there.
MOST_WORDS = 16

PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Vocabulary:
    """The words of a captioner; word number i + 1 is `words[i]`, 0 is the end of a caption."""

    words: tuple[str, ...]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: i + 1 for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def split(self, text: str) -> list[str]:
        """Return the words of a text in lower case, as the captioner was taught to tell them apart.

        Punctuation is left out where it is no word of the vocabulary, nor part of one.
        """
        words = [self._told(piece) for piece in text.lower().split()]
        return [word for word in words if word]

    def _told(self, piece: str) -> str:
        forms = (piece, piece.strip(string.punctuation), piece.translate(PUNCTUATION))
        return next((form for form in forms if form in self.numbers), forms[-1])

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's words; unknown words are UNK, or left out without it."""
        unknown = self.numbers.get(UNKNOWN, END)
        found = [self.numbers.get(word, unknown) for word in self.split(text)]
        return [number for number in found if number != END]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the words up to the first END, with single spaces between."""
        stop = numbers.index(END) if END in numbers else len(numbers)
        return " ".join(self.words[number - 1] for number in numbers[:stop])

    def texts(self, captions: Tensor) -> list[str]:
        """Return captions [N, T] as texts."""
        return [self.decode(row) for row in captions.tolist()]

    def known(self, texts: Iterable[str]) -> float:
        """Return the fraction of the words of texts that are in the vocabulary; 1 without words."""
        found = [word in self.numbers for text in texts for word in self.split(text)]
        return sum(found) / len(found) if found else 1.0


def learn_vocabulary(
    captions: Iterable[str], *, rare: int = RARE, punctuation: bool = False
) -> Vocabulary:
    """Return the words of captions, sorted, with UNK at the end where there are rare ones.

    With `punctuation`, what stands between spaces is a word as it is; else its punctuation goes.
    """
    counts: Counter[str] = Counter()
    for text in captions:
        lower = text.lower()
        counts.update((lower if punctuation else lower.translate(PUNCTUATION)).split())
    common = sorted(word for word, n in counts.items() if n > rare)
    return Vocabulary((*common, *([UNKNOWN] if len(common) < len(counts) else [])))


class Labels(NamedTuple):
    """Captions of N images as words int32 [M, T], END after the last, at least once.

    Image i has those from `first[i]` to `first[i + 1]`, int64 [N + 1].
    """

    words: Tensor
    first: Tensor

    def draw(self, images: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Return `count` captions of each image [B], neighbours among its own: int64 [B, count].

        Of an image with fewer captions they are drawn with replacement. The numbers are rows of
        `words`.
        """
        first, several = self.first[images], self.first[images + 1] - self.first[images]
        few = (several < count)[:, None]
        drawn = torch.rand(len(images), count, generator=rng, device=rng.device).cpu()
        start = (drawn[:, :1] * (several[:, None] - count + 1)).long()
        each = (drawn * several[:, None]).long()
        return first[:, None] + torch.where(few, each, start + torch.arange(count))


def label(
    vocabulary: Vocabulary, captions: Sequence[Sequence[str]], *, most: int = MOST_WORDS
) -> Labels:
    """Return the captions of each image, cut to `most` words.

    A caption without a word is left out. Raises DataError for an image without any other.
    """
    rows: list[list[int]] = []
    counts = [0]
    for image, texts in enumerate(captions):
        found = [words for words in map(vocabulary.encode, texts) if words]
        if not found:
            raise DataError(f"image {image} of the training captions has none with a word")
        rows += [(words[:most] + [END] * (most + 1))[: most + 1] for words in found]
        counts.append(len(found))
    words = torch.tensor(rows, dtype=torch.int32).reshape(-1, most + 1)
    return Labels(words, torch.tensor(list(accumulate(counts))))
