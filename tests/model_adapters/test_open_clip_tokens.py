"""Vectors of tokens from open_clip, beside those of transformers on the same weights."""

import open_clip
import pytest
import torch
import transformers
from tiny_clip import CPU, TINY, OpenClip, write_config
from tiny_joint import adapter
from tokenizers import Tokenizer, models, pre_tokenizers

from vlbench.errors import CannotDo

HfDual = adapter("hf_dual:HfDual")
TEXT = {"context_length": 16, "width": 32, "heads": 2, "layers": 2}
# What transformers does not change before it cuts words, as open_clip does.
TEXTS = [
    "a photo of a cat",
    "  A  Photo\tof TWO\ndogs' tails, 3 of 12!",
    "naïve Café, 猫 🐱 don't",
    "",
    "a very long text " * 40,
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    path = write_config(tmp_path_factory.mktemp("ours"), {**TINY, "text_cfg": TEXT})
    model = OpenClip(device=CPU, architecture=path, weights="random", init_seed=3)
    # Its biases are zero and its gains one otherwise, so that no test would miss them.
    rng = torch.Generator().manual_seed(0)
    for weight in model.model.parameters():
        weight.add_(0.1 * torch.randn(weight.shape, generator=rng))
    return model


@pytest.fixture(scope="module")
def theirs(ours, tmp_path_factory):
    """HfDual with the weights of the text tower of `ours`, and the same words."""
    folder, ends = tmp_path_factory.mktemp("theirs"), {"bos_token_id": 49406, "eos_token_id": 49407}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    text = {**sizes, "intermediate_size": 128, "max_position_embeddings": 16, "vocab_size": 49408}
    vision = {**sizes, "intermediate_size": 32, "image_size": 32, "patch_size": 16}
    config = transformers.CLIPConfig(
        text_config={**text, **ends, "hidden_act": "gelu"}, vision_config=vision, **ends
    )
    model = transformers.CLIPModel(config)
    model.text_model.load_state_dict(converted(ours.model.state_dict()))
    model.save_pretrained(folder)
    transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)
    words = open_clip.SimpleTokenizer()
    renamed = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {renamed.get(unit, unit): i for unit, i in words.encoder.items()}
    transformers.CLIPTokenizer(
        vocabulary, sorted(words.bpe_ranks, key=words.bpe_ranks.get), model_max_length=16
    ).save_pretrained(folder)
    return HfDual(device=CPU, architecture=str(folder))


def converted(state):
    """Return the weights of open_clip's text tower under the names of transformers."""
    names = {
        "token_embedding.weight": "embeddings.token_embedding.weight",
        "positional_embedding": "embeddings.position_embedding.weight",
        "ln_final.weight": "final_layer_norm.weight",
        "ln_final.bias": "final_layer_norm.bias",
    }
    parts = {
        **{f"ln_{i}": f"layer_norm{i}" for i in (1, 2)},
        "attn.out_proj": "self_attn.out_proj",
        "mlp.c_fc": "mlp.fc1",
        "mlp.c_proj": "mlp.fc2",
    }
    found = {new: state[old] for old, new in names.items()}
    for i in range(TEXT["layers"]):
        old, new = f"transformer.resblocks.{i}", f"encoder.layers.{i}"
        for kind in ("weight", "bias"):
            queries = state[f"{old}.attn.in_proj_{kind}"].chunk(3)
            for letter, rows in zip("qkv", queries, strict=True):
                found[f"{new}.self_attn.{letter}_proj.{kind}"] = rows
            for their, our in parts.items():
                found[f"{new}.{our}.{kind}"] = state[f"{old}.{their}.{kind}"]
    return found


def test_token_vectors_and_spans_equal_those_of_transformers_on_the_same_weights(ours, theirs):
    pairs = list(zip(ours.encode_tokens(TEXTS), theirs.encode_tokens(TEXTS), strict=True))
    assert [one.spans for one, _ in pairs] == [other.spans for _, other in pairs]
    assert [len(one.spans) for one, _ in pairs] == [5, 13, 11, 0, 14]
    for one, other in pairs:
        torch.testing.assert_close(one.vectors, other.vectors, rtol=1e-5, atol=1e-5)


def test_what_the_tokenizer_cleans_stands_for_the_characters_given(ours, theirs):
    text = "Caf&eacute;s  &amp;amp; schÃ¶n&nbsp;&lt;3"
    (found,) = ours.encode_tokens([text])
    (clean,) = theirs.encode_tokens(["cafés & schön <3"])
    pieces = [text[start:end] for start, end in found.spans]
    assert "".join(pieces) == "Caf&eacute;s&amp;amp;schÃ¶n&lt;3"
    assert "&amp;amp;" in pieces
    torch.testing.assert_close(found.vectors, clean.vectors, rtol=1e-5, atol=1e-5)


def test_special_tokens_that_a_text_spells_out_are_left_out(ours):
    (found,) = ours.encode_tokens(["a <end_of_text> cat"])
    assert found.spans == [(0, 1), (16, 19)]


def custom(folder, **text):
    """Write a model whose text tower is a module of its own, with words that a folder holds."""
    words = Tokenizer(models.WordLevel({"a": 1, "cat": 2, "dog": 3, "[U]": 4}, "[U]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[U]",  # noqa: S106 - no password
    ).save_pretrained(folder)
    cfg = {**TEXT, "hf_tokenizer_name": "given by the folder", **text}
    path = write_config(folder, {**TINY, "text_cfg": cfg, "custom_text": True})
    return OpenClip(device=CPU, architecture=path, weights="random")


def test_a_tokenizer_of_hugging_face_gives_spans_of_the_text_as_given(tmp_path):
    model = custom(tmp_path, tokenizer_kwargs={"clean": "canonicalize"})
    one, other = model.encode_tokens(["A_cat,  &amp; a DOG", "cat " * 40])
    assert one.spans == [(0, 1), (2, 5), (14, 15), (16, 19)]
    assert len(other.spans) == 16
    states = model.model.text.forward_intermediates(
        model._tokenizer(["a cat a dog"]), indices=1, normalize_intermediates=True, output_fmt="NLC"
    )["text_intermediates"][0]
    torch.testing.assert_close(one.vectors, states[0, :4], rtol=1e-5, atol=1e-5)


def test_a_tokenizer_that_gives_no_spans_is_refused(tmp_path, ours, monkeypatch):
    model = custom(tmp_path)
    for place, name, value in (
        (model._tokenizer.tokenizer, "is_fast", False),
        (model._tokenizer, "tokenizer_mode", "clips"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place if name != "is_fast" else type(place), name, value)
            with pytest.raises(CannotDo, match="no fast tokenizer, so its tokens have no spans"):
                model.encode_tokens(["a cat"])
    monkeypatch.setattr(ours._tokenizer, "reduction_fn", len)
    with pytest.raises(CannotDo, match="no fast tokenizer"):
        ours.encode_tokens(["a cat"])


def test_a_text_tower_of_another_library_is_refused(tmp_path):
    model = custom(tmp_path)
    del model.model.text.ln_final
    message = "this text tower is from another library, so it gives no vectors of"
    with pytest.raises(CannotDo, match=message):
        model.encode_tokens(["a cat"])
