import pytest
from question_fakes import toy_world

from vlbench.engine import Engine
from vlbench.probes.question_generation.floors import (
    most_frequent_question,
    other_rows,
    questions_of_nearest_captions,
)
from vlbench.probes.question_generation.reading import asked


def test_the_most_frequent_question_is_the_first_of_several():
    assert most_frequent_question([["b ?", "A?"], ["a ?", "b?"], ["c ?"]]) == "b ?"


def test_the_nearest_caption_gives_the_question_that_it_is_trained_with():
    train = asked(toy_world(2, 2).splits["train"], ())._replace(
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
