"""Static word vectors: GloVe (Pennington et al. 2014), word2vec, and random vectors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from vlbench.adapter_kit.vector_files import UnicodeErrors, read_vectors
from vlbench.capabilities import TokenVectors
from vlbench.errors import WeightsError

# GloVe's tokens: "don't" is do and n't, "man's" is man and 's; a punctuation mark is a token.
TOKEN = re.compile(r"\w+?(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)

Find = Callable[[str], Tensor | None]


class WordVectors:
    """Word vectors from a file; a word has the same vector in every text.

    A word is looked up as written, then in lower case, then by its parts between hyphens. A word
    that has no vector has no span.

    Args:
        weights: file in the text format of GloVe (with or without a first line of two counts;
            plain, .gz or .zip), or in word2vec's binary format (.bin or .bin.gz).
        member: file in an archive of several; empty: the archive has one file.
        source: where the file can be downloaded, for the message if it is missing.
        unicode_errors: how to treat words of a binary file that are not UTF-8: `strict` refuses
            them, `ignore` and `replace` drop or replace bytes.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        weights: str = "glove.6B.zip",
        member: str = "",
        source: str = "",
        unicode_errors: UnicodeErrors = "strict",
    ) -> None:
        file = _find(weights, source)
        words, matrix = read_vectors(file, member, unicode_errors=unicode_errors)
        self._rows: Mapping[str, int] = {word: i for i, word in reversed([*enumerate(words)])}
        self._matrix = torch.from_numpy(matrix).to(device, dtype)

    @staticmethod
    def require_weights(weights: str, source: str) -> None:
        """Raise WeightsError if the file does not exist; read nothing."""
        _find(weights, source)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of the words that have vectors."""
        return [self._look_up(text) for text in texts]

    def _look_up(self, text: str) -> TokenVectors:
        tokens = [token for token in _tokens(text, self._row) if token[1] is not None]
        rows = torch.tensor([row for _, row in tokens], dtype=torch.long)
        vectors = self._matrix[rows.to(self._matrix.device)].float()
        return TokenVectors([span for span, _ in tokens], vectors)

    def _row(self, word: str) -> int | None:
        return self._rows.get(word, self._rows.get(word.lower()))


def _find(weights: str, source: str) -> Path:
    file = Path(weights).expanduser()
    if not file.is_file():
        origin = f"; download it from {source}" if source else ""
        raise WeightsError(f"no file of word vectors at {file}{origin}")
    return file


class RandomVectors:
    """A random unit vector per word, the same in every text and every run; case does not matter.

    Args:
        width: number of dimensions.
        init_seed: seed of the vectors.
    """

    is_control = True

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        width: int = 300,
        init_seed: int = 0,
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._width = width
        self._seed = init_seed

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return a vector per word and per punctuation mark."""
        return [self._draw(text) for text in texts]

    def _draw(self, text: str) -> TokenVectors:
        words = [(match.span(), match.group().lower()) for match in TOKEN.finditer(text)]
        drawn = [self._vector(word) for _, word in words]
        vectors = torch.stack(drawn) if drawn else torch.empty(0, self._width)
        rounded = vectors.to(self._device, self._dtype).float()
        return TokenVectors([span for span, _ in words], rounded)

    def _vector(self, word: str) -> Tensor:
        content = hashlib.sha256(f"{self._seed} {word}".encode()).digest()
        rng = torch.Generator().manual_seed(int.from_bytes(content[:7], "big"))
        return functional.normalize(torch.randn(self._width, generator=rng), dim=0)


def _tokens(
    text: str, row: Callable[[str], int | None]
) -> Iterator[tuple[tuple[int, int], int | None]]:
    """Yield the span and row of each word, or of its hyphenated parts if it has no row."""
    for match in TOKEN.finditer(text):
        whole = row(match.group())
        if whole is not None or "-" not in match.group():
            yield match.span(), whole
            continue
        for part in re.finditer(r"\w+", match.group()):
            start = match.start()
            yield (start + part.start(), start + part.end()), row(part.group())
