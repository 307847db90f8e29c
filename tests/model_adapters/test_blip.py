import pytest
import torch
import transformers
from tiny_joint import (
    CPU,
    SPANS,
    TEXTS,
    TINY,
    TWO_DOGS,
    adapter,
    broken_promises,
    copy_without,
    picture,
    save,
)

from vlbench.capabilities import Picture
from vlbench.errors import DataError, WeightsError

Blip = adapter("blip:Blip")
TEXT = {
    **TINY,
    "encoder_hidden_size": 16,
    "bos_token_id": 2,
    "sep_token_id": 3,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
VISION = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION |= {"intermediate_size": 32, "image_size": 32, "patch_size": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = transformers.BlipConfig(text_config=TEXT, vision_config=VISION)
    return save(tmp_path_factory.mktemp("blip"), transformers.BlipForImageTextRetrieval(config))


@pytest.fixture(scope="module")
def model(folder):
    return Blip(device=CPU, architecture=folder)


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


def test_a_score_is_the_librarys_probability_of_label_1(model, folder, pictures):
    library = transformers.BlipForImageTextRetrieval.from_pretrained(folder)
    expected = library(**library_inputs(pictures[1])).itm_score.softmax(-1)[:, 1].detach()
    torch.testing.assert_close(model.score_pairs(pictures[1:2], TEXTS[1:2]), expected)


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


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.score_pairs([seen], [text]), scores[i : i + 1])


def test_a_picture_without_an_image_is_named(model, pictures):
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        model.attend([pictures[0], Picture(None, None)], TEXTS[:2])


def test_what_passes_the_limit_is_cut_and_counted(model, pictures):
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == model.context_length - 2


def test_a_weight_that_a_folder_lacks_is_named(folder, tmp_path):
    lost = "itm_head.weight"
    with pytest.raises(WeightsError, match=r"lacks 1 weights: itm_head\.weight$"):
        Blip(device=CPU, weights=copy_without(lost, folder, tmp_path))


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Blip(device=CPU, architecture=folder, weights="random", init_seed=seed).score_pairs(
            pictures, TEXTS
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model) == []
