from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from gensim.test.utils import datapath
from scipy.stats import pearsonr

from vlbench.probes.generalization.word_evaluation import (
    WordAnswers,
    analogies,
    keyed_vectors,
    similarity,
)
from vlbench.results import Score

PAIRS = Path(datapath("wordsim353.tsv"))
QUESTIONS = Path(datapath("questions-words.txt"))


def random_vectors(words):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(len(words), 8, generator=rng)


def by_gensim(words, vectors):
    found = KeyedVectors(vectors.shape[1])
    found.add_vectors(words, vectors.numpy())
    return found


def put(folder, *lines):
    (folder / "file.txt").write_text("\n".join(lines))
    return folder / "file.txt"


def test_pairs_agree_as_gensim_says():
    lines = [line.split("\t")[:2] for line in PAIRS.read_text().splitlines() if line[0] != "#"]
    lower = sorted({word.lower() for line in lines for word in line})[:300]
    vectors = random_vectors(lower)
    found = similarity(keyed_vectors(lower, vectors), PAIRS)
    pearson, spearman, missing = by_gensim(lower, vectors).evaluate_word_pairs(str(PAIRS))
    values = (found.pearson.value, found.spearman.value)
    assert values == pytest.approx((pearson[0], spearman[0]), abs=1e-6)
    assert found.pairs == round(353 * (1 - missing / 100)) < 353


@pytest.mark.parametrize("header", [[], ["word1,word2,score"]])
def test_pairs_of_a_csv_agree_as_those_of_tabs(tmp_path, header):
    tabbed = ["a\tb\t1", "a\tc\t2", "b\tc\t3", "a\td\t4.5", "b\td\t0", "a\tunknown\t4"]
    lines = [*header, *(line.replace("\t", ",") for line in tabbed)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    vectors = keyed_vectors([*"abcd"], random_vectors([*"abcd"]))
    found = similarity(vectors, tmp_path / "pairs.csv")
    assert found == similarity(vectors, put(tmp_path, *tabbed))
    assert found.pairs == 5
    few = similarity(vectors, put(tmp_path, *tabbed[:3]))
    assert few == (None, None, 3)


def test_the_interval_is_the_jackknifes_over_words(tmp_path):
    # No word occurs in two pairs: these are independent, so that Fisher's interval holds.
    rng, n = np.random.default_rng(0), 300
    words = [f"w{i}" for i in range(2 * n)]
    vectors = torch.from_numpy(rng.normal(size=(2 * n, 4))).float()
    units = torch.nn.functional.normalize(vectors, dim=1)
    cosines = (units[::2] * units[1::2]).sum(1).numpy()
    judged = cosines + rng.normal(size=n) * cosines.std()
    lines = [f"w{2 * i}\tw{2 * i + 1}\t{judged[i]:.6f}" for i in range(n)]
    found = similarity(keyed_vectors(words, vectors), put(tmp_path, *lines)).pearson
    expected = pearsonr(cosines, judged).confidence_interval()
    assert found.ci95 == pytest.approx((expected.low, expected.high), abs=0.03)


def test_equal_vectors_score_chance():
    lines = [line.split("\t")[:2] for line in PAIRS.read_text().splitlines() if line[0] != "#"]
    lower = sorted({word.lower() for line in lines for word in line})
    found = similarity(keyed_vectors(lower, torch.ones(len(lower), 3)), PAIRS)
    assert (found.pearson.value, found.spearman.value) == (0.0, 0.0)


def test_analogies_are_answered_as_by_gensim():
    lines = [line.split() for line in QUESTIONS.read_text().splitlines() if line[0] != ":"]
    lower = sorted({word.lower() for line in lines for word in line})[:150]
    vectors = random_vectors(lower)
    _, sections = by_gensim(lower, vectors).evaluate_word_analogies(str(QUESTIONS))
    expected = {s["section"]: (len(s["correct"]), len(s["incorrect"])) for s in sections[:-1]}
    found = analogies(keyed_vectors(lower, vectors), QUESTIONS)
    assert {k: (a.right, a.total - a.right) for k, a in found.items()} == expected
    assert sum(a.total for a in found.values()) > 100


def test_the_difference_of_two_words_carries_over(tmp_path):
    places = {"man": [1, 0, 0], "woman": [1, 1, 0], "king": [1, 0, 1], "queen": [1, 1, 1]}
    questions = put(tmp_path, ": gram1", "Man Woman King Queen", "man woman king unknown")
    vectors = torch.tensor(list(places.values())).float()
    found = analogies(keyed_vectors(list(places), vectors), questions)
    assert found == {"gram1": WordAnswers([("MAN", "WOMAN", "KING", "QUEEN")], [])}
    # A word at zero is like no other.
    vectors[-1] = 0
    assert analogies(keyed_vectors(list(places), vectors), questions)["gram1"].total == 1


def test_what_is_asked_for_is_counted_whether_or_not_it_is_found(tmp_path):
    words = ["a", "b", "c", "d"]
    questions = put(tmp_path, ": s", "a b c d", "b a c d", "a b d c", "a b c unknown")
    found = analogies(keyed_vectors(words, random_vectors(words)), questions)["s"]
    assert (found.wanted, found.total) == (Counter(D=2, C=1), 3)


def test_each_question_is_an_item_and_one_asked_again_is_numbered():
    found = WordAnswers([("A", "B", "C", "D"), ("A", "B", "C", "D")], [("B", "A", "C", "E")])
    rows = found.measured(Score("analogy_accuracy", 2 / 3, 3)).items.to_pylist()
    assert [(row["id"], row["credit"], row["prediction"], row["target"]) for row in rows] == [
        ("A B C D", 1.0, "D", "D"), ("A B C D #2", 1.0, "D", "D"), ("B A C E", 0.0, None, "E")
    ]  # fmt: skip
    assert [row["cluster"] for row in rows] == ["A B\tC D", "A B\tC D", "B A\tC E"]


def test_a_question_leaves_with_either_of_its_word_pairs():
    # Of the questions among three pairs, those of the first two are right: a third.
    pairs = [("A", "B"), ("C", "D"), ("E", "F")]
    first, *others = [one + other for one, other in permutations(pairs, 2)]
    (right,) = [one for one in others if one == pairs[1] + pairs[0]]
    wrong = [one for one in others if one != right]
    found = WordAnswers([first, right], wrong).estimate
    # Without one of the three, 0, 0 and 1: variance 2/3 of 2/3. Both orders are one of three parts
    # of the mean: 2/3, -1/3 and -1/3 by 3, which are counted twice.
    assert found.value == pytest.approx(1 / 3)
    assert found.stderr == pytest.approx((4 / 9 - 2 / 27) ** 0.5)
