import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import vlbench
from vlbench.capabilities import TokenVectors
from vlbench.data.records import Data, Split, value_column
from vlbench.data.word_pairs import gensim_word_pairs
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.probes.generalization.word_similarity import (
    agreement,
    covers,
    spearman,
    word_similarity,
)

ENGINE = Engine.for_tests()


def pairs_data(rows):
    first, second, scores = zip(*rows, strict=True)
    columns = {"word_a": value_column(first, "text"), "word_b": value_column(second, "text")}
    return Data(splits={"test": Split({**columns, "score": value_column(scores)})})


class Texts:
    """Encodes the words of a table, each as a text."""

    def __init__(self, table):
        self.table = table

    def encode_texts(self, texts):
        return torch.stack([self.table[text] for text in texts])


class Tokens:
    """Encodes the words that the table has, each as one token."""

    def __init__(self, table):
        self.table = table

    def encode_tokens(self, texts):
        return [
            TokenVectors([(0, len(text))], self.table[text][None])
            if text in self.table
            else TokenVectors([], torch.empty(0, 3))
            for text in texts
        ]


def measured(model, data, **params):
    outcome = word_similarity(model, data, ENGINE, **params)
    return outcome.scores[0], outcome


@pytest.fixture
def planted():
    """Words in a plane, and pairs whose human score is their cosine, in other units."""
    rng = np.random.default_rng(0)
    angles = {f"w{i}": float(a) for i, a in enumerate(rng.uniform(0, np.pi, 40))}
    names = list(angles)
    drawn = [rng.choice(names, 2, replace=False).tolist() for _ in range(120)]
    rows = [(a, b, 5 + 5 * float(np.cos(angles[a] - angles[b])) ** 3) for a, b in drawn]
    return {w: torch.tensor([np.cos(a), np.sin(a)]).float() for w, a in angles.items()}, rows


@pytest.mark.parametrize("levels", [3, 1000])
def test_the_correlation_is_scipys_with_and_without_ties(levels):
    rng = np.random.default_rng(0)
    one = rng.integers(0, levels, 200).astype(float)
    other = one + rng.integers(0, levels, 200)
    assert spearman(one, other) == pytest.approx(spearmanr(one, other)[0], abs=1e-12)


def test_a_model_that_knows_the_truth_scores_1_and_its_opposite_minus_1(planted):
    table, rows = planted
    score, outcome = measured(Texts(table), pairs_data(rows))
    assert (score.value, score.n, outcome.counts["pairs_left_out"]) == (pytest.approx(1), 120, 0)
    assert score.ci95[0] > 0.9
    assert score.floors["word_permutations"] < 0.4
    opposite = pairs_data([(a, b, -s) for a, b, s in rows])
    assert measured(Texts(table), opposite)[0].value == pytest.approx(-1)


def test_length_of_vectors_does_not_matter(planted):
    table, rows = planted
    longer = {word: vector * (1 + i) for i, (word, vector) in enumerate(table.items())}
    noisy = pairs_data([(a, b, s + (i % 5)) for i, (a, b, s) in enumerate(rows)])
    one, other = (measured(Texts(t), noisy)[0] for t in (table, longer))
    assert 0.5 < one.value < 0.99
    assert other.value == pytest.approx(one.value, abs=1e-3)
    # A zero vector has cosine 0 with all.
    assert measured(Texts({**table, "w0": torch.zeros(2)}), pairs_data(rows))[0].value < 1


def test_pairs_with_an_unknown_word_are_left_out_and_counted(planted):
    table, rows = planted
    known = {word: vector for word, vector in table.items() if word not in {"w0", "w1"}}
    score, outcome = measured(Tokens(known), pairs_data(rows))
    left = sum(bool({"w0", "w1"} & {a, b}) for a, b, _ in rows)
    counts = {"n": 120 - left, "pairs_left_out": left, "words": 40, "words_without_vector": 2}
    assert (score.n, outcome.counts) == (120 - left, counts)
    assert score.value == pytest.approx(1)
    assert outcome.notes == [f"{left} of 120 pairs are left out: a word has no vector"]


def test_too_few_pairs_or_vectors_are_told(planted):
    table, rows = planted
    with pytest.raises(TooFewRows, match="3 word pairs; a split needs 4 rows or more"):
        word_similarity(Texts(table), pairs_data(rows[:3]), ENGINE)
    with pytest.raises(CannotDo, match="both words of 0 of 120 pairs; a correlation needs 4"):
        word_similarity(Tokens({"w0": table["w0"]}), pairs_data(rows), ENGINE)


def test_the_floor_is_drawn_with_the_seed(planted):
    table, rows = planted
    floors = [measured(Texts(table), pairs_data(rows), seed=s)[0].floors for s in (0, 0, 1)]
    assert floors[0] == floors[1] != floors[2]


def test_a_word_is_covered_where_tokens_have_all_its_letters():
    assert covers([(0, 3), (4, 8)], "ice-skat")
    assert not covers([(4, 8)], "ice-skat")
    assert not covers([], "-")


def test_the_interval_is_wider_where_pairs_share_words():
    rng = np.random.default_rng(0)
    hub = np.stack([rng.integers(0, 8, 200), rng.integers(8, 16, 200)], 1)
    effect = rng.normal(size=(2, 16))
    alike, human = (e[hub].sum(1) + rng.normal(size=200) for e in (effect[0], effect.sum(0)))
    apart = np.arange(400).reshape(200, 2)
    shared, alone = agreement(alike, human, hub), agreement(alike, human, apart)
    assert shared.value == alone.value
    assert shared.stderr > 1.2 * alone.stderr


def test_independent_pairs_have_about_fishers_interval():
    rng = np.random.default_rng(0)
    alike = rng.normal(size=400)
    human = alike + rng.normal(size=400)
    found = agreement(alike, human, np.arange(800).reshape(400, 2))
    assert found.stderr == pytest.approx((1 - found.value**2) * (1.06 / 397) ** 0.5, rel=0.25)


@pytest.mark.parametrize("task", ["word_similarity_wordsim353", "word_similarity_simlex999"])
def test_controls_score_chance_on_the_shipped_tasks(task):
    for model in ("constant", "random-scores"):
        (result,) = vlbench.evaluate(model, task, device="cpu")
        (score,) = result.scores
        assert result.status == "ok"
        assert score.ci95[0] < 0 < score.ci95[1]


def test_a_model_of_images_alone_is_skipped():
    (result,) = vlbench.evaluate("raw-pixels", "word_similarity_wordsim353")
    assert result.status == "skipped"
    assert "TextEncoder" in result.reason
    assert "TokenEncoder" in result.reason


def test_the_correlation_over_wordsim_is_scipys():
    test = gensim_word_pairs(name="wordsim353").splits["test"]
    rng = torch.Generator().manual_seed(0)
    words = sorted({*test["word_a"], *test["word_b"]})
    table = dict(zip(words, torch.randn(len(words), 8, generator=rng), strict=True))
    alike = [
        float(torch.cosine_similarity(table[a].double(), table[b].double(), dim=0))
        for a, b in zip(test["word_a"], test["word_b"], strict=True)
    ]
    score, _ = measured(Texts(table), gensim_word_pairs(name="wordsim353"))
    assert score.value == pytest.approx(spearmanr(alike, list(test["score"]))[0], abs=1e-6)


def test_cosines_that_differ_only_by_rounding_are_ties():
    table = {
        word: torch.rand(50, generator=torch.Generator().manual_seed(i))
        for i, word in enumerate("abcdefgh")
    }
    rows = [(word, word, float(i)) for i, word in enumerate("abcdefgh")] + [
        ("a", "b", -1.0),
        ("b", "c", -2.0),
    ]
    score, _ = measured(Texts(table), pairs_data(rows))
    unit = {word: vector.numpy() / np.linalg.norm(vector) for word, vector in table.items()}
    alike = [1.0] * 8 + [unit[a] @ unit[b] for a, b, _ in rows[8:]]
    assert score.value == pytest.approx(
        spearmanr(alike, [human for *_, human in rows])[0], abs=1e-9
    )
