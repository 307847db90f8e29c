"""Nouns of captions, by a spaCy pipeline or by each word's most frequent tag.

arXiv:2210.09550, section 4, finds nouns ("visual words") with spaCy. Its tag NOUN counts and PROPN
does not, because captions are in lower case. If there is no pipeline, a word has its most frequent
tag in the tagged training captions of the data (of equally frequent tags, the first in alphabetical
order), independent of context; a word that does not occur there has the tag X.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from numpy.random import Generator

from vlbench.data.category_words import singulars
from vlbench.data.records import Data, Split
from vlbench.data.spacy_pipelines import load_pipeline
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, TooFewRows
from vlbench.metrics.language_model import EDGES, words_of

NOUN, PUNCTUATION, UNKNOWN = "NOUN", "PUNCT", "X"

# Words are drawn from words that occur more often than this in the training captions, like the
# vocabulary of the paper's captioner.
RARE = 5

# The words of a caption in lower case, each with its universal part of speech.
Tagged = Sequence[tuple[str, str]]

# Maps texts in words to tags.
Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]


class NounSource(NamedTuple):
    """The source of parts of speech.

    `pipeline` is an installed spaCy pipeline (None: the tags of the data). `leave_out` are nouns
    that count as other words, such as nouns that do not denote a visible thing. `split` has the
    training captions.
    """

    pipeline: str | None = None
    leave_out: Sequence[str] = ()
    split: str = "train"


TAGGED_CAPTIONS = NounSource()


def without_punctuation(tagged: Tagged) -> list[tuple[str, str]]:
    """Return the words of a caption without punctuation."""
    return [(word, tag) for word, tag in tagged if tag != PUNCTUATION]


@dataclass(frozen=True)
class Nouns:
    """Which words of texts are nouns.

    `tags` has the most frequent tag of each word of the training captions, `counts` its number of
    occurrences. `tagger` tags words in context; None: only `tags` are used.
    """

    tags: Mapping[str, str]
    counts: Mapping[str, int]
    left_out: frozenset[str] = frozenset()
    tagger: Tagger | None = None

    def of_each(self, texts: Sequence[str]) -> list[list[tuple[int, str]]]:
        """Return the position of each noun among the words of each text, and the noun."""
        return [
            [(i, word) for i, (word, tag) in enumerate(tagged) if self._counts_as_noun(word, tag)]
            for tagged in self.tagged(texts)
        ]

    def tagged(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """Return the words of each text with their tags."""
        split = [words_of(text) for text in texts]
        tags = self.tagger(split) if self.tagger else [[self.tag(w) for w in ws] for ws in split]
        return [list(zip(*pair, strict=True)) for pair in zip(split, tags, strict=True)]

    def tag(self, word: str) -> str:
        """Return the most frequent tag of a lower-case word; PUNCT for an empty one."""
        return self.tags.get(word, UNKNOWN) if word else PUNCTUATION

    def is_noun(self, word: str) -> bool:
        """Return whether a lower-case word is most often a noun in the training captions."""
        return self._counts_as_noun(word, self.tag(word))

    def singular(self, word: str) -> str:
        """Return the singular of a noun if it is in the training captions, otherwise the noun."""
        return next((s for s in singulars(word)[1:] if self.is_noun(s)), word)

    def draw(self, count: int, refused: Iterable[str], rng: Generator) -> list[str]:
        """Draw `count` nouns of the vocabulary, none a form of another or of a refused noun.

        Raises TooFewRows if there are fewer.
        """
        drawn: dict[str, str] = {}
        taken = {self.singular(word) for word in refused}
        for i in rng.permutation(len(self.vocabulary)) if count else ():
            word = self.vocabulary[i]
            if (singular := self.singular(word)) not in taken:
                drawn.setdefault(singular, word)
            if len(drawn) == count:
                break
        if len(drawn) < count:
            vocabulary = f"the training captions have {len(self.vocabulary)} nouns"
            raise TooFewRows(
                f"{vocabulary}, too few to draw {count} nouns that an image does not show"
            )
        return list(drawn.values())

    @cached_property
    def vocabulary(self) -> list[str]:
        """The nouns that occur more than five times in the training captions, sorted."""
        return [word for word in self._frequent if self.is_noun(word)]

    @cached_property
    def other_words(self) -> list[str]:
        """The other words that occur more than five times, sorted."""
        return [word for word in self._frequent if not self.is_noun(word)]

    @property
    def _frequent(self) -> list[str]:
        return sorted(word for word, count in self.counts.items() if count > RARE)

    def _counts_as_noun(self, word: str, tag: str) -> bool:
        return tag == NOUN and word not in self.left_out


def find_nouns(data: Data, engine: Engine, source: NounSource = TAGGED_CAPTIONS) -> Nouns:
    """Return a noun finder for captions of the data.

    Raises DataAbsent for a pipeline that is not installed, and if there are neither a pipeline nor
    tagged captions.
    """
    rows = data.splits[source.split]
    left_out = frozenset(source.leave_out)
    if source.pipeline is None:
        return _nouns(_count_own_tags(rows), left_out)
    tagger, version = _spacy_tagger(source.pipeline)
    captions = rows["captions"]
    # spaCy is optional and imported by name: its version and the pipeline's version identify the
    # code.
    key = {"what": "tags", "tagger": version, "captions": [captions.key, list(captions.rows)]}
    counted = engine.once(key, lambda: _tag_counts(_tag_captions(tagger, captions)))
    return _nouns(counted, left_out, tagger)


def _nouns(
    counted: Mapping[str, Mapping[str, int]], left_out: frozenset[str], tagger: Tagger | None = None
) -> Nouns:
    tags = {word: max(sorted(by_tag), key=by_tag.__getitem__) for word, by_tag in counted.items()}
    counts = {word: sum(by_tag.values()) for word, by_tag in counted.items()}
    return Nouns(tags, counts, left_out, tagger)


def _count_own_tags(rows: Split) -> dict[str, dict[str, int]]:
    """Return how often each word of the data's tagged captions has each tag."""
    if "tags" not in rows.columns:
        what = "part-of-speech tags: the captions have none, and no spaCy pipeline is given"
        get = "`pip install spacy` and `python -m spacy download en_core_web_sm`"
        raise DataAbsent(what, get, "`nouns: {pipeline: en_core_web_sm}` of the task")
    return _tag_counts(
        (EDGES.sub("", word.lower()), tag)
        for split, tagged in zip(rows["words"], rows["tags"], strict=True)
        for words, tags in zip(split, tagged, strict=True)
        for word, tag in zip(words, tags, strict=True)
    )


def _tag_captions(tagger: Tagger, captions: Iterable[Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Yield the words of all captions with their tags."""
    split = [words_of(text) for of_image in captions for text in of_image]
    for words, tags in zip(split, tagger(split), strict=True):
        yield from zip(words, tags, strict=True)


def _tag_counts(tagged: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for (word, tag), count in Counter(tagged).items():
        if word:
            counts.setdefault(word, {})[tag] = count
    return counts


def _spacy_tagger(name: str) -> tuple[Tagger, list[str]]:
    """Return a tagger by a spaCy pipeline, and its versions."""
    spacy, pipeline = load_pipeline(name)
    tokens = importlib.import_module("spacy.tokens")

    def tag(texts: Sequence[Sequence[str]]) -> list[list[str]]:
        # Words are already tokenised: spaCy's tokens would not match positions.
        spoken = [[word for word in words if word] for words in texts]
        parsed = pipeline.pipe(tokens.Doc(pipeline.vocab, words=words) for words in spoken)
        return [_put_in_place(words, doc) for words, doc in zip(texts, parsed, strict=True)]

    return tag, [name, str(pipeline.meta.get("version")), str(spacy.__version__)]


def _put_in_place(words: Sequence[str], parsed: Iterable[Any]) -> list[str]:
    """Return the tags of all words; empty words were not parsed."""
    tags = iter([token.pos_ for token in parsed])
    return [next(tags) if word else PUNCTUATION for word in words]
