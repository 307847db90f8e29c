import pytest
from PIL import Image
from tiny_vlm import BLANK, CHAT, cropping_processor

from vlbench.adapter_kit.chat_prompts import ChatTemplate
from vlbench.adapter_kit.prompts import Prompts
from vlbench.errors import CannotDo, WeightsError

IMAGE = Image.new("RGB", (40, 40))


def chat(template):
    return Prompts(cropping_processor(template), "this model", 'Is "{}" there?', ChatTemplate)


def tokens(one, ids):
    return one.tokenizer.convert_ids_to_tokens(ids)


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


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (LOUD, "prompt of this model changes the text: "),
        (CHAT.replace("IMAGE", ""), "prompt of this model leaves out the image"),
        (LATE, "prompt of this model puts the text before the image"),
        (
            CHAT.replace("%}<|assistant|>", "%}<think>"),
            "template of this model writes an answer elsewhere than after its",
        ),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template, message):
    with pytest.raises(CannotDo, match=message):
        chat(template).read(IMAGE, "a cat")


LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
DOUBLES = (
    "{% set n = namespace(t='a') %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (LOOPS, "takes more than 2 s"),
        (DOUBLES, "takes more than 256 MB"),
        ("{{ 'a' * 10**12 }}", "takes more than 256 MB"),
    ],
)
def test_a_template_without_end_is_stopped(template, why):
    with pytest.raises(WeightsError, match=f"the chat template of this model {why}"):
        chat(template)


def test_a_template_is_rendered_once_for_all_questions(monkeypatch):
    one = chat(CHAT)
    monkeypatch.setattr("subprocess.run", None)
    assert chat(CHAT).prompt("a $& cat").read == one.prompt("a dog").read.replace("dog", "$& cat")
