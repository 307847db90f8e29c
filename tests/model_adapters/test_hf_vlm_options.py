"""What a user sets to fit a generative model into memory: max_pixels, attn and the dtype."""

import pytest
import torch
import transformers
from tiny_joint import CPU, adapter, noise

from vlbench.capabilities import Picture
from vlbench.errors import SpecError, WeightsError

HfVlm = adapter("hf_vlm:HfVlm")
IMAGE = noise(90, 50)
PICTURE, TEXTS = Picture(IMAGE, None), ["a photo of a cat", "Two dogs"]
QUESTION = 'Does this figure show "{}"? Please answer Yes or No.'


@pytest.fixture
def folder(opened):
    return opened("qwen3").folder


def made(folder, **options):
    return HfVlm(device=CPU, architecture=folder, text_limit=64, size=32, **options)


@torch.no_grad()
def scores_of_library(folder, sizes):
    """Return the probability of "Yes" as the library's own processor sees pictures of sizes."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, size=sizes)
    kind = transformers.AutoModelForImageTextToText
    model = kind.from_pretrained(folder, attn_implementation="eager")
    scores = []
    for text in TEXTS:
        asked = {"type": "text", "text": QUESTION.replace("{}", text)}
        chat = [{"role": "user", "content": [{"type": "image"}, asked]}]
        prompt = processor.apply_chat_template(chat, add_generation_prompt=True)
        ids = [
            processor(images=[IMAGE], text=[prompt + end], return_tensors="pt")
            for end in ("", "Yes")
        ]
        begun = ids[0]["input_ids"].shape[1]
        (yes,) = ids[1]["input_ids"][0, begun:].tolist()
        scores.append(model(**ids[0]).logits[0, -1].softmax(-1)[yes])
    return torch.stack(scores)


# Tokens of 16 x 16 in 90 x 50 pixels, both sides scaled by the same factor: 1 x 2, 2 x 4, 3 x 6.
@pytest.mark.parametrize(("most", "tokens"), [(1024, 2), (2304, 8), (10**6, 18)])
def test_a_picture_is_scaled_down_to_max_pixels_as_by_the_library(folder, most, tokens):
    model = made(folder, max_pixels=most)
    expected = scores_of_library(folder, {"shortest_edge": 256, "longest_edge": most})
    torch.testing.assert_close(model.score_pairs([PICTURE] * 2, TEXTS).sigmoid(), expected)
    (attention, _) = model.attend([PICTURE] * 2, TEXTS)
    assert len(attention.boxes) == tokens


def test_regions_of_a_smaller_picture_have_their_place(folder):
    whole = torch.tensor([[0.0, 0.0, 90.0, 50.0]])
    small = made(folder, max_pixels=256)
    (vector,) = small.encode_regions([PICTURE], [whole])
    (attended,) = small.attend([PICTURE], TEXTS[:1])
    assert attended.boxes.tolist() == whole.tolist()
    assert vector.shape[0] == 1


@pytest.mark.parametrize("most", [255, 0])
def test_less_than_one_token_is_refused(folder, most):
    with pytest.raises(SpecError, match=rf"max_pixels {most} is less than one token"):
        made(folder, max_pixels=most)


def test_a_model_that_sees_one_size_or_tiles_has_no_max_pixels(opened):
    folder = opened("gemma3").folder
    with pytest.raises(SpecError, match="max_pixels is for models that keep a picture's"):
        HfVlm(device=CPU, architecture=folder, max_pixels=4096)


@pytest.mark.parametrize("attn", ["eager", "sdpa"])
def test_attention_may_be_chosen_and_changes_no_score(folder, attn):
    model = made(folder, attn=attn)
    assert model.model.config._attn_implementation == attn
    scores = model.score_pairs([PICTURE] * 2, TEXTS)
    torch.testing.assert_close(scores, made(folder).score_pairs([PICTURE] * 2, TEXTS))
    assert len(model.attend([PICTURE], TEXTS[:1])) == 1
    assert model.model.get_decoder().config._attn_implementation == attn


def test_an_implementation_that_is_not_installed_is_named(folder):
    with pytest.raises(WeightsError, match=r"(?i)flash"):
        made(folder, attn="flash_attention_2")
