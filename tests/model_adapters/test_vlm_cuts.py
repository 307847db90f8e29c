"""Generative models that run without some heads, or without some of the attention to positions."""

import copy
from functools import cache

import pytest
import torch
from tiny_joint import noise
from tiny_vlm import WRITERS

from vlbench.adapter_kit.vlm.prompt_batches import OneByOne
from vlbench.capabilities import Cut, Look, Picture
from vlbench.errors import CannotDo, SpecError

# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FAMILIES = pytest.mark.parametrize("name", sorted(WRITERS))
# SDPA in each part that has it: not the language model of PaliGemma 2.
IMPLEMENTATIONS = pytest.mark.parametrize("attn", ["eager", "auto"])
TEXTS = ["a photo of a cat", "Two dogs", "a photo of the cat sat on the mat", "a cat"]
ANSWERS = ["Yes", "two dogs on the mat", "a cat sat", "a cat"]
HEAD = Cut(heads=((1, 1),))
LANGUAGE = ["language.2@image", "language.2@end"]


@pytest.fixture(scope="module")
def load(opened):
    @cache
    def loaded(name, attn="auto", dtype=torch.float32):
        tiny, _, given, _ = opened(name)
        return tiny.load(given, attn=attn, dtype=dtype)

    return loaded


def shown(seed=0):
    """Return a picture of one size for each text: all alike."""
    return [Picture(noise(60, 40, seed), None)] * len(TEXTS)


def scores(model, seed=0):
    pairs = model.score_pairs(shown(seed), TEXTS)
    return torch.stack([pairs, model.score_answers(shown(seed), TEXTS, ANSWERS)])


def outputs(model):
    states = model.encode_images_at(torch.stack([model.preprocess(noise(60, 40))]), LANGUAGE)
    attended = [one.weights for one in model.attend(shown(), TEXTS)]
    return [scores(model), *attended, *states.values(), model.encode_texts(TEXTS)]


def unable(model, *kinds):
    """Return a cut in which positions of some kinds do not look at the image, in any layer."""
    depth = len(model.parts().heads)
    return Cut(looks=tuple(Look(kind, "image", (0, depth)) for kind in kinds))


def equal(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def with_zeros(model):
    """Return a copy whose weights have no use for head 1 of layer 1."""
    other = copy.copy(model)
    other.model = copy.deepcopy(model.model)
    attention = other.model.get_decoder().layers[1].self_attn
    attention.o_proj.weight.data[:, attention.head_dim : 2 * attention.head_dim] = 0
    return other


def hooks(model):
    return [[*m._forward_pre_hooks, *m._forward_hooks] for m in model.model.modules()]


@FAMILIES
def test_parts_are_the_query_heads_of_each_layer_and_the_kinds_of_positions(name, load):
    heads, positions = load(name).parts()
    assert heads == (2,) * (3 if name == "gemma3" else 2)
    assert positions == ("image", "text", "end")


@FAMILIES
@IMPLEMENTATIONS
def test_without_nothing_the_outputs_are_the_same(name, attn, load):
    model = load(name, attn)
    assert equal(outputs(model.cut(Cut())), outputs(model))


@FAMILIES
@IMPLEMENTATIONS
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_a_head_taken_away_is_a_head_whose_projection_is_zero(name, attn, dtype, tolerance, load):
    model = load(name, attn, dtype)
    expected = scores(with_zeros(model))
    found = scores(model.cut(HEAD))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert not torch.equal(expected, scores(model))


@FAMILIES
@IMPLEMENTATIONS
def test_without_looks_at_the_image_another_image_scores_alike(name, attn, load):
    model = load(name, attn)
    whole = scores(model, 0), scores(model, 50)
    blind = model.cut(unable(model, "text", "end"))
    cut = scores(blind, 0), scores(blind, 50)
    torch.testing.assert_close(*cut, rtol=1e-6, atol=1e-6)
    assert (whole[0] - whole[1]).abs().min() > 1e-4


@FAMILIES
def test_what_is_written_without_looks_at_the_image_is_the_same_for_another(name, load):
    model = load(name)
    blind = model.cut(unable(model, "text", "end"))
    assert blind.answer(shown(0)[:2], TEXTS[:2]) == blind.answer(shown(50)[:2], TEXTS[:2])


@FAMILIES
@pytest.mark.parametrize("kind", ["text", "end"])
def test_one_kind_of_looks_alone_still_shows_the_image(name, kind, load):
    model = load(name)
    model = model.cut(unable(model, kind))
    assert (scores(model, 0) - scores(model, 50)).abs().max() > 1e-4


@FAMILIES
def test_attention_to_what_is_not_looked_at_is_zero_in_these_layers(name, load):
    half = load(name).cut(Cut(looks=(Look("text", "image", (1, 2)),)))
    for whole, one in zip(
        load(name).attend(shown(), TEXTS), half.attend(shown(), TEXTS), strict=True
    ):
        assert one.weights[1].eq(0).all()
        assert whole.weights[1].gt(0).any()
        torch.testing.assert_close(one.weights[0], whole.weights[0])


@FAMILIES
def test_texts_that_share_a_picture_score_as_alone(name, load):
    looks = Look("image", "image", (0, 2)), Look("end", "text", (1, 2))
    cut = load(name).cut(Cut(HEAD.heads, looks))
    alone = [cut.score_pairs([one], [text]) for one, text in zip(shown(), TEXTS, strict=True)]
    torch.testing.assert_close(cut.score_pairs(shown(), TEXTS), torch.cat(alone))
    assert not torch.isclose(torch.cat(alone), load(name).score_pairs(shown(), TEXTS)).any()


@pytest.mark.parametrize("name", sorted(n for n in WRITERS if not n.startswith("paligemma")))
def test_passes_that_share_a_picture_take_away_what_whole_passes_do(name, load):
    pairs = [("text", "image"), ("image", "image"), ("end", "text"), ("image", "text")]
    looks = tuple(Look(*pair, (at, at + 1)) for at in (0, 1) for pair in pairs[at::2])
    cut = load(name).cut(Cut(HEAD.heads, looks))
    whole = copy.copy(cut)
    whole._family = cut._family._replace(runner=OneByOne)
    torch.testing.assert_close(scores(cut), scores(whole), rtol=1e-4, atol=1e-5)


@FAMILIES
def test_eager_attention_and_sdpa_take_the_same_looks_away(name, load):
    looks = tuple(Look(a, b, (0, 1)) for a, b in [("image", "image"), ("end", "text")])
    found = [scores(load(name, attn).cut(Cut(looks=looks))) for attn in ("eager", "auto")]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@FAMILIES
def test_an_answer_is_written_without_the_head(name, load):
    model = load(name)
    assert model.cut(HEAD).answer(shown(), TEXTS) == with_zeros(model).answer(shown(), TEXTS)


@FAMILIES
def test_states_are_those_without_the_head(name, load):
    model = load(name)
    other = with_zeros(model)
    other._stages = copy.copy(model._stages)
    other._stages._model = other.model
    pixels = torch.stack([model.preprocess(noise(60, 40))])
    found = model.cut(HEAD).encode_images_at(pixels, LANGUAGE)
    expected = other.encode_images_at(pixels, LANGUAGE)
    torch.testing.assert_close(found, expected)
    texts = model.cut(HEAD).encode_texts(TEXTS)
    torch.testing.assert_close(texts, other.encode_texts(TEXTS))


@FAMILIES
def test_an_error_in_a_cut_call_leaves_nothing_behind(name, load):
    model = load(name)
    before, clean = outputs(model), hooks(model)
    cut = model.cut(Cut(HEAD.heads, unable(model, "text").looks))
    broken = model.model.get_decoder().layers[1].mlp
    with broken.register_forward_pre_hook(lambda *_: 1 / 0):
        for call in (scores, outputs, lambda one: one.answer(shown(), TEXTS)):
            with pytest.raises(ZeroDivisionError):
                call(cut)
    assert hooks(model) == clean
    assert equal(outputs(model), before)


def test_a_question_without_a_picture_runs_without_the_head(load):
    model = load("gemma3")
    asked = [Picture(None, None)] * len(TEXTS), TEXTS, ANSWERS
    found = model.cut(HEAD).score_answers(*asked)
    torch.testing.assert_close(found, with_zeros(model).score_answers(*asked))
    assert not torch.isclose(found, model.score_answers(*asked)).any()


def test_texts_by_themselves_have_no_image_and_no_end(load):
    model = load("gemma3")
    blind = model.cut(Cut(looks=(Look("text", "image", (0, 3)), Look("end", "text", (0, 3)))))
    torch.testing.assert_close(blind.encode_texts(TEXTS), model.encode_texts(TEXTS))
    alone = model.cut(Cut(looks=(Look("text", "text", (0, 3)),))).encode_texts(TEXTS)
    assert not torch.isclose(alone, model.encode_texts(TEXTS)).all()


def test_other_layers_than_of_attention_cannot_be_cut(load):
    model = copy.copy(load("gemma3"))
    model.model = copy.deepcopy(model.model)
    del model.model.get_decoder().layers[1].self_attn
    with pytest.raises(CannotDo, match=r"layer 1 of .* has no softmax attention"):
        model.cut(HEAD)


def test_looks_of_an_implementation_without_a_mask_cannot_be_taken_away(load):
    model = copy.copy(load("gemma3"))
    model.model = copy.deepcopy(model.model)
    model.model.get_decoder().config._attn_implementation = "flash_attention_2"
    with pytest.raises(CannotDo, match="by flash_attention_2; use attn=sdpa"):
        model.cut(unable(model, "text"))
    assert model.cut(HEAD)._cut == HEAD


def test_a_kind_of_position_that_is_not_there_is_refused(load):
    with pytest.raises(SpecError, match="positions are image, text, end"):
        load("gemma3").cut(Cut(looks=(Look("region", "image", (0, 1)),)))
