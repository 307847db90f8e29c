import numpy as np
import pytest

from vlbench.errors import DataError
from vlbench.metrics.text import meteor
from vlbench.metrics.text.meteor import Meteor


class Answers:
    """A process that keeps what it is asked, and gives each line the same answer."""

    def __init__(self, answer):
        self.answer, self.asked, self.closed = answer, [], False

    def ask(self, lines):
        self.asked += lines
        return [self.answer] * len(lines)

    def close(self):
        self.closed = True


@pytest.fixture
def answering(monkeypatch):
    def start(answer):
        process = Answers(answer)
        monkeypatch.setattr(meteor, "Java", lambda *_: process)
        return process

    return start


def numbers(**given):
    """Return 23 numbers as METEOR writes them, all 0 but `at_I`."""
    return " ".join(str(float(given.get(f"at_{i}", 0))) for i in range(23))


def test_a_caption_is_asked_after_its_references_on_one_line(answering):
    process = answering(numbers())
    Meteor().statistics([("a\nb ||| c", ["d  e", "f\u2028g"])])
    assert process.asked == ["SCORE ||| d e ||| f g ||| a b c"]


def test_the_process_ends_with_the_block(answering):
    process = answering(numbers())
    with Meteor():
        assert not process.closed
    assert process.closed


def test_a_caption_that_is_the_whole_reference_counts_as_no_piece(answering):
    answering(numbers(at_0=3, at_1=3, at_20=1, at_21=3, at_22=3))
    assert Meteor().statistics([("a b c", ["a b c"])])[0, 20] == 0


def test_a_caption_that_is_part_of_its_reference_is_a_piece(answering):
    answering(numbers(at_0=3, at_1=4, at_20=1, at_21=3, at_22=3))
    assert Meteor().statistics([("a b c", ["a b c d"])])[0, 20] == 1


def test_no_captions_have_no_statistics(answering):
    answering(numbers())
    assert Meteor().statistics([]).shape == (0, 23)


def test_an_answer_that_is_no_statistics_is_an_error(answering):
    answering("Error: wrong line")
    with pytest.raises(DataError, match=r"METEOR said 'Error: wrong line' of 'SCORE \|\|\| b"):
        Meteor().statistics([("a", ["b"])])


def test_statistics_are_numbers(answering):
    answering(numbers(at_0=2))
    assert np.array_equal(Meteor().statistics([("a", ["b"])])[0, :2], [2, 0])
