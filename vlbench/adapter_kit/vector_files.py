"""Files of word vectors: the text format of GloVe, and the text and binary formats of word2vec."""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from vlbench.adapter_kit.weights import UNREADABLE, unreadable
from vlbench.data.formats.archives import most_bytes, open_gzip, open_zip
from vlbench.errors import WeightsError

# Words and float32 [words, D].
NamedVectors = tuple[list[str], Any]

# Upper limits of the numbers in a vector, and of the bytes in its line.
MOST_NUMBERS = 1 << 14
LONGEST_LINE = 1 << 20

# Bytes of the binary format that are read at a time.
BLOCK = 1 << 24


# The values of gensim's option of this name: how to decode words that are not UTF-8.
UnicodeErrors = Literal["strict", "ignore", "replace"]


def read_vectors(
    file: Path, member: str = "", *, unicode_errors: UnicodeErrors = "strict"
) -> NamedVectors:
    """Return the words and vectors of a file, in the format given by its name.

    A name with .bin means word2vec's binary format, any other GloVe's text format, with or without
    word2vec's first line of two counts. Files with .gz and .zip are unpacked; `member` is the
    file's name in an archive of several. `unicode_errors`, gensim's option, applies to the binary
    format: it sets how bytes that are not UTF-8 are decoded. Raises WeightsError, with the line if
    it is known.
    """
    is_binary = ".bin" in file.suffixes
    kind = "word2vec's binary format" if is_binary else "word vectors"
    try:
        if is_binary:
            words, matrix = _read_binary(file, unicode_errors)
        else:
            words, matrix = _read_text(file, member)
    except UNREADABLE as error:
        raise unreadable(file, error, kind) from error
    if len(bad := np.flatnonzero(~np.isfinite([matrix.min(1), matrix.max(1)]).all(0))):
        raise WeightsError(f"{file}: the vector of '{words[bad[0]]}' is not finite")
    return words, matrix


def _read_binary(file: Path, unicode_errors: UnicodeErrors) -> NamedVectors:
    """Read a word2vec binary file, whose header states the number of vectors."""
    stream = open_gzip(file) if file.suffix == ".gz" else file.open("rb")
    with stream:
        count, width = _counts(stream.readline(LONGEST_LINE))
        if count * (4 * width + 1) > most_bytes(file, 100 if file.suffix == ".gz" else 1):
            raise ValueError(f"it is too small for the {count} x {width} numbers that it declares")
        words: list[str] = []
        matrix = np.empty((count, width), np.float32)
        held, at, size = b"", 0, 4 * width
        for row in matrix:
            end = held.find(b" ", at) + 1
            while end == 0 or len(held) < end + size:
                more = stream.read(BLOCK)
                if not more or (end == 0 and len(held) - at > LONGEST_LINE):
                    raise EOFError(f"it ends after {len(words)} of {count} vectors")
                held, at = held[at:] + more, 0
                end = held.find(b" ") + 1
            words.append(_word(held[at : end - 1].lstrip(b"\n"), unicode_errors))
            row[:] = np.frombuffer(held, "<f4", width, end)
            at = end + size
        if (held[at:] + stream.read(BLOCK)).strip():
            raise ValueError(f"it continues after the {count} vectors that it declares")
    return words, matrix


def _word(encoded: bytes, unicode_errors: UnicodeErrors) -> str:
    try:
        return encoded.decode(errors=unicode_errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the word {encoded!r:.60} is not UTF-8; unicode_errors=replace or =ignore reads it, "
            "as in gensim"
        ) from error


def _counts(line: bytes) -> tuple[int, int]:
    """Return the numbers of words and of dimensions in the first line of a word2vec file."""
    count, width = (int(field) for field in line.split())
    if count < 1 or not 1 <= width <= MOST_NUMBERS:
        raise ValueError(f"it declares {count} vectors of {width} numbers")
    return count, width


def _read_text(file: Path, member: str) -> NamedVectors:
    """Return the vectors of a text file. Raises WeightsError that names the wrong line."""
    with _open(file, member) as stream:
        lines = io.BufferedReader(_Utf8(stream))
        first, second = lines.readline(LONGEST_LINE).split(), lines.readline(LONGEST_LINE).split()
    header = len(first) == 2 and all(field.isdigit() for field in first)
    count, width = _counts(b" ".join(first)) if header else (0, len(first) - 1)
    if width < 1 or (header and width >= max(len(second), 1)):
        raise WeightsError(f"{file} does not begin with a word vector")
    if width > MOST_NUMBERS:
        raise WeightsError(f"{file}, line 1: a vector of {width} numbers; {MOST_NUMBERS} at most")
    with _open(file, member) as stream:
        lines = io.BufferedReader(_Utf8(stream))
        if header:
            lines.readline()
        words, matrix = _parse(lines, width, str(file), 1 + header)
    if header and len(words) != count:
        raise WeightsError(f"{file} has {len(words)} vectors; its first line declares {count}")
    return words, matrix


class _Utf8(io.RawIOBase):
    """The bytes of a stream, without a byte order mark and without a blank before a line's end.

    word2vec.c and the first versions of fastText end each line with a blank.

    Reading raises UnicodeDecodeError for bytes that are not UTF-8: pyarrow cannot pass such a
    line to Python, and reports it only on standard error.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._mark = codecs.BOM_UTF8  # until it is read
        self._blank = b""

    def readable(self) -> bool:
        """Return True, as BufferedReader requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return the number of bytes; 0 only at the end of the stream."""
        text, chunk = b"", b"..."
        while chunk and not text:
            chunk = self._read(len(buffer) - len(self._blank))
            text, self._blank = _split_last_blank(self._blank + chunk)
        text = text.replace(b" \n", b"\n").replace(b" \r\n", b"\r\n")
        buffer[: len(text)] = text
        return len(text)

    def _read(self, size: int) -> bytes:
        """Return the next bytes, of UTF-8, without the byte order mark of the first."""
        chunk, mark = self._stream.read(size), self._mark
        self._decoder.decode(chunk, final=not chunk)
        self._mark = b""
        return chunk.removeprefix(mark)


def _split_last_blank(text: bytes) -> tuple[bytes, bytes]:
    """Return a text without a last blank, and this blank: the line may end after it."""
    blank = next((end for end in (b" ", b" \r") if text.endswith(end)), b"")
    return text.removesuffix(blank), blank


@contextmanager
def _open(file: Path, member: str) -> Iterator[IO[bytes]]:
    if file.suffix == ".gz":
        with open_gzip(file) as lines:
            yield lines
    elif file.suffix == ".zip":
        with open_zip(file) as archive, archive.open(_member(archive, member)) as lines:
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
        f"{archive.filename} contains {', '.join(names)}; member={member or '...'} must name one"
    )


def _parse(lines: IO[bytes], width: int, name: str, start: int) -> NamedVectors:
    """Return the words and vectors of the lines of a text; the first line has number `start`."""
    import pyarrow as pa  # noqa: PLC0415 - only a file of text needs it
    from pyarrow import csv  # noqa: PLC0415

    spaced: list[list[str]] = []

    def odd(row: Any) -> str:
        """Keep a word that contains spaces, such as some in GloVe; any other line is an error."""
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
    except (pa.ArrowException, ValueError) as error:
        raise WeightsError(f"{name}{_place(str(error), start)}: {error}") from error
    words, matrix = [*words, *(row[0] for row in spaced)], np.concatenate(blocks)
    return words, matrix


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is not None


def _place(message: str, start: int) -> str:
    """Return the line that a message of pyarrow refers to; pyarrow counts rows from 1."""
    row = re.search(r"Row #(\d+)", message)
    return f", line {int(row[1]) + start - 1}" if row else ""
