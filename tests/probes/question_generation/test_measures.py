import json

import numpy as np
import pytest
from question_fakes import toy_world
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from vlbench.engine import Engine
from vlbench.errors import DataError, SpecError
from vlbench.metrics.captions import CaptionMetrics
from vlbench.probes.question_generation.inputs import select_asked
from vlbench.probes.question_generation.measures import (
    LEAVE_ONE_OUT,
    QUESTION_METRICS,
    MeasuredSystem,
    Measures,
    QuestionMetrics,
    System,
    most_frequent_question,
    other_rows,
    pool_seeds,
    questions_of_nearest_captions,
    score_of,
    simplify,
)

NAMES = ["noun_accuracy", "distinct_questions", "questions_seen_in_training", "question_length"]


def words_right(right, words):
    """Return statistics of BLEU-1 of an image, whose reference has as many words."""
    return [*(right, 0.0, 0.0, 0.0), *(words, 0.0, 0.0, 0.0), *(words, words)]


@pytest.fixture(scope="module")
def splits():
    data = toy_world(6, 3)
    test = select_asked(data.splits["test"], ["names"])._replace(
        questions=[["a b c d ?", "a b c d !"], ["q r s t ?"], ["k l m n ?", "k l m o ?"]]
    )
    return test, select_asked(data.splits["train"], ["names"])


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


def test_people_are_scored_against_their_other_questions(measures, metrics):
    (people,) = measures.against_people([])
    # The image with one question is left out.
    assert people.system.questions == [["a b c d ?", "k l m n ?"], ["a b c d !", "k l m o ?"]]
    # Each question of the two images has the other one as its reference.
    firsts = {0: ["a b c d ?"], 1: ["k l m n ?"]}
    seconds = {0: ["a b c d !"], 1: ["k l m o ?"]}
    wanted = [metrics(*pair)["cider"].statistics for pair in ((firsts, seconds), (seconds, firsts))]
    assert np.array_equal(people.statistics[LEAVE_ONE_OUT], np.stack(wanted))
    assert wanted[0].min() > 0
    assert "questions_seen_in_training" not in people.statistics


def test_people_take_turns_where_an_image_has_fewer_questions(splits, metrics):
    test, train = splits
    given = [["a ?", "b ?", "c ?"], ["d ?", "d ?"], ["e ?", "f ?"]]
    (people,) = Measures(metrics, test._replace(questions=given), train).against_people([])
    # The second image has the same question twice, which is one question.
    assert people.system.questions == [["a ?", "e ?"], ["b ?", "f ?"], ["c ?", "e ?"]]
    assert people.statistics[LEAVE_ONE_OUT].shape == (3, 2, 1)


def test_a_system_is_judged_with_as_many_references_as_people(measures, metrics):
    # Who says what the first person says has that question as reference in the second turn alone.
    told = ["a b c d ?", "anything", "k l m n ?"]
    people, same = measures.against_people([System("2", "", [told, told])])
    own = {0: [told[0]], 1: [told[2]]}
    perfect = metrics(own, own)["cider"].statistics
    wanted = (people.statistics[LEAVE_ONE_OUT][0] + perfect) / 2
    assert same.statistics[LEAVE_ONE_OUT] == pytest.approx(np.stack([wanted, wanted]))


def test_one_image_of_several_questions_says_nothing_of_people(splits, metrics):
    test, train = splits
    given = [["a ?", "b ?"], ["c ?"], ["d ?", "d ?"]]
    assert Measures(metrics, test._replace(questions=given), train).against_people([]) == []


def test_a_mean_is_taken_over_seeds_and_a_corpus_is_of_all_of_them():
    means = np.array([[[1.0], [2.0]], [[3.0], [6.0]]])
    rows = [words_right(*one) for one in ((4, 4), (0, 1), (2, 4), (1, 1))]
    sums = np.array([rows[:2], rows[2:]])
    assert pool_seeds("cider", means).tolist() == [[2.0], [4.0]]
    assert pool_seeds("bleu_1", sums).tolist() == [words_right(6, 8), words_right(1, 2)]
    measured = MeasuredSystem(System("2", "", []), {"bleu_1": sums, "cider": means})
    assert measured.value("cider") == 3.0
    assert measured.value("bleu_1") == pytest.approx(7 / 10)
    # Of one seed: four words of five, where the mean of its images would be a half.
    assert score_of("bleu_1", sums[0]) == pytest.approx(4 / 5)


def test_every_image_must_be_asked_about(measures):
    with pytest.raises(DataError, match="2 images with references but no caption"):
        measures(System("2", "", [["a ?"]]))


# What needs no Java.
PURE = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider")

# Names in the records of the original code.
THEIRS = {f"Bleu_{n}": f"bleu_{n}" for n in (1, 2, 3, 4)}
THEIRS |= {"ROUGE_L": "rouge_l", "CIDEr": "cider", "METEOR": "meteor"}

ASKED = {1: ["What is this?"], 2: ["what is that ?"]}
REFERENCES = {1: ["what is this ?"], 2: ["what is that ?", "Who?"]}


@pytest.fixture
def ported(real_data):
    """Questions, references, and what the classes of qgevalcap said of them."""
    folder = real_data / "ports" / "qgevalcap"
    texts = json.loads((folder / "hyps_refs.json").read_text())
    asked = {name: [text] for name, text in texts["hyps"].items()}
    return asked, texts["refs"], json.loads((folder / "scores.json").read_text())


def values(scores):
    return {name: score.estimate.value for name, score in scores.items()}


def printed(scores):
    """Scores as the original code's records have them, with four decimals."""
    return {name: round(value, 4) for name, value in values(scores).items()}


def test_scores_are_those_of_qgevalcap_to_the_last_printed_digit(ported):
    asked, references, scores = ported
    with QuestionMetrics(PURE) as metrics:
        found = printed(metrics(asked, references))
    assert found == {ours: scores[t]["corpus"] for t, ours in THEIRS.items() if ours in PURE}


@pytest.mark.nightly
def test_all_scores_are_those_of_qgevalcap_and_of_coco_caption(ported):
    asked, references, scores = ported
    with QuestionMetrics() as metrics:
        found = metrics(asked, references)
    assert tuple(found) == QUESTION_METRICS
    own = printed({name: found[name] for name in THEIRS.values()})
    assert own == {ours: scores[theirs]["corpus"] for theirs, ours in THEIRS.items()}
    with CaptionMetrics(PURE) as coco_caption:
        wanted = values(coco_caption(asked, references))
    assert values({name: found[f"{name}_ptb"] for name in wanted}) == wanted


def test_the_treebanks_words_are_scores_of_their_own():
    """As they stand, "What" and "this?" are other words; the Treebank's lose case and mark."""
    with QuestionMetrics(["bleu_1", "bleu_1_ptb"]) as metrics:
        found = metrics(ASKED, REFERENCES)
    right = {name: score.statistics[:, 0].tolist() for name, score in found.items()}
    assert right == {"bleu_1": [1, 4], "bleu_1_ptb": [3, 3]}


def test_only_the_words_that_are_asked_for_are_told_apart(monkeypatch):
    monkeypatch.setenv("VLBENCH_JAVA", "no-such-program")
    with QuestionMetrics(["cider"]) as metrics:
        assert list(metrics(ASKED, REFERENCES)) == ["cider"]
    with QuestionMetrics(["cider_ptb"]) as metrics, pytest.raises(DataError, match="no-such-pro"):
        metrics(ASKED, REFERENCES)


@pytest.mark.parametrize("names", [["spice"], ["cider_ptb_ptb"], []])
def test_what_is_no_metric_of_questions_is_refused(names):
    with pytest.raises(SpecError, match=r"metrics of questions: unknown .*; there are bleu_1, "):
        QuestionMetrics(names)


QUESTIONS = [
    "What's  the Dog's name?",
    "  is it 5:30 p.m. -- or 17:30?! ",
    "\tWhy?\nBecause...",
    '"Où" est-ce que c\'est, (ici)?',
    "a $5 hot-dog & 100% beef ?",
]


def test_questions_are_compared_in_lower_case_with_punctuation_apart():
    assert simplify("What's  the Dog's name?") == "what ' s the dog ' s name ?"
    assert simplify("what ' s the dog ' s name ?") == simplify("What's the dog's name?")
    assert simplify("") == simplify("  \n") == ""


@pytest.mark.parametrize("question", QUESTIONS)
def test_words_are_those_of_bert_and_what_is_compared_stays_as_it_is(question):
    text = BertNormalizer(lowercase=True, strip_accents=False).normalize_str(question)
    words = [word for word, _ in BertPreTokenizer().pre_tokenize_str(text)]
    assert simplify(question).split(" ") == words
    assert simplify(simplify(question)) == simplify(question)


def test_the_most_frequent_question_is_the_first_of_several():
    assert most_frequent_question([["b ?", "A?"], ["a ?", "b?"], ["c ?"]]) == "b ?"


def test_the_nearest_caption_gives_the_question_that_it_is_trained_with():
    train = select_asked(toy_world(2, 2).splits["train"], ())._replace(
        captions=[["a red dog", "a big tree"], ["the sea"]],
        questions=[["dog ?"], ["sea ?", "water ?"]],
    )
    told = ["the tree", "a dog", "sea sea", "nothing known"]
    found = questions_of_nearest_captions(train, told, Engine.for_tests())
    # Both captions of the first image go with its one question; the last is as near to all.
    assert found == ["sea ?", "dog ?", "sea ?", "dog ?"]


@pytest.mark.parametrize("count", [2, 3, 50])
def test_no_image_gets_itself_as_the_other(count):
    rows = other_rows(count)
    assert sorted(rows) == list(range(count))
    assert all(i != row for i, row in enumerate(rows))
    assert other_rows(50) == other_rows(50, seed=0) != other_rows(50, seed=1)
