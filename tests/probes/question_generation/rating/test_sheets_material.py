import pytest
from judged import STEPS, questions, row_with

from vlbench.boards.artifacts import read_table
from vlbench.errors import DataError, TooFewRows, UnknownNameError
from vlbench.probes.question_generation.rating.sheets import (
    COLUMNS,
    QUESTIONS,
    hide_origin,
    sample_questions,
)


def shown(tmp_path, rows, steps=STEPS, images=3, seed=0):
    row = row_with(tmp_path, rows)
    table = read_table(tmp_path, row, QUESTIONS, COLUMNS)
    return sample_questions(row, table, steps, images=images, seed=seed)


def test_each_image_has_a_question_of_each_step_and_of_a_person(tmp_path):
    (first, *_) = shown(tmp_path, questions(), images=4)
    assert (first.id, first.digest, first.caption) == ("i0", "d0", "Caption, of 0")
    asked = {step: f"what is {step} of 0?" for step in STEPS}
    assert first.questions == {**asked, "human": "who is 0?"}


def test_images_and_references_are_drawn_by_the_seed(tmp_path):
    rows = questions(40, references=[f"who {i}" for i in range(9)])
    first, same, other = (shown(tmp_path, rows, images=10, seed=s) for s in (0, 0, 1))
    assert first == same != other
    assert len({one.id for one in first}) == 10
    assert len({one.questions["human"] for one in first}) > 3


def test_floors_are_not_judged_and_of_several_seeds_the_first_is(tmp_path):
    floors = questions(floor="another_image", question="no")
    later = questions(seed=1, question="no")
    found = shown(tmp_path, [*floors, *later, *questions(seed=0)])
    assert not [q for one in found for q in one.questions.values() if q == "no"]


def test_an_image_that_a_step_has_no_question_about_is_not_drawn(tmp_path):
    rows = [row for row in questions(5) if (row["id"], row["step"]) != ("i2", "3")]
    assert [one.id for one in shown(tmp_path, rows, images=4)] == ["i0", "i1", "i3", "i4"]


@pytest.mark.parametrize(
    ("steps", "images", "error", "message"),
    [
        (["1", "4"], 3, UnknownNameError, "no step is named '4'; .*1, 2, 3"),
        (["1", "1"], 3, UnknownNameError, "--steps must be different steps"),
        (["human"], 3, UnknownNameError, "--steps must be different steps, without 'human'"),
        (STEPS, 5, TooFewRows, "m on t has questions about 4 images, 5 requested;"),
        (STEPS, 1, TooFewRows, "pass --images N, at least 2"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, steps, images, error, message):
    with pytest.raises(error, match=message):
        shown(tmp_path, questions(), steps, images)


def test_a_row_without_digests_is_refused(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "digest"} for row in questions()]
    with pytest.raises(DataError, match=r"questions\.parquet has no column digest"):
        shown(tmp_path, rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What  is she drinking ?", "what is she drinking?"),
        ("is that the dog ' s x - ray ?", "is that the dog's x-ray?"),
        ("Who, me?", "who, me?"),
        ("where 's the cat", "where's the cat"),
        ("", ""),
    ],
)
def test_questions_of_people_and_of_tokenizers_are_spelled_alike(text, expected):
    assert hide_origin(text) == expected
