import math

import pytest
import torch
from foil_fakes import Answers, question_rows

from vlbench.asking.chooser import Chooser, way_of
from vlbench.asking.questions import Question
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError

ROWS = question_rows(range(6)).splits["test"]
NAN = r"gave the score nan to the answer 'red' to 'what is it \?'"
COLOUR = Question("what is it ?", ["red", "light blue"])


class Scores:
    """Remembers what it is asked."""

    reads_text_alone = True

    def __init__(self, value=-4.0):
        self.value, self.asked = value, []

    def score_answers(self, pictures, questions, answers):
        self.asked += zip([one.image for one in pictures], questions, answers, strict=True)
        return torch.full((len(answers),), self.value)


class Says:
    def __init__(self, *said):
        self.said, self.asked = said, []

    def answer(self, pictures, questions):
        self.asked += questions
        return list(self.said[: len(questions)])


def asker(model, way, **options):
    return Chooser(model, ROWS, Engine.for_tests(), way, **options)


def test_a_model_is_asked_by_likelihood_if_it_can_and_else_by_letter():
    ways = [way_of(model, "") for model in (Scores(), Says(), Answers())]
    assert ways == ["likelihood", "letter", "likelihood"]
    assert way_of(Answers(), "words") == "words"
    lacking = (Says(), "likelihood", "AnswerScorer"), (Scores(), "words", "Answerer")
    for model, way, lacks in lacking:
        why = f"it does not implement {lacks}, which `asked: {way}` needs"
        with pytest.raises(CannotDo, match=why):
            way_of(model, way)


def test_letters_are_shown_in_each_cyclic_order():
    model = Says("A", "B", "C")
    three = Question("which ?", ["x", "y", "z"])
    (replies,) = asker(model, "letter", instruction="Look.").replies([0], [three])
    end = "Answer with the letter of the right option only."
    assert model.asked[0] == f"which ? Look.\nA. x\nB. y\nC. z\n{end}"
    assert model.asked[1] == f"which ? Look.\nA. y\nB. z\nC. x\n{end}"
    assert [one.order for one in replies] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert [one.said for one in replies] == ["A", "B", "C"]


class Echoes:
    """Answers with the colour of a question, of several in some order."""

    def __init__(self, order):
        self.order = order

    def answer(self, pictures, questions):
        return self.order([question.split()[1] for question in questions])


@pytest.mark.parametrize(
    ("order", "notes"),
    [
        (list, []),
        (
            lambda answers: answers[::-1],
            ["2 of the first 3 questions are answered otherwise if each is asked by itself: 'red'"],
        ),
    ],
)
def test_answers_that_depend_on_the_other_questions_have_a_note(order, notes):
    colours = ["red", "green", "blue"]
    model = asker(Echoes(order), "words")
    replies = model.replies([0, 0, 0], [Question(f"Say {word}", colours) for word in colours])
    assert [reply.said for (reply,) in replies] == order(colours)
    assert [note.partition(",")[0] for note in model.notes()[1:]] == notes


def test_more_options_than_letters_are_refused():
    many = Question("which ?", [str(i) for i in range(11)])
    with pytest.raises(DataError, match="at most 10 options have a letter, not 11"):
        asker(Says(), "letter").replies([0], [many])


def test_what_is_asked_twice_is_asked_once():
    model = Scores()
    replies = asker(model, "likelihood").replies([0, 1, 0], [COLOUR] * 3)
    assert len(set(model.asked)) == 4
    assert [one[0].said for one in replies] == [[-4.0, -4.0]] * 3


def test_a_row_of_none_has_no_image():
    model = Scores()
    asker(model, "likelihood").replies([None, 0], [COLOUR] * 2)
    assert {image for image, *_ in model.asked} == {None, ROWS["image"][0]}
    asker(model, "likelihood").table([None], [["a", "b", "a"]], "why ?")
    assert model.asked[-2:] == [(None, "why ?", "a"), (None, "why ?", "b")]


def test_per_byte_is_by_the_length_in_utf8():
    columns = {"image": ROWS["image"], "question": value_column(["q"] * len(ROWS), "text")}
    model = Chooser(Scores(-6.0), Split(columns), Engine.for_tests(), "likelihood", per_byte=True)
    (replies,) = model.replies([0], [Question("q", ["ab", "für"])])
    assert replies[0].said == [-3.0, -1.5]


@pytest.mark.parametrize(
    ("model", "way", "match"),
    [
        (Scores(math.nan), "likelihood", NAN),
        (Says("A"), "letter", "must give one of texts for each question"),
        (Says("A", 2), "letter", "must give one of texts for each question"),
        (Echoes("".join), "letter", "must give one of texts for each question"),
    ],
)
def test_replies_that_are_none_are_refused(model, way, match):
    with pytest.raises((DataError, ValueError), match=match):
        asker(model, way).replies([0], [COLOUR])
