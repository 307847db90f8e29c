from numpy.random import default_rng
from scenes_reader import Truth, answer_is_true

from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.facts import view
from vlbench.data.scenes.layout import single
from vlbench.data.scenes.questions import questions


def test_every_answer_is_true_of_the_drawing(rows):
    judged = [
        (question, answer, answer_is_true(Truth(rows, i), question, answer))
        for i in range(len(rows["image"]))
        for question, answer in zip(rows["questions"][i], rows["answers"][i], strict=True)
    ]
    assert [pair for *pair, is_true in judged if not is_true] == []


def test_an_image_has_five_different_questions_with_answers(rows):
    assert {len(set(texts)) for texts in rows["questions"]} == {5}
    assert {len(answers) for answers in rows["answers"]} == {5}


def test_an_image_of_one_thing_has_no_question_about_a_relation():
    scene = single("owl", default_rng(0))
    asked = questions(view(scene, draw(scene)), default_rng(0), count=9)
    assert len({question.text for question in asked}) == 9
    assert not any("left of" in question.text for question in asked)
