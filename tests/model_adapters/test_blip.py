import pytest
import torch
import transformers
from tiny_joint import SPANS, TEXTS, TWO_DOGS, picture

NAME = "blip"


@pytest.fixture
def pictures():
    return [
        picture(1, 1, seed=i, size=size) for i, size in enumerate([(60, 40), (32, 32), (9, 90)])
    ]


def library_inputs(seen):
    """Return two dogs, and a picture of the model's own size as the library prepares it."""
    processor = transformers.BlipImageProcessor(do_resize=False)
    return {
        "input_ids": torch.tensor(TWO_DOGS),
        "pixel_values": processor(seen.image, return_tensors="pt")["pixel_values"],
    }


def test_attention_is_the_librarys_without_the_class_token(model, folder, pictures):
    library = transformers.BlipForImageTextRetrieval.from_pretrained(folder)
    inputs = library_inputs(pictures[1])
    with torch.no_grad():
        seen = library.vision_model(pixel_values=inputs["pixel_values"]).last_hidden_state
        expected = library.text_encoder(
            input_ids=inputs["input_ids"], encoder_hidden_states=seen, output_attentions=True
        ).cross_attentions
    patches = torch.stack(expected)[:, 0, :, 1:3, 1:]
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    torch.testing.assert_close(found.weights, patches / patches.sum(-1, keepdim=True))
    assert patches.sum(-1).min() < 0.95
    assert found.weights.shape == (2, 2, 2, 16)
    assert found.spans == SPANS
    assert not found.whole


def test_a_score_is_the_log_odds_of_the_librarys_probability_of_label_1(model, folder, pictures):
    library = transformers.BlipForImageTextRetrieval.from_pretrained(folder)
    expected = library(**library_inputs(pictures[1])).itm_score.softmax(-1)[:, 1].detach()
    scores = model.score_pairs(pictures[1:2], TEXTS[1:2])
    torch.testing.assert_close(scores.sigmoid(), expected)


def test_images_are_squashed_as_the_library_does(model, pictures):
    processor = transformers.BlipImageProcessor(
        size={"height": 32, "width": 32}, do_normalize=False
    )
    expected = processor(pictures[0].image, return_tensors="pt")["pixel_values"][0]
    assert (model._pixels(pictures[0].image) - expected).abs().max() < 0.01


def test_boxes_cover_the_picture_in_its_own_pixels(model, pictures):
    boxes = model.attend(pictures[:1], TEXTS[:1])[0].boxes
    assert boxes[:2].tolist() == [[0, 0, 15, 10], [15, 0, 30, 10]]
    assert boxes[4].tolist() == [0, 10, 15, 20]
    assert boxes[-1].tolist() == [45, 30, 60, 40]
