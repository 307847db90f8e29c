import logging

import numpy as np
import open_clip
import pytest
import torch
from hostile_code import write_code
from hub_cache import cached, empty_cache
from tiny_clip import CPU, PREPROCESSING, TINY, OpenClip, write_config

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, WeightsError

NAME = "open_clip"


def test_image_features_equal_those_of_the_library_alone(folder, model, photo):
    reference, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    expected = reference.eval().encode_image(transform(photo)[None])
    features = model.encode_images(model.preprocess(photo)[None])
    torch.testing.assert_close(features, expected.detach(), rtol=1e-5, atol=1e-6)


def test_pixels_are_normalised_inside_by_mean_and_deviation(model, photo):
    seen = []
    model.model.visual.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    pixels = model.preprocess(photo)
    model.encode_images(pixels[None])
    by_hand = (pixels.permute(1, 2, 0).numpy() - PREPROCESSING["mean"]) / PREPROCESSING["std"]
    np.testing.assert_allclose(seen[0][0].permute(1, 2, 0).numpy(), by_hand, rtol=1e-4, atol=1e-5)


def test_text_features_equal_those_of_the_library_alone(folder):
    texts = ["a photo of a cat", "two dogs"]
    reference = open_clip.create_model(f"local-dir:{folder}").eval()
    expected = reference.encode_text(open_clip.get_tokenizer(f"local-dir:{folder}")(texts))
    features = OpenClip(device=CPU, architecture=folder).encode_texts(texts)
    torch.testing.assert_close(features, expected.detach(), rtol=1e-5, atol=1e-6)


def test_similarity_is_the_cosine():
    similarity = OpenClip.similarity(
        None, torch.tensor([[3.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]])
    )
    torch.testing.assert_close(similarity, torch.tensor([[0.0, 1.0], [0.5**0.5, 0.5**0.5]]))


def test_pairs_score_the_diagonal_of_the_similarities(model, photo):
    images = [photo, photo.rotate(90, expand=True)]
    texts = ["a cat", "a dog"]
    pixels = torch.stack([model.preprocess(image) for image in images])
    table = model.similarity(model.encode_images(pixels), model.encode_texts(texts))
    scores = model.score_pairs([Picture(image, None) for image in images], texts)
    torch.testing.assert_close(scores, table.diagonal())


def test_tokens_are_counted_before_they_are_cut(model):
    assert model.context_length == 16
    assert model.count_tokens(["", "a cat", "cat " * 40]) == [2, 4, 42]


def test_a_tokenizer_of_hugging_face_counts_alike(tmp_path, caplog, monkeypatch):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 1, "cat": 2}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=16).save_pretrained(tmp_path)
    text = {**TINY["text_cfg"], "hf_tokenizer_name": "given by the folder"}
    path = write_config(tmp_path, {**TINY, "text_cfg": text})
    model = OpenClip(device=CPU, architecture=path, weights="random")
    assert model.count_tokens(["", "a cat", "cat " * 40]) == [0, 2, 40]
    assert "longer than the specified maximum" not in caplog.text


def test_half_precision_still_returns_float32(folder, photo):
    model = OpenClip(device=CPU, dtype=torch.bfloat16, architecture=folder)
    exact = OpenClip(device=CPU, architecture=folder)
    features = model.encode_images(model.preprocess(photo)[None])
    reference = exact.encode_images(model.preprocess(photo)[None])
    assert features.dtype == model.encode_texts(["a"]).dtype == torch.float32
    assert torch.cosine_similarity(features, reference).item() == pytest.approx(1, abs=0.01)


def test_vectors_that_the_library_would_normalise_are_not_of_unit_length(tmp_path, photo):
    vision = {"image_size": 64, "layers": 1, "width": 64, "patch_size": 32}
    vision |= {"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True}
    text = {**TINY["text_cfg"], "embed_cls": True, "output_tokens": True}
    multimodal = {"context_length": 16, "width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 32, "vision_cfg": vision, "text_cfg": text}
    config |= {"multimodal_cfg": multimodal, "custom_text": True}
    path = write_config(tmp_path, config)
    model = OpenClip(device=CPU, architecture=path, weights="random")
    features = model.encode_images(model.preprocess(photo)[None])
    assert abs(features.norm().item() - 1) > 0.05
    assert abs(model.encode_texts(["a"]).norm().item() - 1) > 0.05


NAMES_A_TOKENIZER = {"hf_tokenizer_name": "./clip"}
TRUSTS_ITSELF = {**NAMES_A_TOKENIZER, "tokenizer_kwargs": {"trust_remote_code": True}}


def hostile(folder, text):
    """Write a model whose text tower reads files with code of their own; return the marker."""
    text = {key: str(folder) if value == "FOLDER" else value for key, value in text.items()}
    write_config(folder, {**TINY, "text_cfg": {**TINY["text_cfg"], **text}})
    return write_code(folder)


@pytest.mark.parametrize("text", [TRUSTS_ITSELF, NAMES_A_TOKENIZER, {"hf_model_name": "FOLDER"}])
def test_code_of_a_folder_never_runs_though_all_answers_are_yes(tmp_path, monkeypatch, text):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    marker = hostile(tmp_path / "clip", text)
    with pytest.raises(WeightsError, match="custom code"):
        OpenClip(device=CPU, architecture=str(tmp_path / "clip"), weights="random")
    assert not marker.exists()


def test_code_of_a_repository_never_runs(tmp_path, monkeypatch):
    marker = hostile(tmp_path / "clip", TRUSTS_ITSELF)
    cached(empty_cache(monkeypatch, tmp_path / "hub"), "org/clip", tmp_path / "clip")
    with pytest.raises(WeightsError, match="custom code"):
        OpenClip(device=CPU, architecture="hf-hub:org/clip", weights="random")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("part", "sizes"), [("vision_cfg", {"layers": 10**7}), ("text_cfg", {"width": 10**7})]
)
def test_a_size_that_no_network_has_is_refused_by_name(tmp_path, part, sizes):
    path = write_config(tmp_path, {**TINY, part: {**TINY[part], **sizes}})
    (key,) = sizes
    with pytest.raises(WeightsError, match=rf"{path}: {key} is 10000000; .* is the maximum"):
        OpenClip(device=CPU, architecture=path, weights="random")


def test_the_grid_of_a_resnet_is_its_trunk_before_the_pooling(model, photo):
    pixels = model.preprocess(photo)[None]
    grid = model.encode_grid(pixels)
    assert (grid.shape, grid.dtype) == ((1, 256, 2, 2), torch.float32)
    pooled = model.model.visual.attnpool(grid)
    torch.testing.assert_close(pooled, model.encode_images(pixels), rtol=1e-4, atol=1e-5)


def test_the_grid_of_a_transformer_is_its_patches(tmp_path, photo):
    vision = {"image_size": 64, "layers": 2, "width": 64, "patch_size": 32, "head_width": 32}
    config = {**TINY, "vision_cfg": {**vision, "pool_type": "avg", "final_ln_after_pool": False}}
    path = write_config(tmp_path, config)
    model = OpenClip(device=CPU, architecture=path, weights="random")
    pixels = model.preprocess(photo)[None]
    grid = model.encode_grid(pixels)
    assert grid.shape == (1, 64, 2, 2)
    pooled = grid.mean((2, 3)) @ model.model.visual.proj
    torch.testing.assert_close(pooled, model.encode_images(pixels), rtol=1e-4, atol=1e-5)


def test_an_image_tower_without_a_grid_is_refused(model, photo, monkeypatch):
    monkeypatch.delattr(type(model.model.visual), "forward_intermediates")
    with pytest.raises(CannotDo, match="this image tower gives no grid of hidden states"):
        model.encode_grid(model.preprocess(photo)[None])
