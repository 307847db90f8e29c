import re

from numpy.random import default_rng
from scenes_reader import COLOURS, Truth, answer_is_true

from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.captions import captions
from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.facts import view
from vlbench.data.scenes.grammar import Sentence
from vlbench.data.scenes.layout import single
from vlbench.data.scenes.questions import questions, untold_looks


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


def seen_alone(noun):
    scene = single(noun, default_rng(0))
    return view(scene, draw(scene))


def test_an_image_of_one_thing_has_no_question_about_a_relation():
    seen, rng = seen_alone("owl"), default_rng(0)
    asked = questions(seen, captions(seen, rng), rng, count=9)
    assert len({question.text for question in asked}) == 9
    assert not any("left of" in question.text for question in asked)


def test_most_images_have_a_question_that_tells_what_no_caption_tells(rows):
    """Read from the words alone: a look before a noun that no caption says of it."""
    looks = "|".join(["small", "large", "striped", "spotted", *sorted(COLOURS)])
    pattern = re.compile(rf"(?:where is|what is .*|is there) (?:the|a) ({looks}) (\w+) \?")
    marks = {"striped": "stripes", "spotted": "spots"}
    untold = 0
    for i, asked in enumerate(rows["questions"]):
        told = [match.groups() for match in map(pattern.fullmatch, asked) if match]
        assert len(told) <= 2
        untold += bool(told)
        for look, noun in told:
            name = f"({noun}|{rows['categories'][i][rows['nouns'][i].index(noun)]})"
            before = rf"{look}( (toy|{looks}))* {name}"
            after = rf"{name} (is {look}|(covered|decorated) with {marks.get(look, '!')})"
            said = re.compile(rf"\b({before}|{after})\b")
            assert [c for c in rows["captions"][i] if said.search(c)] == []
    assert untold / len(rows["questions"]) > 0.9


def test_a_look_is_untold_where_no_caption_of_the_thing_has_its_word():
    seen = seen_alone("owl")
    sentence = Sentence()
    head = sentence.say("owl", "NOUN")
    sentence.phrases.append(Phrase(head, head + 1, (0,)))
    thing = seen.groups[0].things[0]
    everything = {thing.size, thing.texture, thing.colour} - {"medium", "plain"}
    assert {look for _, look in untold_looks(seen, [sentence])} == everything
    sentence.say(thing.colour, "ADJ")  # in no phrase, as in "the owl is red"
    assert {look for _, look in untold_looks(seen, [sentence])} == everything - {thing.colour}
