"""Planted answerers, whose accuracy and gains were written before any of them ran."""

import numpy as np
import pytest
import torch
from foil_fakes import Answers, presence, question_rows

from vlbench.asking.questions import read_questions
from vlbench.data.records import Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import DataError, SpecError
from vlbench.probes.matching.questions import questions

WAYS = ("likelihood", "letter", "words")
ROWS = question_rows()


def ask(model, data=ROWS, **params):
    return questions(model, data, Engine.for_tests(), **params)


def values(outcome, metric):
    kept = [s for s in outcome.scores if s.metric == metric and "right_option" not in s.at]
    return {s.at.get("category", ""): s.value for s in kept}


@pytest.mark.parametrize("way", WAYS)
def test_who_looks_is_always_right_and_gains_it_from_the_image(way):
    found = ask(Answers(), asked=way)
    assert set(values(found, "accuracy").values()) == {1.0}
    by_category = values(found, "accuracy_gain_from_image")
    assert by_category[""] > 0.3
    assert found.asked_by == way
    assert found.counts["unparsed"] == 0


# All categories are balanced within each pair.
PRIORS = dict.fromkeys(["object", "colour", "place", "number", "presence", ""], 0.5)


@pytest.mark.parametrize("way", ["likelihood", "letter"])
def test_who_has_priors_alone_is_right_where_these_are_and_gains_nothing(way):
    found = ask(Answers(looks=False), asked=way)
    assert values(found, "accuracy") == pytest.approx(PRIORS)
    assert values(found, "accuracy_gain_over_text_alone") == {"": 0.0}
    assert values(found, "accuracy_gain_from_image") == {"": 0.0}


def test_the_text_alone_and_the_frequent_answer_are_floors():
    (score,) = [s for s in ask(Answers()).scores if s.metric == "accuracy" and not s.at]
    # By likelihood, all answers are tied without an image.
    assert score.floors["text_alone"] == pytest.approx(0.5)
    # The two answers to the question of a pair are right once each.
    assert score.floors["frequent_answer"] == pytest.approx(0.5)
    assert score.chance == 0.5


def frequent_answer(*answers):
    scores = ask(Says("yes"), presence(*answers), asked="words").scores
    (score,) = [s for s in scores if s.metric == "accuracy"]
    return score.floors["frequent_answer"]


@pytest.mark.parametrize(("yes", "floor"), [(50, 0.5), (60, 0.6), (90, 0.9)])
def test_the_frequent_answer_of_balanced_questions_is_at_chance_and_else_the_majority(yes, floor):
    assert frequent_answer(*["yes"] * yes, *["no"] * (100 - yes)) == pytest.approx(floor)


def test_the_frequent_answer_is_at_chance_in_the_mean_over_random_answers():
    rng = np.random.default_rng(0)
    floors = [frequent_answer(*rng.choice(["yes", "no"], 40).tolist()) for _ in range(200)]
    assert np.mean(floors) == pytest.approx(0.5, abs=3 * np.std(floors) / 200**0.5)
    # Nor is there a score of what it gets wrong in balanced questions.
    found = ask(Says("yes"), presence(*["yes"] * 27, *["no"] * 23), asked="words")
    assert values(found, "accuracy_where_blind_fails") == {}


def test_two_right_options_of_four_have_a_chance_of_a_half_in_each_order():
    data = presence("x", "y")
    rows = {**data.splits["test"].columns, "options": value_column([["x", "y", "z", "w"]] * 2)}
    rows["right_answers"] = value_column([["x", "y"]] * 2)
    found = ask(Says("A"), Data(splits={"test": Split(rows)}), asked="letter")
    orders = {s.at["right_option"]: s.chance for s in found.scores if "right_option" in s.at}
    assert orders == dict.fromkeys([1, 2, 3, 4], 0.5)
    assert [s.chance for s in found.scores if s.metric == "accuracy_in_all_orders"] == [0.5**4]


class Says:
    """Says the same to everything."""

    def __init__(self, said):
        self.said = said

    def answer(self, pictures, questions):
        return [self.said] * len(questions)


@pytest.mark.parametrize("letter", "AB")
def test_a_letter_by_its_place_earns_chance(letter):
    found = ask(Says(letter))
    assert set(values(found, "accuracy").values()) == {0.5}
    assert set(values(found, "accuracy_in_all_orders").values()) == {0.0}
    # Right where the right option is at that letter's place, and nowhere else.
    assert set(values(found, "accuracy_order_effect").values()) == {1.0 if letter == "A" else -1.0}
    assert "the model cannot be asked without an image" in found.notes[-1]


def test_a_refusal_earns_nothing_and_is_counted_and_noted():
    found = ask(Listed("yes", "I cannot help.", "yes", "no"), HALF, asked="words")
    assert values(found, "accuracy") == {"": 0.75}
    assert (found.counts["unparsed"], found.counts["replies"]) == (1, 4)
    why = "no option 1 (such as 'I cannot help.')"
    assert found.notes[0] == f"answers: 1 of 4 name no single option: {why}; credit 0"


@pytest.mark.parametrize("way", ["letter", "words"])
def test_replies_that_name_no_option_at_all_are_an_error(way):
    why = "no reply names an option: . of . .*: no option . .such as 'I see.'.; a reply must"
    with pytest.raises(DataError, match=why):
        ask(Says("I see."), HALF, asked=way)


def test_items_say_what_was_said_and_what_is_right():
    items = ask(Answers(looks=False)).items.to_pylist()
    own = [row for row in items if row["metric"] == "accuracy" and row["at"] == "{}"]
    assert {(row["prediction"] == row["target"]) == row["credit"] for row in own} == {True}
    assert {row["prediction"] for row in own} >= {"three", "no", "left", "blue", "apple"}


HALF = presence("yes", "no", "yes", "no")


class Listed:
    """Says the i-th of these of image i."""

    def __init__(self, *said):
        self.said = said

    def answer(self, pictures, questions):
        return [self.said[picture.image[0]] for picture in pictures]


# Accuracy, F1 and share of yes: by our rule, and by that of POPE's code.
POPE = {
    "always yes": (["Yes."] * 4, (0.5, 2 / 3, 1.0), (0.5, 2 / 3, 1.0)),
    "always no": (["No"] * 4, (0.5, 0.0, 0.0), (0.5, 0.0, 0.0)),
    "right": (["yes", "No, none.", "Yes", "no"], (1.0, 1.0, 0.5), (1.0, 1.0, 0.5)),
    # A refusal is no answer, and yes by the published rule; so is one in its second sentence.
    "refuses": (["I see a car."] * 3 + ["no"], (0.25, 0.0, 0.0), (0.75, 0.8, 0.75)),
    "no later": (["Well. No."] * 4, (0.5, 0.0, 0.0), (0.5, 2 / 3, 1.0)),
    "not": (["It was not found:"] * 3 + ["no"], (0.25, 0.0, 0.0), (0.5, 0.0, 0.0)),
    # tp 1, fp 1, fn 1: F1 1/2.
    "half": (["yes", "yes", "no", "no"], (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}  # fmt: skip


@pytest.mark.parametrize(("said", "ours", "published"), POPE.values(), ids=[*POPE])
def test_yes_and_no_by_our_rule_and_by_the_published_one_but_no_letters(said, ours, published):
    found = ask(Listed(*said), HALF, asked="words", positive="yes")
    for rule, expected in (("", ours), ("_published_rule", published)):
        names = [f"{name}{rule}" for name in ("accuracy", "f1", "positive_share")]
        assert [values(found, name)[""] for name in names] == pytest.approx(expected), rule
    (f1,) = [s for s in found.scores if s.metric == "f1"]
    assert f1.floors == {"always_positive": pytest.approx(2 / 3)}
    with pytest.raises(SpecError, match="not by letter"):
        ask(Says("A"), HALF, positive="yes", asked="letter")


def test_both_of_a_pair_are_right_or_the_pair_is_not():
    data = presence("yes", "no", "yes", "no", clusters=["0", "0", "1", "1"])
    params = {"asked": "words", "sets": {"pair_accuracy": "cluster"}}
    found = ask(Listed("yes", "no", "yes", "yes"), data, **params)
    assert values(found, "accuracy")[""] == 0.75
    (pair,) = [s for s in found.scores if s.metric == "pair_accuracy"]
    assert (pair.value, pair.n, pair.chance) == (0.5, 2, 0.25)


def rows(options, answer):
    columns = presence("yes", "yes").splits["test"].columns
    own = {"options": options, "right_answers": answer}
    return Split({**columns, **{name: value_column([one] * 2) for name, one in own.items()}})


RIGHT = {
    "text": (["cat", "dog"], ["dog"], [1]),
    "text in other case": (["Cat", "Dog"], ["dog "], [1]),
    "letter": (["cat", "dog"], ["B"], [1]),
    "letter in brackets": (["cat", "dog"], ["(b)"], [1]),
    "letter and point": (["cat", "dog"], ["A."], [0]),
    "several": (["cat", "dog", "cow"], ["cat", "C"], [0, 2]),
    "an option that is its own letter": (["A", "B"], ["B"], [1]),
}


@pytest.mark.parametrize(("options", "answer", "right"), RIGHT.values(), ids=[*RIGHT])
def test_the_right_answer_is_the_text_or_the_letter_of_an_option(options, answer, right):
    assert read_questions(rows(options, answer)).right == [right] * 2


NEITHER = "row 1: the right answer '{}' is neither an option nor"
WRONG = [
    (["cat", "dog"], ["cow"], NEITHER.format("cow")),
    (["cat", "dog"], ["C"], f"{NEITHER.format('C')} the letter"),
    (["B", "A"], ["B"], "row 1: the right answer 'B' means two options"),
    (["cat", "cat", "dog"], ["dog"], "is not a question: two options are the same"),
    (["cat", "dog"], ["cat", "dog"], "is not a question: every option is right"),
]


@pytest.mark.parametrize(("options", "answer", "why"), WRONG, ids=range(len(WRONG)))
def test_rows_that_ask_nothing_are_refused(options, answer, why):
    with pytest.raises(DataError, match=why):
        read_questions(rows(options, answer))


def test_per_byte_changes_what_is_likeliest():
    class Prefers(Answers):
        def score_answers(self, pictures, questions, answers):
            return torch.tensor([-float(len(answer)) - 1 for answer in answers])

    data = Data(splits={"test": rows(["a long one", "b"], ["a long one"])})
    found = [values(ask(Prefers(), data, per_byte=each), "accuracy")[""] for each in (False, True)]
    assert found == [0.0, 1.0]
