import pytest
import transformers
from PIL import Image
from tiny_vlm import BLANK, CHAT, MARKS, tokenizer

from vlbench.adapter_kit.chat_prompts import Chat, common_run
from vlbench.errors import CannotDo, DataError

QUESTION = 'Is "{}" there?'
IMAGE = Image.new("RGB", (40, 40))


def chat(template):
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template.replace("IMAGE", "<image>"),
    )
    return Chat(processor, "this model", QUESTION)


def tokens(one, ids):
    return one.tokenizer.convert_ids_to_tokens(ids)


def test_a_blank_before_the_answer_is_part_of_it():
    one = chat(BLANK)
    assert one.prompt("a cat") == 'USER: <image>\nIs "a cat" there? ASSISTANT:'
    assert tokens(one, one.answer("Yes").ids) == ["ĠYes"]


def test_a_thought_before_the_answer_is_part_of_the_prompt():
    thought = "{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    one = chat(CHAT.replace("{% for c in", f"{thought}{{% for c in"))
    assert one.prompt("a cat").endswith("<|assistant|>\n<think>\n\n</think>\n\n")
    assert tokens(one, one.answer("Yes").ids) == ["Yes"]


def test_spans_are_those_of_the_text_in_the_prompt():
    one, text = chat(CHAT), 'say "cat" twice'
    tail = one.tail(text)
    spans = [span for span in tail.spans if span]
    assert "".join(text[a:b] for a, b in spans) == text.replace(" ", "")
    assert tokens(one, tail.ids)[0] == "I"
    assert tail.spans[0] is None


def test_the_tail_is_what_the_processor_makes_after_the_image():
    one = chat(CHAT)
    inputs, length = one.read(IMAGE, "a cat")
    ids = tokens(one, inputs["input_ids"][0].tolist())
    assert ids[-length - 1] == MARKS["image_token"]
    assert MARKS["image_token"] not in ids[-length:]


def test_a_long_text_is_cut_at_the_end_of_a_token():
    one = chat(CHAT)
    assert one.cut("a photo of a cat", 3) == "a photo of"
    assert one.cut("a photo of", 3) == "a photo of"
    assert one.count(["a photo of a cat", ""]) == [5, 0]


def test_a_special_token_is_refused_unless_it_stands_for_unknown_words():
    one = chat(CHAT)
    one.tokenizer.add_tokens(["cat"], special_tokens=True)
    with pytest.raises(DataError, match="text 'cat' has cat, a special token of this model"):
        Chat(one.processor, "this model", QUESTION).tail("cat")
    one.tokenizer.unk_token = "cat"  # noqa: S105 - a token of words
    assert Chat(one.processor, "this model", QUESTION).tail("cat").spans.count((0, 3)) == 1


OF_USER = "{% if m.role == 'user' %}IMAGE{% endif %}"
LATE = CHAT.replace("IMAGE", "").replace("<eos>", f"{OF_USER}<eos>")
LOUD = CHAT.replace("{{ c.text }}", "{{ c.text | upper if m.role == 'user' else c.text }}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (LOUD, "changes the text: "),
        (CHAT.replace("IMAGE", ""), "leaves out the image"),
        (LATE, "puts the text before the image"),
        (CHAT.replace("%}<|assistant|>", "%}<think>"), "writes an answer elsewhere than after its"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template, message):
    with pytest.raises(CannotDo, match=f"the chat template of this model {message}"):
        chat(template).read(IMAGE, "a cat")


def test_rows_begin_alike_up_to_where_they_differ():
    assert common_run([[1, 2, 3], [1, 2, 4, 5]]) == 2
    assert common_run([[1, 2], [1, 2, 3]]) == 2
    assert common_run([[1]]) == 1
    assert common_run([[], [1]]) == 0
