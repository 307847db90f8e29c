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

Lxmert = adapter("lxmert:Lxmert")
WIDTH = 8
LAYERS = {"l_layers": 1, "r_layers": 1, "x_layers": 2}
HEADS = {"num_object_labels": 5, "num_attr_labels": 3, "num_qa_labels": 4}
CONFIG = {**TINY, **LAYERS, **HEADS, "visual_feat_dim": WIDTH}


def make(folder, kind=transformers.LxmertForPreTraining):
    return save(folder, kind(transformers.LxmertConfig(**CONFIG)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("lxmert"))


@pytest.fixture(scope="module")
def model(folder):
    return Lxmert(device=CPU, architecture=folder)


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


def library(folder, seen):
    """Return what the library's model gives for two dogs and a picture."""
    whole = transformers.LxmertForPreTraining.from_pretrained(folder)
    with torch.no_grad():
        return whole(
            input_ids=torch.tensor(TWO_DOGS),
            visual_feats=seen.regions.vectors[None],
            visual_pos=(seen.regions.boxes / torch.tensor([60, 40, 60, 40]))[None],
            output_attentions=True,
        )


def test_attention_is_the_librarys_in_each_cross_layer(model, folder, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    expected = torch.stack(library(folder, pictures[1]).cross_encoder_attentions)
    torch.testing.assert_close(found.weights, expected[:, 0, :, 1:3])
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.spans == SPANS
    assert torch.equal(found.boxes, pictures[1].regions.boxes)


def test_attention_is_shared_among_regions_alone(model, pictures):
    found = model.attend(pictures, TEXTS)
    assert not any(one.whole for one in found)
    for one in found:
        torch.testing.assert_close(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]))


def test_a_score_is_the_librarys_probability_of_label_1(model, folder, pictures):
    expected = library(folder, pictures[1]).cross_relationship_score.softmax(-1)[:, 1]
    torch.testing.assert_close(model.score_pairs(pictures[1:2], TEXTS[1:2]), expected)


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.score_pairs([seen], [text]), scores[i : i + 1])


def test_regions_in_another_order_get_their_own_attention(model, pictures):
    seen, order = pictures[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)


def test_regions_of_another_width_are_refused_with_both_widths(model):
    with pytest.raises(DataError, match=r"picture 0 .* 9 wide; the model reads 8$"):
        model.attend([picture(2, 9)], TEXTS[:1])


def test_a_picture_of_no_regions_is_refused(model, pictures):
    with pytest.raises(DataError, match=r"picture 1 of the batch has no regions$"):
        model.attend([pictures[0], picture(0, WIDTH)], TEXTS[:2])


def test_what_passes_the_limit_is_cut_and_counted(model, pictures):
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == model.context_length - 2


def test_a_checkpoint_without_heads_attends_and_scores_nothing(tmp_path, pictures):
    model = Lxmert(device=CPU, architecture=make(tmp_path, transformers.LxmertModel))
    assert model.attend(pictures[:1], TEXTS[:1])[0].weights.shape[-1] == 3
    with pytest.raises(CannotDo, match="this checkpoint has no matching head"):
        model.score_pairs(pictures[:1], TEXTS[:1])


def test_a_weight_that_a_folder_lacks_is_named(folder, tmp_path):
    lost = "lxmert.encoder.visn_fc.box_fc.weight"
    with pytest.raises(WeightsError, match=r"lacks 1 weights: .*box_fc\.weight$"):
        Lxmert(device=CPU, weights=copy_without(lost, folder, tmp_path))


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Lxmert(device=CPU, architecture=folder, weights="random", init_seed=seed).score_pairs(
            pictures, TEXTS
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model, region_width=WIDTH) == []
