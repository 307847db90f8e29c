"""Captions as words with single spaces between: the Penn Treebank's, or as they stand."""

from __future__ import annotations

from collections.abc import Sequence

from vlbench.errors import DataError
from vlbench.metrics.text.java import jar, one_line, run_java

# Words that coco-caption leaves out. Brackets stay, as the captions' are in lower case by then.
PUNCTUATION = frozenset(
    "'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;".split()  # noqa: SIM905 - a long list
)

TOKENIZER = "edu.stanford.nlp.process.PTBTokenizer"


def treebank_words(captions: Sequence[str]) -> list[str]:
    """Return captions as coco-caption sees them: lower-case words of the Penn Treebank.

    One Java process tells the words apart for all captions. Punctuation is left out, so that a
    caption may end up empty.
    """
    if not captions:
        return []
    words = ["-cp", jar("tokenizer/stanford-corenlp-3.4.1.jar"), TOKENIZER]
    lines = [one_line(caption) for caption in captions]
    words += ["-preserveLines", "-lowerCase"]
    said = run_java("words of captions", words, lines, texts=len(lines)).split("\n")
    if len(said) != len(lines) + 1:
        raise DataError(f"words of captions: Java told {len(said) - 1} lines of {len(lines)}")
    return [_without_punctuation(line) for line in said[:-1]]


def plain_words(captions: Sequence[str]) -> list[str]:
    """Return captions as they stand, as qgevalcap does, without ends of line.

    Nothing is left out or made lower-case, and ROUGE-L takes two spaces for an empty word between.
    """
    return [" ".join(caption.splitlines()) for caption in captions]


def _without_punctuation(line: str) -> str:
    return " ".join(word for word in line.rstrip().split(" ") if word not in PUNCTUATION)
