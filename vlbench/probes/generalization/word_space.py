"""Skip-gram whose visual words stay where a model sees them. arXiv:2104.08313, section 5.

The word of a class stands at the mean of its images' features (of length one), reduced by PCA; the
other words learn around it (Mikolov et al. 2013, arXiv:1310.4546). `..._unconstrained` is the same
training with no word held: the paper's baseline, no floor, since it was the best of all.
By default as in the code that made the paper's figures, where the two differ: the learning rate
falls from 0.025 to 0.0001; each word counts once (a visual word among the frequent ones, twice), so
that negative samples are uniform and nothing is sub-sampled; PCA is fitted on all images. Tokens
are gensim's `simple_preprocess`, as in its reader of Wikipedia: lower case, 2 to 15 letters.
Departures from the code: the models are in evaluation mode, and the last visual word is kept.
`visual_word_accuracy` is the paper's check that the held vectors tell images apart: the very images
that they are means of, so the floor `shuffled_labels` shows what that alone brings. Departures:
features are normalised before PCA, and all errors count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Data, labels
from vlbench.data.word_files import read_pairs, read_questions
from vlbench.engine import Engine
from vlbench.metrics.ranking import Choice
from vlbench.metrics.statistics import wilson
from vlbench.metrics.word_vectors import (
    FEWEST_PAIRS,
    Agreement,
    Answers,
    analogies,
    keyed,
    similarity,
)
from vlbench.probes.generalization.words.skip_gram import (
    Recipe,
    Vocabulary,
    read_vocabulary,
    word_vectors,
)
from vlbench.probes.generalization.words.visual_words import Seen, see, tell, tell_dealt
from vlbench.results import Outcome, Score

KINDS = ("semantic", "morphology")

# Fewer questions or pairs than this are noted in the row.
FEW = 100


def word_space(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageEncoder,
    data: Data,
    engine: Engine,
    *,
    vector_size: int = 300,
    vocabulary: int = 20_000,
    epochs: int = 5,
    window: int = 5,
    negative: int = 5,
    learning_rate: float = 0.025,
    counts: Literal["one", "true"] = "one",
    pca: Literal["images", "classes"] = "images",
    corpus_share: float = 1.0,
    workers: int = 1,
    seed: int = 0,
) -> Outcome:
    """Return how well words answer analogies and fit judged pairs, with visual words held and free.

    `vocabulary` is the number of most frequent words, to which the visual words are added. Raises
    DataError for a corpus that has none of the visual words, and what `see` raises.
    """
    _refuse(vector_size, vocabulary, epochs, corpus_share)
    recipe = Recipe(vector_size, epochs, window, negative, learning_rate, workers, seed)
    test, documents = data.splits["test"], data.splits["corpus"]["documents"]
    tests = _tests(data)
    features = engine.features(model.encode_images, test["image"])
    label, word = torch.from_numpy(labels(test)), list(test["word"])
    seen = see(features, label, word, size=vector_size, fitted_on=pca)
    found = read_vocabulary(engine, documents, seen.words, vocabulary, corpus_share)
    counted = found._replace(counts=_counts(found, seen.words, vocabulary, counts))
    held = word_vectors(engine, documents, counted, recipe, seen.words, seen.vectors)
    free = word_vectors(engine, documents, counted, recipe)
    scores, notes = _judge(keyed(found.words, held), tests, "")
    scores += _judge(keyed(found.words, free), tests, "_unconstrained")[0]
    known = dict(zip(found.words, found.counts, strict=True))
    here = sum(known[one] > 0 for one in seen.words)
    told = tell(seen.images, seen.vectors, seen.right)
    scores.append(_told(told, tell_dealt(seen, seed), seen))
    size = f"{found.documents} documents, {found.tokens} words"
    notes = [f"corpus of {size}: it has {here} of {len(seen.words)} visual words", *notes]
    sizes = {
        "documents": found.documents,
        "tokens": found.tokens,
        "vocabulary": len(found.words),
        "visual_words": len(seen.words),
        "visual_words_in_corpus": here,
        "classes_without_word": len(
            {y for y, one in zip(label.tolist(), word, strict=True) if not one}
        ),
        "ties": int(told.tied.sum()),
    }
    return Outcome(scores=scores, counts=sizes | _sizes(tests), notes=notes)


class _Tests(NamedTuple):
    """The files of questions and pairs, and how many there are of each."""

    questions: Path
    asked: Mapping[str, int]
    pairs: Mapping[Path, int]


def _refuse(size: int, vocabulary: int, epochs: int, share: float) -> None:
    if min(size, vocabulary, epochs) < 1 or not 0 < share <= 1:
        given = f"vector_size {size}, vocabulary {vocabulary}, epochs {epochs}"
        raise ValueError(f"{given}: all must be 1 or more; corpus_share {share}: above 0, up to 1")


def _tests(data: Data) -> _Tests:
    questions = data.splits["analogies"]["file"][0]
    asked = Counter(_kind(question.section) for question in read_questions(questions))
    pairs = {path: len(read_pairs(path)) for path in data.splits["word_pairs"]["file"]}
    return _Tests(questions, {kind: asked[kind] for kind in KINDS}, pairs)


def _sizes(tests: _Tests) -> dict[str, int]:
    questions = {f"questions_{kind}": n for kind, n in tests.asked.items()}
    return questions | {f"pairs_{path.stem}": n for path, n in tests.pairs.items()}


def _kind(section: str) -> str:
    return "morphology" if section.startswith("gram") else "semantic"


def _counts(found: Vocabulary, held: Sequence[str], size: int, counts: str) -> list[int]:
    """Return how often each word counts: a word that never occurs must count for something."""
    if counts == "true":
        return [max(n, 1) for n in found.counts]
    frequent = {word for word, n in zip(found.words[:size], found.counts, strict=False) if n}
    twice = frequent.intersection(held)
    return [1 + (word in twice) for word in found.words]


def _judge(vectors: Any, tests: _Tests, suffix: str) -> tuple[list[Score], list[str]]:
    """Return the scores of word vectors, and a note for each test of which few or none is left."""
    scores, notes = [], []
    answers = analogies(vectors, tests.questions)
    for kind, total in tests.asked.items():
        right, asked = (sum(n) for n in zip(Answers(0, 0), *_of(kind, answers), strict=True))
        notes += _few(f"{asked} of {total} {kind} questions", asked, 1)
        scores += [_analogy(right, asked, len(vectors), suffix, kind)] if asked else []
    for path, total in tests.pairs.items():
        agreement = similarity(vectors, path)
        notes += _few(
            f"{agreement.pairs} of {total} pairs of {path.stem}", agreement.pairs, FEWEST_PAIRS
        )
        scores += _agreement(agreement, suffix, path.stem)
    return scores, notes


def _few(what: str, n: int, least: int) -> list[str]:
    without = "" if n >= least else ": no score"
    return [f"only {what} have all words in the vocabulary{without}"] if n < FEW else []


def _of(kind: str, answers: Mapping[str, Answers]) -> list[Answers]:
    return [found for section, found in answers.items() if _kind(section) == kind]


def _analogy(right: int, asked: int, words: int, suffix: str, kind: str) -> Score:
    # The three words of a question are no candidates.
    return Score(
        metric=f"analogy_accuracy{suffix}",
        at={"section": kind},
        n=asked,
        chance=1 / (words - 3),
        **wilson(right, asked)._asdict(),
    )


def _agreement(found: Agreement, suffix: str, pairs: str) -> list[Score]:
    estimates = {"pearson": found.pearson, "spearman": found.spearman}
    return [
        Score(
            metric=f"word_pair_{name}{suffix}",
            at={"pairs": pairs},
            n=found.pairs,
            chance=0.0,
            unit="correlation",
            **estimate._asdict(),
        )
        for name, estimate in estimates.items()
        if estimate
    ]


def _told(told: Choice, dealt: Choice, seen: Seen) -> Score:
    n = len(seen.right)
    return Score(
        metric="visual_word_accuracy",
        n=n,
        chance=1 / len(seen.words),
        floors={
            "majority_word": int(seen.right.bincount().amax()) / n,
            "shuffled_labels": float(dealt.credit.mean()),
        },
        **wilson(float(told.credit.sum()), n)._asdict(),
    )
