import pytest
import torch
import transformers
from tiny_joint import CPU, SPANS, TEXTS, TWO_DOGS, adapter, picture
from tiny_models import write_vilt

NAME = "vilt"


@pytest.fixture
def pictures():
    sizes = [(60, 40), (48, 32), (30, 90)]
    return [picture(1, 1, seed=i, size=size) for i, size in enumerate(sizes)]


def pixels_of_48_by_32(seen):
    pixels = torch.tensor(list(seen.image.tobytes())).view(32, 48, 3) / 255
    return (pixels.permute(2, 0, 1)[None] - 0.5) / 0.5


def test_attention_is_the_librarys_with_the_patches_put_in_order(model, folder, pictures):
    library = transformers.ViltModel.from_pretrained(folder, add_pooling_layer=False)
    inputs = {"pixel_values": pixels_of_48_by_32(pictures[1]), "pixel_mask": torch.ones(1, 32, 48)}
    torch.manual_seed(3)
    with torch.no_grad():
        places = library.embeddings.visual_embed(*inputs.values(), max_image_length=-1)[2][0][0]
        torch.manual_seed(3)
        expected = library(
            input_ids=torch.tensor(TWO_DOGS), output_attentions=True, **inputs
        ).attentions
    order = [places.tolist().index([row, column]) for row in range(4) for column in range(6)]
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    assert order != sorted(order)
    torch.testing.assert_close(found.weights, torch.stack(expected)[:, 0, :, 1:3, 5:][..., order])
    assert found.spans == SPANS
    assert found.whole


def test_a_score_is_the_librarys_one_logit(model, folder, pictures):
    library = transformers.ViltForImageAndTextRetrieval.from_pretrained(folder)
    expected = library(
        input_ids=torch.tensor(TWO_DOGS), pixel_values=pixels_of_48_by_32(pictures[1])
    ).logits[:, 0]
    scores = model.score_pairs(pictures[1:2], TEXTS[1:2])
    torch.testing.assert_close(scores, expected.detach(), rtol=1e-4, atol=1e-5)


def test_boxes_cover_the_picture_in_its_own_pixels(model, pictures):
    boxes = model.attend(pictures[2:], TEXTS[:1])[0].boxes
    # 30 x 90 becomes 16 x 48: 6 rows of 2 patches, 15 x 15 each.
    assert boxes.shape == (12, 4)
    torch.testing.assert_close(
        boxes[:3], torch.tensor([[0, 0, 15, 15], [15, 0, 30, 15], [0, 15, 15, 30.0]])
    )
    assert boxes[-1].tolist() == [15, 75, 30, 90]


@pytest.mark.parametrize("size", [(60, 40), (50, 120), (640, 480), (500, 333), (100, 100)])
def test_images_get_the_librarys_size(model, size):
    processor = transformers.ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    seen = picture(1, 1, size=size).image
    expected = processor(seen, return_tensors="pt")["pixel_values"][0]
    pixels = model._pixels(seen)
    assert pixels.shape == expected.shape
    assert (pixels - expected).abs().max() < 0.03


def test_the_global_generator_neither_matters_nor_moves(model, pictures):
    torch.manual_seed(1)
    before, first = torch.get_rng_state(), model.attend(pictures, TEXTS)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = model.attend(pictures, TEXTS)
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(first, second, strict=True))


def test_a_limit_on_patches_drops_none(tmp_path, pictures):
    model = adapter("vilt:Vilt")(device=CPU, architecture=write_vilt(tmp_path, max_image_length=4))
    assert model.attend(pictures[1:2], TEXTS[:1])[0].weights.shape[-1] == 24
