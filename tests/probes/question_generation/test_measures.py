import numpy as np
import pytest
from question_fakes import toy_world

from vlbench.errors import DataError
from vlbench.metrics.questions import QuestionMetrics
from vlbench.probes.question_generation.measures import (
    Measured,
    Measures,
    System,
    pooled,
    score_of,
)
from vlbench.probes.question_generation.reading import asked

NAMES = ["noun_accuracy", "distinct_questions", "questions_seen_in_training", "question_length"]


def words_right(right, words):
    """Return statistics of BLEU-1 of an image, whose reference has as many words."""
    return [*(right, 0.0, 0.0, 0.0), *(words, 0.0, 0.0, 0.0), *(words, words)]


@pytest.fixture(scope="module")
def splits():
    data = toy_world(6, 3)
    test = asked(data.splits["test"], ["names"])._replace(
        questions=[["a b c d ?", "a b c d !"], ["q r s t ?"], ["k l m n ?", "k l m o ?"]]
    )
    return test, asked(data.splits["train"], ["names"])


@pytest.fixture(scope="module")
def metrics():
    with QuestionMetrics(["bleu_1", "cider"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def measures(splits, metrics):
    return Measures(metrics, *splits)


def test_plain_measures_are_counted_by_hand(measures):
    told = ["What is the thing0?", "what is the thing0 ?", "is thing1 here"]
    found = measures(System("2", "", [told])).statistics
    values = {name: found[name][0, :, 0].tolist() for name in NAMES}
    assert values == {
        "noun_accuracy": [1.0, 0.0, 0.0],
        "distinct_questions": [0.5, 0.5, 1.0],
        "questions_seen_in_training": [1.0, 1.0, 0.0],
        "question_length": [5.0, 5.0, 3.0],
    }


def test_images_whose_things_nobody_names_have_no_noun_accuracy(splits, metrics):
    test, train = splits
    plain = Measures(metrics, test._replace(names=[frozenset()] * 3), train)
    assert "noun_accuracy" not in plain(System("2", "", [["a ?"] * 3])).statistics


def test_a_seed_is_measured_by_its_own_questions_in_their_order(measures):
    turns = [["a b c d ?", "q r", "k l m n ?"], ["x y", "Q R S T?", "k l m o ?"]]
    found = measures(System("2", "", turns))
    assert found.statistics["bleu_1"].shape == (2, 3, 10)
    right, words = (found.statistics["bleu_1"][:, :, k].tolist() for k in (0, 4))
    assert right == [[5, 2, 5], [0, 5, 5]]
    assert words == [[5, 2, 5], [2, 5, 5]]
    # 5 + 2 + 5 + 0 + 5 + 5 of 24 words are right, and six words fewer than 30 are said.
    assert found.value("bleu_1") == pytest.approx(22 / 24 * np.exp(1 - 30 / 24))


def test_people_are_scored_against_their_other_questions(measures):
    people = measures.people()
    # The image with one question is left out; BLEU-1 of the first: four words of five.
    assert people.system.questions == [["a b c d ?", "k l m n ?"], ["a b c d !", "k l m o ?"]]
    assert people.statistics["bleu_1"].shape == (2, 2, 10)
    assert people.statistics["bleu_1"][0, :, 0].tolist() == [4.0, 4.0]
    assert "questions_seen_in_training" not in people.statistics


def test_people_take_turns_where_an_image_has_fewer_questions(splits, metrics):
    test, train = splits
    given = [["a ?", "b ?", "c ?"], ["d ?", "d ?"], ["e ?", "f ?"]]
    people = Measures(metrics, test._replace(questions=given), train).people()
    # The second image has the same question twice, which is one question.
    assert people.system.questions == [["a ?", "e ?"], ["b ?", "f ?"], ["c ?", "e ?"]]
    # The only mark in common: c against a and b.
    assert people.statistics["bleu_1"][:, :, 0].tolist() == [[1, 1]] * 3


def test_one_image_of_several_questions_says_nothing_of_people(splits, metrics):
    test, train = splits
    given = [["a ?", "b ?"], ["c ?"], ["d ?", "d ?"]]
    assert Measures(metrics, test._replace(questions=given), train).people() is None


def test_a_mean_is_taken_over_seeds_and_a_corpus_is_of_all_of_them():
    means = np.array([[[1.0], [2.0]], [[3.0], [6.0]]])
    sums = np.array(
        [[words_right(4, 4), words_right(0, 1)], [words_right(2, 4), words_right(1, 1)]]
    )
    assert pooled("cider", means).tolist() == [[2.0], [4.0]]
    assert pooled("bleu_1", sums).tolist() == [words_right(6, 8), words_right(1, 2)]
    measured = Measured(System("2", "", []), {"bleu_1": sums, "cider": means})
    assert measured.value("cider") == 3.0
    assert measured.value("bleu_1") == pytest.approx(7 / 10)
    # Of one seed: four words of five, where the mean of its images would be a half.
    assert score_of("bleu_1", sums[0]) == pytest.approx(4 / 5)


def test_every_image_must_be_asked_about(measures):
    with pytest.raises(DataError, match="2 images with references and without a caption"):
        measures(System("2", "", [["a ?"]]))
