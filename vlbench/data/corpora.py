"""Images with a text corpus beside them, and the word tests that vectors of its words are put to.

A corpus is plain text in UTF-8, one document a line, as it is or compressed (.gz, .bz2).
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.imagenet import imagenet
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.data.scenes import objects
from vlbench.data.word_files import read_visual_words
from vlbench.digests import digest, path_digest
from vlbench.errors import DataAbsent, DataError

OPENED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}

WORDNET = (
    "WordNet (nltk: a class's first name; while that has several words, the first lemma of its"
    " first hypernym), one line a class: its wnid, a tab, the word"
)
WIKIPEDIA = (
    "a dump of Wikipedia made plain text (gensim's segment_wiki, for one), an article a line"
)
QUESTIONS = "github.com/tmikolov/word2vec, questions-words.txt"
PAIRS = "github.com/mfaruqui/eval-word-vectors, data/word-sim"


@dataclass(frozen=True)
class Corpus:
    """A file with one document a line, read anew each time it is asked for."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        """Yield the documents; lines that are blank are none.

        Raises DataError, with the line, where one is no UTF-8 or the file cannot be read on.
        """
        number = 0
        try:
            with OPENED.get(self.path.suffix, open)(self.path, "rb") as lines:
                for number, line in enumerate(lines, 1):  # noqa: B007 - the errors name it
                    text = line.decode("utf-8")
                    if text.strip():
                        yield text
        except UnicodeDecodeError as error:
            why = f"{error.reason} at byte {error.start}"
            raise DataError(f"{self.path.name}, line {number}, is no UTF-8: {why}") from error
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(f"{self.path.name} breaks off after line {number}: {error}") from error


class WordTests(NamedTuple):
    """Where the texts are: a corpus, questions of analogy, and sets of word pairs."""

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
    """Return ImageNet's validation images with the visual word of each, and a corpus beside them.

    `words` names each class's word; None: the class's first name, if that is one word.
    """
    texts = WordTests(corpus, analogies, word_pairs)
    if words is not None and not words.is_file():
        raise DataAbsent("the list of visual words", WORDNET, str(words))
    # Before ImageNet is read, which takes minutes.
    _refuse_absent(texts)
    data = imagenet(root=root)
    if words is None:
        return with_corpus(data, _names(data), texts)
    known = read_visual_words(words)
    return with_corpus(data, [known.get(w, "") for w in data.splits["test"]["wnid"]], texts)


def objects_and_corpus(*, seed: int = 0) -> Data:
    """Return drawings of one thing, and the texts that come with gensim.

    The corpus is 250 documents of stemmed words, from Wikipedia; the word pairs are WordSim-353 and
    SimLex-999.
    """
    from gensim.test.utils import datapath  # noqa: PLC0415 - only this task needs it

    pairs = [Path(datapath(name)) for name in ("wordsim353.tsv", "simlex999.txt")]
    corpus, questions = (
        Path(datapath(name)) for name in ("head500.noblanks.cor", "questions-words.txt")
    )
    data = objects(seed=seed)
    return with_corpus(data, _names(data), WordTests(corpus, questions, pairs))


def with_corpus(data: Data, words: Sequence[str], texts: WordTests) -> Data:
    """Return the test images with the visual word of each ("" for none), and texts beside them.

    Split "corpus" has one row, `documents`; "analogies" one, `file`; "word_pairs" one a `file`.
    Raises DataAbsent for a file that is not there.
    """
    _refuse_absent(texts)
    documents = Column(path_digest(texts.corpus), "value", [Corpus(texts.corpus)], [0])
    splits = {
        "test": Split({**data.splits["test"].columns, "word": value_column(words)}),
        "corpus": Split({"documents": documents}),
        "analogies": Split({"file": _files([texts.analogies])}),
        "word_pairs": Split({"file": _files(texts.word_pairs)}),
    }
    return Data(splits=splits, classes=data.classes, expected=data.expected)


def _names(data: Data) -> list[str]:
    """Return the visual word of each test image: its class's first name, if that is one word."""
    first = [name.partition(",")[0].strip().lower() for name in data.classes]
    words = [name if name.isalpha() else "" for name in first]
    return [words[label] for label in labels(data.splits["test"]).tolist()]


def _refuse_absent(texts: WordTests) -> None:
    pairs = [("a set of word pairs", PAIRS, path) for path in texts.word_pairs]
    one = [
        ("the corpus", WIKIPEDIA, texts.corpus),
        ("the analogies", QUESTIONS, texts.analogies),
    ]
    for what, where_to_get, path in [*one, *pairs]:
        if not path.is_file():
            raise DataAbsent(f"{what} {path.name}", where_to_get, str(path))


def _files(paths: Sequence[Path]) -> Column:
    key = digest([path_digest(path) for path in paths])
    return Column(key, "value", list(paths), range(len(paths)))
