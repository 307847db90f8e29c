import re

import pytest
from PIL import Image
from tiny_vlm import BLANK, CHAT, MARKS, cropping_processor

from vlbench.adapter_kit.vlm.prompts import ChatTemplate, Prompts, common_run
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

IMAGE = Image.new("RGB", (40, 40))


def asked(processor=None, question='Is "{}" there?'):
    processor = processor or cropping_processor(CHAT)
    return Prompts(processor, "this model", question, ChatTemplate)


def tokens(one, ids):
    return one.tokenizer.convert_ids_to_tokens(ids)


def test_spans_are_those_of_the_text_in_the_prompt():
    one, text = asked(), 'say "cat" twice'
    tail = one.tail(text)
    spans = [span for span in tail.spans if span]
    assert "".join(text[a:b] for a, b in spans) == text.replace(" ", "")
    assert tokens(one, tail.ids)[0] == "I"
    assert tail.spans[0] is None


def test_the_tail_is_what_the_processor_makes_after_the_image():
    one = asked()
    inputs, length = one.read(IMAGE, "a cat")
    ids = tokens(one, inputs["input_ids"][0].tolist())
    assert ids[-length - 1] == MARKS["image_token"]
    assert MARKS["image_token"] not in ids[-length:]


def test_a_long_text_is_cut_at_the_end_of_a_token():
    one = asked()
    assert one.cut("a photo of a cat", 3) == "a photo of"
    assert one.cut("a photo of", 3) == "a photo of"
    assert one.count(["a photo of a cat", ""]) == [5, 0]


def test_a_special_token_is_refused_unless_it_stands_for_unknown_words():
    one = asked()
    one.tokenizer.add_tokens(["cat"], special_tokens=True)
    with pytest.raises(DataError, match="text 'cat' contains cat, a special token of this model"):
        asked(one.processor).tail("cat")
    one.tokenizer.unk_token = "cat"  # noqa: S105 - a token of words
    assert asked(one.processor).tail("cat").spans.count((0, 3)) == 1


def test_rows_begin_alike_up_to_where_they_differ():
    assert common_run([[1, 2, 3], [1, 2, 4, 5]]) == 2
    assert common_run([[1, 2], [1, 2, 3]]) == 2
    assert common_run([[1]]) == 1
    assert common_run([[], [1]]) == 0


@pytest.mark.parametrize("question", ["Is it?", "{} or {}?"])
def test_a_question_needs_one_place_for_the_text(question):
    with pytest.raises(SpecError, match=rf"question '{re.escape(question)}' needs \{{\}} once"):
        asked(question=question)


def test_a_processor_without_a_placeholder_is_refused():
    processor = cropping_processor(CHAT)
    processor.image_token = None
    with pytest.raises(CannotDo, match="this model has no placeholder for an image, so the text"):
        asked(processor)


def test_a_processor_that_rewrites_the_text_is_refused():
    one = asked()
    one._form = lambda question: ChatTemplate(one.processor, "")(question)._replace(given="<image>")
    with pytest.raises(CannotDo, match="the processor of this model rewrites the text after"):
        one.read(IMAGE, "a cat")


def chat(template):
    return Prompts(cropping_processor(template), "this model", 'Is "{}" there?', ChatTemplate)


def test_a_blank_before_the_answer_is_part_of_it():
    one = chat(BLANK)
    assert one.prompt("a cat").read == 'USER: <image>\nIs "a cat" there? ASSISTANT:'
    assert tokens(one, one.answer("Yes").ids) == ["ĠYes"]


def test_a_thought_before_the_answer_is_part_of_the_prompt():
    thought = "{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    one = chat(CHAT.replace("{% for c in", f"{thought}{{% for c in"))
    assert one.prompt("a cat").read.endswith("<|assistant|>\n<think>\n\n</think>\n\n")
    assert tokens(one, one.answer("Yes").ids) == ["Yes"]


OF_USER = "{% if m.role == 'user' %}IMAGE{% endif %}"
LATE = CHAT.replace("IMAGE", "").replace("<eos>", f"{OF_USER}<eos>")
LOUD = CHAT.replace("{{ c.text }}", "{{ c.text | upper if m.role == 'user' else c.text }}")


UNUSABLE = [
    (LOUD, "prompt of this model changes the text: "),
    (CHAT.replace("IMAGE", ""), "prompt of this model leaves out the image"),
    (LATE, "prompt of this model puts the text before the image"),
    (
        CHAT.replace("%}<|assistant|>", "%}<think>"),
        "template of this model does not put an answer after its",
    ),
]


@pytest.mark.parametrize(("template", "message"), UNUSABLE)
def test_a_template_that_cannot_be_used_is_refused(template, message):
    with pytest.raises(CannotDo, match=message):
        chat(template).read(IMAGE, "a cat")


LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
DOUBLES = (
    "{% set n = namespace(t='a') %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}"
)


ENDLESS = [
    (LOOPS, "takes more than 2 s"),
    (DOUBLES, "takes more than 256 MB"),
    ("{{ 'a' * 10**12 }}", "takes more than 256 MB"),
]


@pytest.mark.parametrize(("template", "why"), ENDLESS)
def test_a_template_without_end_is_stopped(template, why):
    with pytest.raises(WeightsError, match=f"the chat template of this model {why}"):
        chat(template)


def test_a_template_is_rendered_once_for_all_questions(monkeypatch):
    one = chat(CHAT)
    monkeypatch.setattr("subprocess.run", None)
    assert chat(CHAT).prompt("a $& cat").read == one.prompt("a dog").read.replace("dog", "$& cat")
