"""Images, and beside them a text corpus and word tests for vectors trained on it.

A corpus is plain text in UTF-8, one document per line, uncompressed or compressed (.gz, .bz2).
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.imagenet import imagenet
from vlbench.data.names import composed
from vlbench.data.presence import require_files
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.data.word_files import read_visual_words
from vlbench.errors import DataError
from vlbench.system.digests import digest, path_digest

# The longest document: over a hundred times Wikipedia's longest article, and more than text8.
MOST_BYTES = 1 << 27

OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}

WORDNET = (
    "WordNet (nltk: a class's first name; if that has several words, the first lemma of its "
    "first hypernym), one line per class: its wnid, a tab, the word"
)
WIKIPEDIA = (
    "a dump of Wikipedia as plain text (for example gensim's segment_wiki), one article per line"
)
QUESTIONS = "github.com/tmikolov/word2vec, questions-words.txt"
PAIRS = "github.com/mfaruqui/eval-word-vectors, data/word-sim"


@dataclass(frozen=True)
class Corpus:
    """A file with one document per line, read again on each iteration."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        """Yield the documents, without blank lines, with words in normal form NFC.

        Raises DataError with the line that is not UTF-8 or too long, or after which the file is
        damaged.
        """
        number = 0
        try:
            with OPENERS.get(self.path.suffix, open)(self.path, "rb") as lines:
                # No more than this of a line is unpacked: a small file may contain gigabytes.
                for number, line in enumerate(iter(partial(lines.readline, MOST_BYTES), b""), 1):
                    if len(line) == MOST_BYTES:
                        raise DataError(f"{self.path.name}, line {number}, is longer than 128 MiB")
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    if text.strip():
                        yield composed(text)
        except UnicodeDecodeError as error:
            why = f"{error.reason} at byte {error.start}"
            raise DataError(f"{self.path.name}, line {number}, is not UTF-8: {why}") from error
        except (EOFError, OSError, ValueError, zlib.error) as error:
            raise DataError(f"{self.path.name} is cut off after line {number}: {error}") from error


class WordTests(NamedTuple):
    """The files of the texts: a corpus, analogy questions, and sets of word pairs.

    Formats: see `Corpus`, and `read_questions` and `read_pairs` of `vlbench.data.word_files`.
    """

    corpus: Path
    analogies: Path
    word_pairs: Sequence[Path]


def imagenet_and_corpus(
    *,
    root: Path,
    corpus: Path,
    analogies: Path,
    word_pairs: list[Path],
    words: Path | None = None,
) -> Data:
    """Return ImageNet's validation images with their visual words, and a corpus.

    Args:
        root: folder of ImageNet, in the layout that `imagenet` reads.
        corpus: text in UTF-8 with a document per line, plain, .gz or .bz2.
        analogies: file of analogy questions, such as questions-words.txt.
        word_pairs: files of rated word pairs.
        words: file with a wnid, a tab and a word per line; None: a class's first name, if it is
            one word.
    """
    texts = WordTests(corpus, analogies, word_pairs)
    if words is not None:
        require_files("the list of visual words", WORDNET, words)
    # Checked before ImageNet is read, which takes minutes.
    require_texts(texts)
    data = imagenet(root=root)
    if words is None:
        return with_class_words(data, texts)
    visual_words = read_visual_words(words)
    wnids = data.splits["test"]["wnid"]
    return with_corpus(data, [visual_words.get(wnid, "") for wnid in wnids], texts)


def with_corpus(data: Data, words: Sequence[str], texts: WordTests) -> Data:
    """Return the test images with one visual word per image ("" for none), and the texts.

    Split "corpus" has one row, `documents`; "analogies" has one, `file`; "word_pairs" has one
    `file` per set. Raises DataAbsent for a missing file.
    """
    require_texts(texts)
    documents = Column(path_digest(texts.corpus), "value", [Corpus(texts.corpus)], [0])
    splits = {
        "test": Split({**data.splits["test"].columns, "word": value_column(words)}),
        "corpus": Split({"documents": documents}),
        "analogies": Split({"file": _files([texts.analogies])}),
        "word_pairs": Split({"file": _files(texts.word_pairs)}),
    }
    return replace(data, splits=splits)


def with_class_words(data: Data, texts: WordTests | None) -> Data:
    """Return data as `with_corpus`, with first names of classes as words; unchanged for None.

    Raises DataError for data without labelled test images.
    """
    if texts is None:
        return data
    if "test" not in data.splits or not data.classes:
        raise DataError("visual words are names of classes, so the test images must have labels")
    return with_corpus(data, _class_words(data), texts)


def _class_words(data: Data) -> list[str]:
    """Return the visual word of each test image: its class's first name if it is one word."""
    first = [name.partition(",")[0].strip().lower() for name in data.classes]
    words = [name if name.isalpha() else "" for name in first]
    return [words[label] for label in labels(data.splits["test"]).tolist()]


def require_texts(texts: WordTests | None) -> None:
    """Raise DataAbsent for the first file that is absent."""
    if texts is None:
        return
    pairs = [("a set of word pairs", PAIRS, path) for path in texts.word_pairs]
    single = [
        ("the corpus", WIKIPEDIA, texts.corpus),
        ("the analogies", QUESTIONS, texts.analogies),
    ]
    for what, where_to_get, path in [*single, *pairs]:
        require_files(f"{what} {path.name}", where_to_get, path)


def _files(paths: Sequence[Path]) -> Column:
    key = digest([path_digest(path) for path in paths])
    return Column(key, "value", list(paths), range(len(paths)))
