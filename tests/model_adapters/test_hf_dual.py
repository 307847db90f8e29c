from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from vlbench import hub
from vlbench.capabilities import Picture
from vlbench.check import check_adapter
from vlbench.errors import CannotDo, DataError, WeightsError
from vlbench.resolve import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
HfDual = load_object("hf_dual:HfDual", [FOLDER])
CPU = torch.device("cpu")
TEXTS = ["a photo of a cat", "two dogs", "the cat sat on the mat"]
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] a photo of cat two dogs the sat on mat"
WORDS = VOCABULARY.split()
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ENDS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
TEXT = {"vocab_size": len(WORDS), "hidden_size": 16, "max_position_embeddings": 12, **LAYERS}
VISION = {"hidden_size": 16, "image_size": 32, "patch_size": 8, **LAYERS}
# Not the library's defaults, so that a test sees whether they are read.
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
NORMALISER = {"image_mean": MEAN, "image_std": STD}
EFFICIENT = {
    "image_size": 32,
    "kernel_sizes": [3, 3],
    "in_channels": [32, 16],
    "out_channels": [16, 24],
    "strides": [1, 2],
    "num_block_repeats": [1, 1],
    "expand_ratios": [1, 6],
    "hidden_dim": 16,
}


def save(folder, model, processor, names):
    """Write a model whose weights all matter, its tokenizer and its image processor."""
    rng = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn(weight.shape, generator=rng)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=WORDS[0],
        model_input_names=names,
    ).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    config = transformers.CLIPConfig(
        text_config={**TEXT, **ENDS}, vision_config=VISION, projection_dim=8, **ENDS
    )
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    processor = transformers.CLIPImageProcessor(**sizes, **NORMALISER, resample=2)
    folder = tmp_path_factory.mktemp("clip")
    return save(folder, transformers.CLIPModel(config), processor, ["input_ids", "attention_mask"])


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    config = transformers.SiglipConfig(
        text_config={**TEXT, **ENDS, "projection_size": 16}, vision_config=VISION
    )
    processor = transformers.SiglipImageProcessor(size={"height": 32, "width": 32}, **NORMALISER)
    folder = tmp_path_factory.mktemp("siglip")
    return save(folder, transformers.SiglipModel(config), processor, ["input_ids"])


@pytest.fixture(scope="module")
def align(tmp_path_factory):
    config = transformers.AlignConfig(text_config=TEXT, vision_config=EFFICIENT, projection_dim=48)
    square = {"height": 32, "width": 32}
    processor = transformers.EfficientNetImageProcessor(
        size=square, crop_size=square, **NORMALISER, rescale_offset=True, include_top=True
    )
    folder = tmp_path_factory.mktemp("align")
    return save(folder, transformers.AlignModel(config), processor, ["input_ids", "attention_mask"])


FAMILIES = pytest.mark.parametrize("name", ["clip", "siglip", "align"])


@pytest.fixture
def photo():
    noise = np.random.default_rng(0).integers(0, 256, (80, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise)


@FAMILIES
def test_image_vectors_are_the_librarys(name, request):
    folder = request.getfixturevalue(name)
    noise = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    inputs = transformers.AutoImageProcessor.from_pretrained(folder)(
        Image.fromarray(noise), return_tensors="pt"
    )
    expected = transformers.AutoModel.from_pretrained(folder).get_image_features(**inputs)
    model = HfDual(device=CPU, architecture=folder)
    vectors = model.encode_images(model.preprocess(Image.fromarray(noise))[None])
    torch.testing.assert_close(vectors, expected.pooler_output.detach(), rtol=1e-4, atol=1e-5)


@FAMILIES
def test_text_vectors_are_the_librarys(name, request):
    folder = request.getfixturevalue(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding="max_length", max_length=12, return_tensors="pt")
    expected = transformers.AutoModel.from_pretrained(folder).get_text_features(**batch)
    vectors = HfDual(device=CPU, architecture=folder).encode_texts(TEXTS)
    torch.testing.assert_close(vectors, expected.pooler_output.detach(), rtol=1e-4, atol=1e-5)


@FAMILIES
def test_padding_does_not_change_a_text(name, request):
    model = HfDual(device=CPU, architecture=request.getfixturevalue(name))
    alone = torch.cat([model.encode_texts([text]) for text in TEXTS])
    torch.testing.assert_close(model.encode_texts(TEXTS), alone, rtol=1e-4, atol=1e-5)


def test_siglip_reads_texts_padded_to_the_full_length(siglip):
    model = HfDual(device=CPU, architecture=siglip)
    seen = []
    embeddings = model.model.text_model.embeddings
    embeddings.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True
    )
    model.encode_texts(["two dogs"])
    assert seen[0].tolist() == [[2, 8, 9, 3] + [0] * 8]


@FAMILIES
def test_token_vectors_are_the_text_towers_last_hidden_state(name, request):
    folder = request.getfixturevalue(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["two dogs sat"], padding="max_length", max_length=12, return_tensors="pt")
    library = transformers.AutoModel.from_pretrained(folder)
    expected = library.text_model(**batch).last_hidden_state[0, 1:4].detach()
    tokens = HfDual(device=CPU, architecture=folder).encode_tokens(["two dogs sat", *TEXTS])[0]
    assert tokens.spans == [(0, 3), (4, 8), (9, 12)]
    torch.testing.assert_close(tokens.vectors, expected, rtol=1e-4, atol=1e-5)


def test_a_tokenizer_that_gives_no_spans_is_refused(clip, monkeypatch):
    model = HfDual(device=CPU, architecture=clip)
    monkeypatch.setattr(type(model._tokenizer), "is_fast", False)
    with pytest.raises(CannotDo, match="no fast tokenizer, or no text tower by itself"):
        model.encode_tokens(TEXTS)


@FAMILIES
def test_a_pairs_score_is_its_similarity(name, request, photo):
    model = HfDual(device=CPU, architecture=request.getfixturevalue(name))
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


def test_a_picture_without_an_image_is_named(clip, photo):
    model = HfDual(device=CPU, architecture=clip)
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        model.score_pairs([Picture(photo, None), Picture(None, None)], TEXTS[:2])


def as_bytes(pixels):
    return (pixels * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_clip_sees_the_centre_at_the_processors_size(clip, photo):
    expected = photo.resize((48, 32), Image.Resampling.BILINEAR).crop((8, 0, 40, 32))
    pixels = HfDual(device=CPU, architecture=clip).preprocess(photo)
    np.testing.assert_array_equal(as_bytes(pixels), np.asarray(expected))


def test_siglip_sees_the_whole_picture_squashed(siglip, photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    pixels = HfDual(device=CPU, architecture=siglip).preprocess(photo)
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


def test_long_texts_are_cut_and_counted(clip):
    model = HfDual(device=CPU, architecture=clip)
    assert model.context_length == 12
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    cut, whole = model.encode_texts(["cat " * 40, "cat " * 10])
    torch.testing.assert_close(cut, whole)


def test_a_tower_that_gives_every_patch_is_refused(clip, monkeypatch):
    model = HfDual(device=CPU, architecture=clip)
    monkeypatch.setattr(model.model, "get_image_features", lambda _: torch.zeros(2, 17, 8))
    with pytest.raises(CannotDo, match=r"vectors of shape \[2, 17, 8\]; one of each input"):
        model.encode_images(torch.zeros(2, 3, 32, 32))


def test_one_tower_alone_is_refused(tmp_path):
    config = transformers.BertConfig(**TEXT)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="is a BertModel: it has no two towers"):
        HfDual(device=CPU, architecture=str(tmp_path))


def test_a_missing_weight_is_named(clip, tmp_path):
    folder = copy_of(clip, tmp_path)
    kept = load_file(tmp_path / "model.safetensors")
    del kept["text_projection.weight"]
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeightsError, match=r"lacks 1 weights: text_projection\.weight$"):
        HfDual(device=CPU, weights=folder)


def test_half_precision_is_loaded_in_full(clip, tmp_path):
    folder = copy_of(clip, tmp_path)
    transformers.CLIPModel.from_pretrained(clip, dtype=torch.float16).save_pretrained(folder)
    model = HfDual(device=CPU, weights=folder).model
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.config._attn_implementation == "eager"


def test_random_weights_obey_their_seed(clip):
    before = torch.get_rng_state()
    drawn = [
        HfDual(device=CPU, architecture=clip, weights="random", init_seed=seed)
        for seed in (0, 0, 1)
    ]
    first, same, other = (model.encode_texts(TEXTS) for model in drawn)
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_absent_folder_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"no folder of weights at .*nowhere"):
        HfDual(device=CPU, weights=str(tmp_path / "nowhere"))


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(WeightsError, match=f"{tmp_path.name} cannot be loaded"):
        HfDual(device=CPU, weights=str(tmp_path))


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_offline_names_the_download_and_the_way_around_it(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = r"^openai/clip-vit-base-patch32, revision 3d74, cannot .* --model-args weights=PATH$"
    with pytest.raises(WeightsError, match=message):
        HfDual(device=CPU, revision="3d74")


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_cannot_be_reached_is_asked_for_nothing(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(WeightsError, match="from the hub: the hub cannot be reached"):
        HfDual(device=CPU)


@FAMILIES
def test_the_contract_holds(name, request):
    model = HfDual(device=CPU, architecture=request.getfixturevalue(name))
    assert [finding for finding in check_adapter(model) if not finding.ok] == []
