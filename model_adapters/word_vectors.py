"""Static word vectors: of GloVe (Pennington et al. 2014), of word2vec, and random ones."""

from __future__ import annotations

import gzip
import hashlib
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vlbench.capabilities import TokenVectors
from vlbench.errors import WeightsError

# The tokens of GloVe: "don't" is do and n't, "man's" is man and 's; a punctuation mark is a token.
TOKEN = re.compile(r"\w+?(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)

Find = Callable[[str], Tensor | None]


class WordVectors:
    """Word vectors from a file; a word has the same vector in every text.

    `weights` is a file in the text format of GloVe, with or without a first line of two counts,
    plain, .gz or .zip (`member` names the file in an archive of several), or in the binary format
    of word2vec (.bin or .bin.gz). `source` says where the file can be downloaded. A word is looked
    up as written, then in lower case, then by its parts between hyphens. A word without a vector
    has no span.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        weights: str = "glove.6B.zip",
        member: str = "",
        source: str = "",
    ) -> None:
        file = Path(weights).expanduser()
        if not file.is_file():
            origin = f"; download it from {source}" if source else ""
            raise WeightsError(f"no file of word vectors at {file}{origin}")
        binary = ".bin" in file.suffixes
        words, matrix = _read_binary(file) if binary else _read_text(file, member)
        self._rows: Mapping[str, int] = {word: i for i, word in reversed([*enumerate(words)])}
        self._matrix = torch.from_numpy(matrix).to(device, dtype)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of the words that have one."""
        return [self._look_up(text) for text in texts]

    def _look_up(self, text: str) -> TokenVectors:
        found = [token for token in _tokens(text, self._row) if token[1] is not None]
        rows = torch.tensor([row for _, row in found], dtype=torch.long)
        vectors = self._matrix[rows.to(self._matrix.device)].float()
        return TokenVectors([span for span, _ in found], vectors)

    def _row(self, word: str) -> int | None:
        return self._rows.get(word, self._rows.get(word.lower()))


class RandomVectors:
    """A random unit vector per word, the same in every text and every run; case does not matter.

    `width` is the number of dimensions, and `init_seed` the seed of the vectors.
    """

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
        found = [(match.span(), match.group().lower()) for match in TOKEN.finditer(text)]
        drawn = [self._vector(word) for _, word in found]
        vectors = torch.stack(drawn) if drawn else torch.empty(0, self._width)
        rounded = vectors.to(self._device, self._dtype).float()
        return TokenVectors([span for span, _ in found], rounded)

    def _vector(self, word: str) -> Tensor:
        known = hashlib.sha256(f"{self._seed} {word}".encode()).digest()
        rng = torch.Generator().manual_seed(int.from_bytes(known[:7], "big"))
        return functional.normalize(torch.randn(self._width, generator=rng), dim=0)


def _tokens(
    text: str, row: Callable[[str], int | None]
) -> Iterator[tuple[tuple[int, int], int | None]]:
    """Yield the span and row of each word, or of its hyphenated parts where it has no row."""
    for match in TOKEN.finditer(text):
        whole = row(match.group())
        if whole is not None or "-" not in match.group():
            yield match.span(), whole
            continue
        for part in re.finditer(r"\w+", match.group()):
            start = match.start()
            yield (start + part.start(), start + part.end()), row(part.group())


def _read_binary(file: Path) -> tuple[list[str], Any]:
    from gensim.models import KeyedVectors  # noqa: PLC0415 - takes most of a second

    try:
        vectors = KeyedVectors.load_word2vec_format(str(file), binary=True)
    except (OSError, EOFError, ValueError) as error:
        raise WeightsError(f"{file} cannot be read as word2vec's binary format: {error}") from error
    return vectors.index_to_key, vectors.vectors


def _read_text(file: Path, member: str) -> tuple[list[str], Any]:
    """Return words and float32 [words, D]. Raises WeightsError that names the wrong line."""
    with _opened(file, member) as lines:
        first = lines.readline().split()
    header = len(first) == 2
    with _opened(file, member) as lines:
        if header:
            lines.readline()
        width = int(first[1]) if header and first[1].isdigit() else len(first) - 1
        if width < 1:
            raise WeightsError(f"{file} begins with no word vector")
        return _parse(lines, width, str(file), 1 + header)


@contextmanager
def _opened(file: Path, member: str) -> Iterator[IO[bytes]]:
    if file.suffix == ".gz":
        with gzip.open(file) as lines:
            yield lines
    elif file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive, archive.open(_member(archive, member)) as lines:
            yield lines
    else:
        with file.open("rb") as lines:
            yield lines


def _member(archive: zipfile.ZipFile, member: str) -> str:
    names = archive.namelist()
    if member in names:
        return member
    if len(names) == 1 and not member:
        return names[0]
    raise WeightsError(
        f"{archive.filename} holds {', '.join(names)}; member={member or '...'} must name one"
    )


def _parse(lines: IO[bytes], width: int, name: str, start: int) -> tuple[list[str], Any]:
    """Return the words and vectors of the lines of a text; the first line has number `start`."""
    import pyarrow as pa  # noqa: PLC0415 - only a file of text needs it
    from pyarrow import csv  # noqa: PLC0415

    spaced: list[list[str]] = []

    def odd(row: Any) -> str:
        """Keep a word that contains spaces, as some of GloVe's do; any other line is an error."""
        word, *numbers = row.text.rsplit(" ", width)
        if len(numbers) < width or any(map(_is_number, word.split(" ")[1:])):
            return "error"
        spaced.append([word, *numbers])
        return "skip"

    names = [str(i) for i in range(width + 1)]
    kinds = {names[0]: pa.string(), **dict.fromkeys(names[1:], pa.float32())}
    words, blocks = [], []
    try:
        for batch in csv.open_csv(
            lines,
            csv.ReadOptions(column_names=names, use_threads=False),
            csv.ParseOptions(delimiter=" ", quote_char=False, invalid_row_handler=odd),
            csv.ConvertOptions(column_types=kinds, null_values=[]),
        ):
            words += batch.column(0).to_pylist()
            blocks.append(np.stack([column.to_numpy() for column in batch.columns[1:]], 1))
        blocks += [np.array([row[1:]], dtype=np.float32) for row in spaced]
    except (pa.ArrowInvalid, ValueError) as error:
        raise WeightsError(f"{name}{_place(str(error), start)}: {error}") from error
    words, matrix = [*words, *(row[0] for row in spaced)], np.concatenate(blocks)
    if len(bad := np.flatnonzero(~np.isfinite(matrix.sum(1)))):
        raise WeightsError(f"{name}: the vector of '{words[bad[0]]}' is not finite")
    return words, matrix


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is not None


def _place(message: str, start: int) -> str:
    """Return the line that a message of pyarrow is about; pyarrow counts rows from 1."""
    row = re.search(r"Row #(\d+)", message)
    return f", line {int(row[1]) + start - 1}" if row else ""
