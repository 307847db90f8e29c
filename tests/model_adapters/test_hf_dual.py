from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_dual import MEAN, STD, TEXT, write_altclip
from tiny_joint import CPU, adapter, as_bytes, noise

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, WeightsError

HfDual = adapter("hf_dual:HfDual")
TEXTS = ["a photo of a cat", "two dogs", "the cat sat on the mat"]


@pytest.fixture
def clip(opened):
    return opened("clip").folder


FAMILIES = pytest.mark.parametrize("name", ["clip", "siglip", "align"])


@FAMILIES
def test_image_vectors_are_the_librarys(name, opened):
    folder = opened(name).folder
    square = noise(32, 32, 1)
    inputs = transformers.AutoImageProcessor.from_pretrained(folder)(square, return_tensors="pt")
    expected = transformers.AutoModel.from_pretrained(folder).get_image_features(**inputs)
    model = opened(name).model
    vectors = model.encode_images(model.preprocess(square)[None])
    torch.testing.assert_close(vectors, expected.pooler_output.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "pool"), [("clip", "cls"), ("siglip", "mean")])
def test_layers_are_the_hidden_states_of_the_librarys_image_encoder(name, pool, opened):
    model = opened(name).model
    pixels = torch.stack([model.preprocess(noise(32, 40, seed)) for seed in range(3)])
    tower = transformers.AutoModel.from_pretrained(opened(name).folder).vision_model
    states = tower(model._normalise(pixels), output_hidden_states=True).hidden_states[1:]
    expected = [one[:, 0] if pool == "cls" else one.mean(1) for one in states]
    names = [f"vision_model.encoder.layers.{i}_{pool}" for i in range(len(states))]
    assert model.layers() == [*names, "output"]
    found = model.encode_images_at(pixels, model.layers())
    for layer, states in zip(names, expected, strict=True):
        torch.testing.assert_close(found[layer], states.detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(found["output"], model.encode_images(pixels))


@FAMILIES
def test_text_vectors_are_the_librarys(name, opened):
    folder = opened(name).folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding="max_length", max_length=12, return_tensors="pt")
    expected = transformers.AutoModel.from_pretrained(folder).get_text_features(**batch)
    vectors = opened(name).model.encode_texts(TEXTS)
    torch.testing.assert_close(vectors, expected.pooler_output.detach(), rtol=1e-4, atol=1e-5)


def test_texts_of_altclip_are_padded_on_the_right_whatever_its_file_says(tmp_path):
    write_altclip(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, padding_side="left")
    tokenizer.save_pretrained(tmp_path)
    model = HfDual(device=CPU, architecture=str(tmp_path))
    alone = torch.cat([model.encode_texts([text]) for text in TEXTS])
    torch.testing.assert_close(model.encode_texts(TEXTS), alone, rtol=1e-4, atol=1e-5)
    assert [len(one.spans) for one in model.encode_tokens(TEXTS)] == [5, 2, 6]


def test_siglip_reads_texts_padded_to_the_full_length(opened):
    model = opened("siglip").model
    seen = []
    embeddings = model.model.text_model.embeddings
    embeddings.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True
    )
    model.encode_texts(["two dogs"])
    assert seen[0].tolist() == [[2, 8, 9, 3] + [0] * 8]


@FAMILIES
def test_token_vectors_are_the_text_encoders_last_hidden_state(name, opened):
    folder = opened(name).folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["two dogs sat"], padding="max_length", max_length=12, return_tensors="pt")
    library = transformers.AutoModel.from_pretrained(folder)
    expected = library.text_model(**batch).last_hidden_state[0, 1:4].detach()
    tokens = opened(name).model.encode_tokens(["two dogs sat", *TEXTS])[0]
    assert tokens.spans == [(0, 3), (4, 8), (9, 12)]
    torch.testing.assert_close(tokens.vectors, expected, rtol=1e-4, atol=1e-5)


def test_a_model_whose_text_encoder_is_no_module_gives_no_token_vectors(clip):
    model = HfDual(device=CPU, architecture=clip)
    del model.model.text_model
    message = "no text encoder of its own, so it gives no vectors of tokens"
    with pytest.raises(CannotDo, match=message):
        model.encode_tokens(TEXTS)


def test_a_tokenizer_that_gives_no_spans_is_refused(clip, monkeypatch):
    model = HfDual(device=CPU, architecture=clip)
    monkeypatch.setattr(type(model._reader.tokenizer), "is_fast", False)
    with pytest.raises(CannotDo, match="no fast tokenizer, so its tokens have no spans"):
        model.encode_tokens(TEXTS)


@FAMILIES
def test_a_pairs_score_is_its_similarity(name, opened, photo):
    model = opened(name).model
    images = [photo, photo.rotate(90, expand=True), photo.resize((32, 32))]
    pixels = torch.stack([model.preprocess(image) for image in images])
    table = model.similarity(model.encode_images(pixels), model.encode_texts(TEXTS))
    scores = model.score_pairs([Picture(image, None) for image in images], TEXTS)
    torch.testing.assert_close(scores, table.diagonal())


def test_similarity_is_the_cosine_that_clip_scales(clip, photo):
    library = transformers.CLIPModel.from_pretrained(clip)
    model = HfDual(device=CPU, architecture=clip)
    pixels = model.preprocess(photo)[None]
    normalised = (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    batch = transformers.AutoTokenizer.from_pretrained(clip)(
        TEXTS, padding=True, return_tensors="pt"
    )
    expected = library(pixel_values=normalised, **batch).logits_per_image
    expected = expected.detach() / library.logit_scale.exp().item()
    found = model.similarity(model.encode_images(pixels), model.encode_texts(TEXTS))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_clip_sees_the_centre_at_the_processors_size(clip, photo):
    expected = photo.resize((48, 32), Image.Resampling.BILINEAR).crop((8, 0, 40, 32))
    pixels = HfDual(device=CPU, architecture=clip).preprocess(photo)
    np.testing.assert_array_equal(as_bytes(pixels), np.asarray(expected))


def test_siglip_sees_the_whole_picture_squashed(opened, photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    pixels = opened("siglip").model.preprocess(photo)
    np.testing.assert_array_equal(as_bytes(pixels), np.asarray(expected))


def copy_of(folder, target, **replaced):
    for file in Path(folder).iterdir():
        (target / file.name).write_bytes(replaced.get(file.stem, file.read_bytes()))
    return str(target)


def test_pixels_may_be_left_as_they_are(clip, tmp_path):
    unnormalised = transformers.CLIPImageProcessor(do_normalize=False)
    unnormalised.save_pretrained(tmp_path / "as-is")
    config = (tmp_path / "as-is" / "preprocessor_config.json").read_bytes()
    (tmp_path / "model").mkdir()
    folder = copy_of(clip, tmp_path / "model", preprocessor_config=config)
    model = HfDual(device=CPU, architecture=folder)
    torch.testing.assert_close(model._mean, torch.zeros(3, 1, 1))
    torch.testing.assert_close(model._std, torch.ones(3, 1, 1))


def test_images_of_several_sizes_are_refused(clip, tmp_path):
    ragged = b'{"image_processor_type": "CLIPImageProcessor", "do_center_crop": false}'
    folder = copy_of(clip, tmp_path, preprocessor_config=ragged)
    with pytest.raises(WeightsError, match=r"images resized to .* are not all of one size"):
        HfDual(device=CPU, architecture=folder)


def test_an_encoder_that_returns_every_patch_is_refused(clip, monkeypatch):
    model = HfDual(device=CPU, architecture=clip)
    monkeypatch.setattr(model.model, "get_image_features", lambda _: torch.zeros(2, 17, 8))
    with pytest.raises(CannotDo, match=r"returns \[2, 17, 8\], not one vector per input"):
        model.encode_images(torch.zeros(2, 3, 32, 32))


def test_an_encoder_of_texts_alone_is_refused(tmp_path):
    config = transformers.BertConfig(**TEXT)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="is a BertModel; this adapter reads dual encoders"):
        HfDual(device=CPU, architecture=str(tmp_path))


@FAMILIES
def test_a_grid_has_the_image_encoders_last_hidden_states(name, opened, photo):
    model = opened(name).model
    pixels = model.preprocess(photo)[None]
    inputs = transformers.AutoImageProcessor.from_pretrained(opened(name).folder)(
        Image.fromarray(as_bytes(pixels[0])), return_tensors="pt", do_resize=False
    )
    library = transformers.AutoModel.from_pretrained(opened(name).folder).vision_model
    states = library(**inputs).last_hidden_state.detach()
    expected = states if name == "align" else states[:, -16:].mT.unflatten(2, (4, 4))
    torch.testing.assert_close(model.encode_grid(pixels), expected, rtol=1e-3, atol=1e-3)


def test_a_model_whose_image_encoder_is_no_module_gives_no_grid(clip, photo):
    model = HfDual(device=CPU, architecture=clip)
    pixels = model.preprocess(photo)[None]
    model.model.config.vision_config.patch_size = 3
    with pytest.raises(CannotDo, match="hidden states of this model form no grid of patches"):
        model.encode_grid(pixels)
    del model.model.vision_model
    message = "no image encoder of its own, so it gives no grid of patches"
    with pytest.raises(CannotDo, match=message):
        model.encode_grid(pixels)
