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
from vlbench.errors import CannotDo, DataError, WeightsError

Vilt = adapter("vilt:Vilt")
CONFIG = {**TINY, "image_size": 32, "patch_size": 8}


def make(folder, kind=transformers.ViltForImageAndTextRetrieval, **options):
    return save(folder, kind(transformers.ViltConfig(**CONFIG, **options)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("vilt"))


@pytest.fixture(scope="module")
def model(folder):
    return Vilt(device=CPU, architecture=folder)


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
def test_images_get_the_librarys_size(tmp_path, size):
    model = Vilt(device=CPU, architecture=make(tmp_path))
    processor = transformers.ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    seen = picture(1, 1, size=size).image
    expected = processor(seen, return_tensors="pt")["pixel_values"][0]
    pixels = model._pixels(seen)
    assert pixels.shape == expected.shape
    assert (pixels - expected).abs().max() < 0.03


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        assert torch.equal(alone.boxes, together[i].boxes)
        torch.testing.assert_close(model.score_pairs([seen], [text]), scores[i : i + 1])


def test_the_global_generator_neither_matters_nor_moves(model, pictures):
    torch.manual_seed(1)
    before, first = torch.get_rng_state(), model.attend(pictures, TEXTS)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = model.attend(pictures, TEXTS)
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(first, second, strict=True))


def test_a_limit_on_patches_drops_none(tmp_path, pictures):
    model = Vilt(device=CPU, architecture=make(tmp_path, max_image_length=4))
    assert model.attend(pictures[1:2], TEXTS[:1])[0].weights.shape[-1] == 24


def test_a_picture_without_an_image_is_named(model, pictures):
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        model.attend([pictures[0], Picture(None, None)], TEXTS[:2])


def test_what_passes_the_limit_is_cut_and_counted(model, pictures):
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == model.context_length - 2


def test_a_checkpoint_without_the_head_attends_and_scores_nothing(tmp_path, pictures):
    model = Vilt(device=CPU, architecture=make(tmp_path, transformers.ViltForMaskedLM))
    assert model.attend(pictures[1:2], TEXTS[:1])[0].weights.shape[-1] == 24
    with pytest.raises(CannotDo, match="this checkpoint has no retrieval head"):
        model.score_pairs(pictures[:1], TEXTS[:1])


def test_a_weight_that_a_folder_lacks_is_named(folder, tmp_path):
    lost = "vilt.embeddings.cls_token"
    with pytest.raises(WeightsError, match=r"lacks 1 weights: .*cls_token$"):
        Vilt(device=CPU, weights=copy_without(lost, folder, tmp_path))


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Vilt(device=CPU, architecture=folder, weights="random", init_seed=seed)
        .attend(pictures[:1], TEXTS[:1])[0]
        .weights
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other, rtol=1e-5)


def test_the_contract_holds(model):
    assert broken_promises(model) == []
