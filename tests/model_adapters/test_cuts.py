"""Adapters whose models run without some heads, or without some of the attention to positions."""

import copy

import pytest
import torch
from ports import WIDTH
from tiny_joint import TEXTS, noise, picture

from vlbench.capabilities import Cut, Donors, Look, Picture
from vlbench.errors import SpecError

# Of each adapter, the projection of the heads of the last layer.
PROJECTIONS = {
    "uniter": "network.uniter.encoder.layer.1.attention.output.dense",
    "rosita": "network.backbone.layers.1.attention.output.dense",
    "visualbert": "model.visual_bert.encoder.layer.1.attention.output.dense",
    "vilt": "model.vilt.encoder.layer.1.attention.output.dense",
    "lxmert": "model.lxmert.encoder.x_layers.1.visual_attention.output.dense",
    "vilbert": "network.bert.encoder.c_layer.1.biOutput.dense2",
    "blip": "model.text_encoder.encoder.layer.1.crossattention.output.dense",
}
ADAPTERS = pytest.mark.parametrize("name", PROJECTIONS)
ONE_STREAM = pytest.mark.parametrize("name", [*PROJECTIONS][:4])
BOTH = (("text", "image"), ("image", "text"))
# Of each adapter with cross-attention, the looks whose output that projection makes.
CROSS = {"lxmert": BOTH, "vilbert": BOTH[:1], "blip": BOTH[:1]}
# Of each adapter whose streams look at each other, the names of their last states.
STREAMS = {
    "lxmert": {"text": "language_output", "image": "vision_output"},
    "vilbert": {"text": "text", "image": "image"},
}
EVERYWHERE = (0, 2)
BLIND = Cut(looks=(Look("text", "image", EVERYWHERE),))


def pictures(seed):
    """Return pictures with images of one size, and as many regions as each other."""
    regions = [picture(count, WIDTH, seed=seed + i) for i, count in enumerate((3, 5, 1))]
    return [Picture(noise(60, 40, seed + i), one.regions) for i, one in enumerate(regions)]


def projection_of(name, model):
    owner, _, path = PROJECTIONS[name].partition(".")
    return getattr(model, owner).get_submodule(path)


def with_zeros(name, model, head, heads=2):
    """Return a copy of an adapter of which the weights have no use for a head."""
    other = copy.deepcopy(model)
    weight = projection_of(name, other).weight
    size = weight.shape[1] // heads
    weight.data[:, head * size : (head + 1) * size] = 0
    return other


def outputs(model, seed=0):
    attended = [one.weights for one in model.attend(pictures(seed), TEXTS)]
    return [model.score_pairs(pictures(seed), TEXTS), *attended]


def equal(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def are_apart(one, other):
    return (one - other).abs().amax((1, 2)).min() > 1e-3


def hooks(model):
    network = getattr(model, "network", None) or model.model
    return [[*m._forward_pre_hooks, *m._forward_hooks] for m in network.modules()]


@ADAPTERS
def test_parts_are_the_heads_of_each_layer_and_the_kinds_of_positions(name, opened):
    assert opened(name).model.parts() == ((2, 2), ("image", "text"))


@ADAPTERS
def test_without_nothing_the_outputs_are_the_same(name, opened):
    model = opened(name).model
    assert equal(outputs(model.cut(Cut())), outputs(model))


@ADAPTERS
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_a_head_taken_away_is_a_head_whose_projection_is_zero(name, dtype, tolerance, opened):
    tiny, _, given, _ = opened(name)
    model = tiny.load(given, dtype=dtype)
    zeroed = with_zeros(name, model, head=1)
    found = model.cut(Cut(heads=((1, 1),))).score_pairs(pictures(0), TEXTS)
    expected = zeroed.score_pairs(pictures(0), TEXTS)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert not torch.equal(expected, model.score_pairs(pictures(0), TEXTS))


@ADAPTERS
@pytest.mark.parametrize("averaged", [1, 2])
def test_heads_with_their_outputs_for_the_same_picture_change_nothing(name, averaged, opened):
    model, same = opened(name).model, pictures(0)
    cut = Cut(((0, 0), (1, 1)), donors=Donors("", averaged, same * averaged))
    whole, before = model.score_pairs(same, TEXTS), hooks(model)
    assert torch.equal(model.cut(cut).score_pairs(same, TEXTS), whole)
    assert hooks(model) == before


@ADAPTERS
def test_all_heads_with_their_outputs_for_other_pictures_change_the_score(name, opened):
    model = opened(name).model
    every = tuple((layer, head) for layer in (0, 1) for head in (0, 1))
    cut = Cut(every, donors=Donors("", 1, pictures(50)))
    found = model.cut(cut).score_pairs(pictures(0), TEXTS)
    assert not torch.isclose(found, model.score_pairs(pictures(0), TEXTS), rtol=1e-4).any()
    assert not torch.equal(found, model.cut(Cut(every)).score_pairs(pictures(0), TEXTS))


# A score of ViLBERT is of the product of both streams.
@pytest.mark.parametrize("name", [one for one in PROJECTIONS if one != "vilbert"])
def test_words_that_do_not_look_at_the_image_score_alike_with_another(name, opened):
    model = opened(name).model
    blind = model.cut(BLIND)
    whole = [model.score_pairs(pictures(seed), TEXTS) for seed in (0, 50)]
    cut = [blind.score_pairs(pictures(seed), TEXTS) for seed in (0, 50)]
    assert torch.equal(*cut)
    assert not torch.isclose(*whole, rtol=1e-3).any()


@pytest.mark.parametrize("name", ["uniter", "rosita", "visualbert"])
def test_words_that_do_not_look_at_regions_score_as_if_there_were_none(name, opened):
    model = opened(name).model
    bare = [picture(0, WIDTH)] * 3
    found = model.cut(BLIND).score_pairs(pictures(0), TEXTS)
    torch.testing.assert_close(found, model.score_pairs(bare, TEXTS))


@ONE_STREAM
def test_attention_to_what_is_not_looked_at_is_zero_in_these_layers(name, opened):
    half = opened(name).model.cut(Cut(looks=(Look("text", "image", (1, 2)),)))
    for one in half.attend(pictures(0), TEXTS):
        assert one.weights[0].gt(0).all()
        assert one.weights[1].eq(0).all()


@ONE_STREAM
def test_regions_that_look_only_at_themselves_leave_finite_scores(name, opened):
    looks = [Look("image", "image", EVERYWHERE), Look("image", "text", EVERYWHERE)]
    cut = opened(name).model.cut(Cut(looks=(*looks, Look("text", "text", EVERYWHERE))))
    assert cut.score_pairs(pictures(0), TEXTS).isfinite().all()


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("source", "target"), BOTH)
def test_only_a_stream_that_does_not_look_at_the_other_is_the_same(name, source, target, opened):
    model = opened(name).model
    blind = model.cut(Cut(looks=(Look(source, target, EVERYWHERE),)))
    neither = blind.cut(Cut(looks=(Look(target, source, EVERYWHERE),)))
    others = (pictures(50), TEXTS) if target == "image" else (pictures(0), [*TEXTS[1:], TEXTS[0]])
    given = [model._inputs(*pairs)[0] for pairs in ((pictures(0), TEXTS), others)]

    def states(one, stream):
        return [getattr(one._run(inputs), STREAMS[name][stream]) for inputs in given]

    assert torch.equal(*states(blind, source))
    assert are_apart(*states(model, source))
    assert are_apart(states(blind, target)[0], states(neither, target)[0])


@pytest.mark.parametrize("name", CROSS)
def test_looks_of_cross_attention_are_its_whole_output_and_its_attention_stays(name, opened):
    model = copy.deepcopy(opened(name).model)
    bias = projection_of(name, model).bias
    bias.data.copy_(torch.linspace(-1, 1, len(bias)) ** 2)
    zeroed = copy.deepcopy(model)
    for weight in projection_of(name, zeroed).parameters():
        weight.data.zero_()
    cut = model.cut(Cut(looks=tuple(Look(*look, (1, 2)) for look in CROSS[name])))
    torch.testing.assert_close(outputs(cut), outputs(zeroed))
    assert equal(outputs(cut)[1:], outputs(model)[1:])
    assert not torch.isclose(outputs(cut)[0], outputs(model)[0], rtol=1e-3).any()


@ADAPTERS
def test_a_cut_of_a_cut_takes_both_parts_away(name, opened):
    model = opened(name).model
    head = Cut(heads=((0, 1),))
    both = model.cut(Cut(head.heads, BLIND.looks))
    assert equal(outputs(model.cut(head).cut(BLIND)), outputs(both))
    assert not equal(outputs(both)[1:], outputs(model)[1:])


@ADAPTERS
def test_an_error_in_a_cut_call_leaves_nothing_behind(name, opened):
    model = opened(name).model
    before, clean = outputs(model), hooks(model)
    cut = model.cut(Cut(((0, 0),), BLIND.looks))
    broken = projection_of(name, model)
    with broken.register_forward_pre_hook(lambda *_: 1 / 0), pytest.raises(ZeroDivisionError):
        cut.score_pairs(pictures(0), TEXTS)
    assert hooks(model) == clean
    assert equal(outputs(model), before)


ABSENT_PARTS = [
    ("uniter", Cut(heads=((2, 0),)), r"no head 0 in layer 2; the layers 0\.\.1 have 2, 2 heads"),
    ("uniter", Cut(heads=((0, -1),)), "no head -1 in layer 0"),
    (
        "uniter",
        Cut(looks=(Look("end", "image", (0, 1)),)),
        "'end' to 'image'; positions are image, text",
    ),
    ("uniter", Cut(looks=(Look("text", "image", (0, 3)),)), "no layers 0 up to, not including, 3"),
    ("uniter", Cut(looks=(Look("text", "image", (1, 1)),)), "there are 2 layers"),
    ("blip", Cut(heads=((1, 2),)), "no head 2 in layer 1"),
    ("vilbert", Cut(looks=(Look("image", "text", (0, 3)),)), "not including, 3"),
    ("vilbert", Cut(looks=(Look("text", "text", (0, 1)),)), "or 'image' to 'text'$"),
    ("blip", Cut(looks=(Look("image", "text", (0, 1)),)), "cross-attention of 'text' to 'image'$"),
    ("lxmert", Cut(looks=(Look("image", "image", (0, 1)),)), "no attention of 'image' to 'image'"),
]


@pytest.mark.parametrize(("name", "what", "match"), ABSENT_PARTS)
def test_a_part_that_is_not_there_is_refused(name, what, match, opened):
    with pytest.raises(SpecError, match=match):
        opened(name).model.cut(what)
