from itertools import pairwise

import numpy as np
import pytest
from fakes import ConstantModel, ReadsTheLabel, labelled_images
from gensim.models import Word2Vec
from scoring import values

from vlbench.data.corpora import WordTests, with_corpus
from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.probes.generalization.skip_gram import SkipGram
from vlbench.probes.generalization.word_space import word_space

NAMES = ["dog", "boat", "chair"]
OTHERS = ["ape", "bee", "cow", "doe", "elk", "fox", "gnu", "hen"]
PAIRS = [f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(pairwise([*OTHERS, "dog"]))]
# Eleven word pairs but for that with eel, which is no word of the corpus.
QUESTIONS = """\
: family
ape bee cow doe
ape bee cow DOG
ape bee cow eel
cow doe elk fox
elk fox gnu hen
bee cow doe elk
fox gnu hen ape
ape cow bee doe
: gram1
elk fox gnu eel
"""
SMALL = {"vector_size": 2, "vocabulary": 10, "epochs": 2}


def data(folder, text=None, names=NAMES):
    """Return 3 x 4 test images, with a corpus in which ten of the eleven words occur."""
    rng = np.random.default_rng(0)
    lines = rng.choice([*OTHERS, "dog", "boat"], (40, 12))
    (folder / "corpus.txt").write_text(text or "\n".join(" ".join(line) for line in lines))
    (folder / "questions.txt").write_text(QUESTIONS)
    (folder / "pairs.txt").write_text("\n".join(PAIRS))
    (folder / "few.txt").write_text("ape\tbee\t1\neel\tape\t2")
    images = labelled_images(4, 4, 4, classes=NAMES)
    words = [names[label] for label in labels(images.splits["test"]).tolist()]
    pairs = [folder / "pairs.txt", folder / "few.txt"]
    tests = WordTests(folder / "corpus.txt", folder / "questions.txt", pairs)
    return with_corpus(images, words, tests)


def probe(model, given, **params):
    """Return the outcome; settings of skip-gram may stand beside the probe's own."""
    params = SMALL | params
    settings = SkipGram(**{name: params.pop(name) for name in SkipGram._fields if name in params})
    return word_space(model, given, Engine.for_tests(), skip_gram=settings, **params)


def by_gensim(folder, counts):
    """Return the model that gensim trains with no word frozen."""
    lines = [line.split() for line in (folder / "corpus.txt").read_text().splitlines()]
    model = Word2Vec(vector_size=2, sg=1, min_count=1, workers=1, seed=0)
    model.build_vocab_from_freq(counts)
    model.train(lines, total_examples=len(lines), epochs=2)
    return model.wv


def frequent(folder, n=10):
    words = (folder / "corpus.txt").read_text().split()
    return sorted(dict.fromkeys(words), key=lambda word: -words.count(word))[:n]


def every_word(folder):
    return frequent(folder) + [n for n in sorted(NAMES) if n not in frequent(folder)]


@pytest.mark.parametrize("vocabulary", [10, 500])
def test_the_baseline_scores_what_gensim_says(tmp_path, vocabulary):
    found = probe(ConstantModel(), data(tmp_path), vocabulary=vocabulary)
    words = every_word(tmp_path)
    twice = {name for name in NAMES if name in frequent(tmp_path)}
    vectors = by_gensim(tmp_path, {word: 1 + (word in twice) for word in words})
    pearson, spearman, _ = vectors.evaluate_word_pairs(str(tmp_path / "pairs.txt"))
    for name, own in (("pearson", pearson[0]), ("spearman", spearman[0])):
        value = values(found)[f"word_pair_{name}_unconstrained", "pairs"]
        assert value == pytest.approx(own, abs=1e-6)
    score, _ = vectors.evaluate_word_analogies(str(tmp_path / "questions.txt"))
    assert values(found)["analogy_accuracy_unconstrained", "semantic"] == score


def test_an_analogy_has_the_floor_of_its_most_frequent_answer(tmp_path):
    given = data(tmp_path)
    asked = QUESTIONS.replace("DOG", "DOG\nbee ape cow doe")
    (tmp_path / "questions.txt").write_text(asked)
    found = {(s.metric, *s.at.values()): s for s in probe(ConstantModel(), given).scores}
    for metric in ("analogy_accuracy", "analogy_accuracy_unconstrained"):
        # doe three times; eel is no word of the corpus
        assert found[metric, "semantic"].n == 8
        assert found[metric, "semantic"].floors == {"majority_answer": pytest.approx(3 / 8)}


def test_analogies_of_fewer_than_ten_word_pairs_have_no_score(tmp_path):
    given = data(tmp_path)
    asked = QUESTIONS.replace("ape cow bee doe\n", "")
    (tmp_path / "questions.txt").write_text(asked)
    outcome = probe(ConstantModel(), given)
    assert not [score for score in outcome.scores if score.metric.startswith("analogy")]
    note = "only 6 of 7 semantic questions, of 9 word pairs, have all words in the vocabulary"
    assert f"{note}: no score" in outcome.notes


def test_words_may_count_as_often_as_they_occur(tmp_path):
    found = probe(ConstantModel(), data(tmp_path), counts="true")
    text = (tmp_path / "corpus.txt").read_text().split()
    words = every_word(tmp_path)
    vectors = by_gensim(tmp_path, {word: max(text.count(word), 1) for word in words})
    pearson, _, _ = vectors.evaluate_word_pairs(str(tmp_path / "pairs.txt"))
    value = values(found)["word_pair_pearson_unconstrained", "pairs"]
    assert value == pytest.approx(pearson[0], abs=1e-6)


def test_a_constant_model_finds_visual_words_by_chance(tmp_path):
    outcome = probe(ConstantModel(), data(tmp_path))
    score = outcome.scores[-1]
    assert (score.metric, score.n) == ("visual_word_accuracy", 12)
    assert score.value == pytest.approx(1 / 3)
    assert score.chance == 1 / 3
    assert score.floors == pytest.approx({"majority_word": 1 / 3, "shuffled_labels": 1 / 3})
    assert outcome.counts["ties"] == 12


def test_a_model_that_reads_the_label_finds_every_visual_word(tmp_path):
    outcome = probe(ReadsTheLabel(), data(tmp_path))
    assert values(outcome)["visual_word_accuracy",] == 1
    assert probe(ReadsTheLabel(), data(tmp_path)) == outcome


def test_vectors_around_frozen_words_depend_on_the_model_and_others_do_not(tmp_path):
    one, other = (values(probe(m, data(tmp_path))) for m in (ConstantModel(), ReadsTheLabel()))
    alone = [key for key in one if key[0].endswith("_unconstrained")]
    assert {key: one[key] for key in alone} == {key: other[key] for key in alone}
    assert one["word_pair_pearson", "pairs"] != other["word_pair_pearson", "pairs"]


WITHOUT = "have all words in the vocabulary: no score"


def test_a_row_notes_how_few_words_are_left(tmp_path):
    outcome = probe(ReadsTheLabel(), data(tmp_path))
    assert outcome.notes == [
        "corpus of 40 documents, 480 words: it has 2 of 3 visual words",
        "only 7 of 8 semantic questions, of 11 word pairs, have all words in the vocabulary",
        f"only 0 of 1 morphology questions, of 0 word pairs, {WITHOUT}",
        "only 8 of 8 pairs of pairs have all words in the vocabulary",
        "only 1 of 2 pairs of few have all words in the vocabulary: no score",
        "one training: intervals leave out the variation between seeds",
    ]
    assert not [key for key in values(outcome) if key[1:] in {("morphology",), ("few",)}]
    assert outcome.counts["questions_semantic"] == 8
    assert outcome.counts["visual_words_in_corpus"] == 2


def test_a_class_without_a_word_is_counted(tmp_path):
    outcome = probe(ReadsTheLabel(), data(tmp_path, names=["dog", "", "chair"]))
    assert outcome.counts["classes_without_word"] == 1
    assert (outcome.counts["visual_words"], outcome.scores[-1].n) == (2, 8)


@pytest.mark.parametrize(
    "params", [{"epochs": 0}, {"corpus_fraction": 0.0}, {"corpus_fraction": 1.1}]
)
def test_nothing_to_train_on_is_refused(tmp_path, params):
    why = r"must be 1 or more; corpus_fraction .*: above 0, up to 1"
    with pytest.raises(ValueError, match=why):
        probe(ReadsTheLabel(), data(tmp_path), **params)
