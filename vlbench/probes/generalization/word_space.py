"""Skip-gram with the frozen vectors of visual words. arXiv:2104.08313, section 5.

The vector of a visual word is the mean of its images' features (normalised), reduced by PCA; the
vectors of other words are trained (Mikolov et al. 2013, arXiv:1310.4546). `..._unconstrained` is
the same training without frozen words: the paper's baseline. It is not a floor, because it had the
best scores in the paper. If the paper and the code of its figures differ, the default follows the
code: the learning rate falls from 0.025 to 0.0001; each word has count 1 (2 for a visual word among
the frequent words), so that negative samples are uniform and no word is sub-sampled; PCA is fitted
on all images. Tokens are from gensim's `simple_preprocess`, as in its reader of Wikipedia: lower
case, 2 to 15 letters. Departures from the code: the models are in evaluation mode, and the last
visual word is used. `visual_word_accuracy` is the paper's check that the frozen vectors
discriminate images. The vectors are means of the same images; the floor `shuffled_labels` shows how
much of the accuracy is due to this. Departures: features are normalised before PCA, and all errors
count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Data, labels
from vlbench.data.word_files import read_pairs, read_questions
from vlbench.engine import Engine
from vlbench.engine.training import ONE_TRAINING
from vlbench.metrics.items import Items, Measured, class_options, outcome_of
from vlbench.metrics.scores import measure_items
from vlbench.probes.generalization.skip_gram import (
    DEFAULT_SKIP_GRAM,
    CorpusWords,
    FrozenVectors,
    SkipGram,
    read_vocabulary,
    word_vectors,
)
from vlbench.probes.generalization.visual_words import (
    VisualWords,
    nearest_words,
    nearest_words_of_shuffled_labels,
    visual_words,
)
from vlbench.probes.generalization.word_evaluation import (
    FEWEST_OF_ANALOGIES,
    Agreement,
    WordAnswers,
    analogies,
    keyed_vectors,
    similarity,
)
from vlbench.probes.generalization.word_similarity import FEWEST_PAIRS
from vlbench.results import Outcome, Positive, Score

KINDS = ("semantic", "morphology")

# Tests with fewer questions or pairs get a note.
FEW = 100


def word_space(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageEncoder,
    data: Annotated[Data, "test", "corpus", "analogies", "word_pairs"],
    engine: Engine,
    *,
    skip_gram: SkipGram = DEFAULT_SKIP_GRAM,
    vocabulary: Positive = 20_000,
    counts: Literal["one", "true"] = "one",
    pca: Literal["images", "classes"] = "images",
    corpus_fraction: float = 1.0,
    seed: int = 0,
) -> Outcome:
    """Return scores on analogies and on human similarity judgements, with and without frozen words.

    Raises DataError for a corpus without visual words, and the errors of `visual_words`.

    Args:
        skip_gram: gensim's `vector_size`, `epochs`, `window`, `negative`, `learning_rate`,
            `workers` (1: reproducible).
        vocabulary: number of most frequent words, 1 or more; the visual words are added.
        counts: counts of words in training: their `true` counts, or `one` for each word (two for a
            visual word among the frequent words).
        pca: data of the PCA of image features: `images`, or means of `classes`.
        corpus_fraction: fraction of the documents read, from the first on; above 0, up to 1.
        seed: seed of both trainings and of the floor.
    """
    _refuse(skip_gram, vocabulary, corpus_fraction)
    test, documents = data.splits["test"], data.splits["corpus"]["documents"]
    tests = _word_tests(data)
    features = engine.features(model.encode_images, test["image"])
    label, word = torch.from_numpy(labels(test)), list(test["word"])
    visual = visual_words(features, label, word, size=skip_gram.vector_size, fitted_on=pca)
    read = read_vocabulary(engine, documents, visual.words, vocabulary, corpus_fraction)
    counted = read._replace(counts=_counts(read, visual.words, vocabulary, counts))
    frozen = FrozenVectors(visual.words, visual.vectors)
    around = word_vectors(engine, documents, counted, skip_gram, seed, frozen)
    unconstrained = word_vectors(engine, documents, counted, skip_gram, seed)
    measured, notes = _evaluate(keyed_vectors(read.words, around), tests, "")
    without, _ = _evaluate(keyed_vectors(read.words, unconstrained), tests, "_unconstrained")
    choice = nearest_words(visual.images, visual.vectors, visual.right)
    shuffled = nearest_words_of_shuffled_labels(visual, seed)
    options = class_options(visual.words, visual.right)
    options = options._replace(majority={"majority_word": options.majority["majority_class"]})
    named = test["image"].select([i for i, name in enumerate(word) if name]).examples()
    floors = {"shuffled_labels": shuffled}
    items = Items("visual_word_accuracy", choice, named, options, floors)
    measured += [*without, measure_items(items)]
    sizes = _sizes(read, visual) | {
        "classes_without_word": len(
            {y for y, name in zip(label.tolist(), word, strict=True) if not name}
        ),
        "ties": int(choice.tied.sum()),
        "choices": len(choice.tied),
    }
    size = f"{read.documents} documents, {read.tokens} words"
    words = f"{sizes['visual_words_in_corpus']} of {len(visual.words)} visual words"
    notes = [f"corpus of {size}: it has {words}", *notes, ONE_TRAINING]
    sizes |= {f"questions_{kind}": n for kind, n in tests.questions.items()}
    sizes |= {f"pairs_{path.stem}": n for path, n in tests.pairs.items()}
    return outcome_of(measured, sizes, notes)


class _WordTests(NamedTuple):
    """The file of questions with their number per kind, and the files of pairs with their sizes."""

    file: Path
    questions: Mapping[str, int]
    pairs: Mapping[Path, int]


def _refuse(settings: SkipGram, vocabulary: int, fraction: float) -> None:
    size, epochs = settings.vector_size, settings.epochs
    if min(size, vocabulary, epochs) < 1 or not 0 < fraction <= 1:
        sizes = f"vector_size {size}, vocabulary {vocabulary}, epochs {epochs}"
        rule = f"all must be 1 or more; corpus_fraction {fraction}: above 0, up to 1"
        raise ValueError(f"{sizes}: {rule}")


def _word_tests(data: Data) -> _WordTests:
    file = data.splits["analogies"]["file"][0]
    questions = Counter(_kind(question.section) for question in read_questions(file))
    pairs = {path: len(read_pairs(path)) for path in data.splits["word_pairs"]["file"]}
    return _WordTests(file, {kind: questions[kind] for kind in KINDS}, pairs)


def _sizes(corpus: CorpusWords, visual: VisualWords) -> dict[str, int]:
    """Return the sizes of the corpus and of the vocabulary, for a row's counts."""
    count = dict(zip(corpus.words, corpus.counts, strict=True))
    return {
        "documents": corpus.documents,
        "tokens": corpus.tokens,
        "vocabulary": len(corpus.words),
        "visual_words": len(visual.words),
        "visual_words_in_corpus": sum(count[word] > 0 for word in visual.words),
    }


def _kind(section: str) -> str:
    return "morphology" if section.startswith("gram") else "semantic"


def _counts(corpus: CorpusWords, visual: Sequence[str], size: int, counts: str) -> list[int]:
    """Return the count of each word in training; a word that never occurs counts at least once."""
    if counts == "true":
        return [max(n, 1) for n in corpus.counts]
    frequent = {word for word, n in zip(corpus.words[:size], corpus.counts, strict=False) if n}
    twice = frequent.intersection(visual)
    return [1 + (word in twice) for word in corpus.words]


def _evaluate(vectors: Any, tests: _WordTests, suffix: str) -> tuple[list[Measured], list[str]]:
    """Return the scores of word vectors, and a note for each test with few usable items."""
    measured, notes = [], []
    answers = analogies(vectors, tests.file)
    for kind, total in tests.questions.items():
        parts = [counted for section, counted in answers.items() if _kind(section) == kind]
        correct = [question for part in parts for question in part.correct]
        pooled = WordAnswers(correct, [question for part in parts for question in part.incorrect])
        pairs = len({pair for both in pooled.pairs for pair in both})
        what = f"{pooled.total} of {total} {kind} questions, of {pairs} word pairs,"
        notes += _few(what, pooled.total, has_score=pairs >= FEWEST_OF_ANALOGIES)
        if pairs >= FEWEST_OF_ANALOGIES:
            measured.append(pooled.measured(_analogy(pooled, len(vectors), suffix, kind)))
    for path, total in tests.pairs.items():
        agreement = similarity(vectors, path)
        what = f"{agreement.pairs} of {total} pairs of {path.stem}"
        notes += _few(what, agreement.pairs, has_score=agreement.pairs >= FEWEST_PAIRS)
        measured += map(Measured, _agreement(agreement, suffix, path.stem))
    return measured, notes


def _few(what: str, n: int, *, has_score: bool) -> list[str]:
    without = "" if has_score else ": no score"
    return [f"only {what} have all words in the vocabulary{without}"] if n < FEW else []


def _analogy(answers: WordAnswers, words: int, suffix: str, kind: str) -> Score:
    # The three given words of a question are not candidates.
    return Score(
        metric=f"analogy_accuracy{suffix}",
        at={"section": kind},
        n=answers.total,
        chance=1 / (words - 3),
        floors={"majority_answer": max(answers.wanted.values()) / answers.total},
        **answers.estimate._asdict(),
    )


def _agreement(agreement: Agreement, suffix: str, pairs: str) -> list[Score]:
    estimates = {"pearson": agreement.pearson, "spearman": agreement.spearman}
    return [
        Score(
            metric=f"word_pair_{name}{suffix}",
            at={"pairs": pairs},
            n=agreement.pairs,
            chance=0.0,
            unit="correlation",
            **estimate._asdict(),
        )
        for name, estimate in estimates.items()
        if estimate
    ]
