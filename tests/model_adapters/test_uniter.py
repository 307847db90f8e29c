import json

import pytest
import torch
from ported import golden, near, noisy, tiny_folder
from tiny_joint import CPU, SPANS, TEXTS, adapter, broken_promises, picture

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, DataError, WeightsError

Uniter, Inputs = adapter("uniter:Uniter"), adapter("uniter:Inputs")
WIDTH = 8
LOST = "uniter.encoder.layer.1.output.dense.bias"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("uniter"), img_dim=WIDTH)


@pytest.fixture(scope="module")
def state(folder):
    """The weights of a file of the original code, as its pre-training leaves them."""
    drawn = Uniter(device=CPU, architecture=folder, weights="random").network.state_dict()
    mask = {"uniter.img_embeddings.mask_embedding.weight": torch.ones(2, WIDTH)}
    return {**noisy(drawn), **mask, "cls.predictions.bias": torch.ones(3)}


@pytest.fixture
def load(folder, tmp_path):
    """Return the adapter of a file with these weights."""

    def make(state):
        torch.save(state, tmp_path / "uniter.pt")
        return Uniter(device=CPU, architecture=folder, weights=str(tmp_path / "uniter.pt"))

    return make


@pytest.fixture
def model(load, state):
    return load(state)


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


@pytest.fixture
def original(real_data, tmp_path):
    config = json.loads((real_data / "ports/uniter/config.json").read_text())
    return golden(real_data, "uniter", tmp_path, **config, img_dim=20)


def ported(original, weights="weights.pt"):
    """Return the adapter of the original's weights, and its pictures and texts."""
    given = original.inputs
    model = Uniter(device=CPU, architecture=original.folder, weights=str(original.files / weights))
    pictures = original.pictures(given["img_feat"], given["num_bbs"], given["raw_image_wh"])
    return model, pictures, original.texts(given["input_ids"])


def compact(original, found):
    """Return rows in the original's order: regions directly follow the words of their text."""
    order = original.inputs["gather_index"]
    return torch.stack([row[places] for row, places in zip(found, order, strict=True)])


def real(original):
    """Return where the original has a token or a region, bool [N, L]."""
    return original.inputs["attn_masks"].bool()


def test_embeddings_and_hidden_states_are_the_originals(original):
    model, pictures, texts = ported(original)
    inputs = model._inputs(pictures, texts)[0]
    found = [model.network.embed(inputs), *model.network(inputs).states]
    names = ["embedding_output", *(f"hidden_states.{i}" for i in range(3))]
    for name, ours in zip(names, found, strict=True):
        near(compact(original, ours)[real(original)], original.outputs[name][real(original)])


def test_attention_over_the_whole_sequence_is_the_originals(original):
    model, pictures, texts = ported(original)
    seen = real(original)[:, None, :, None] & real(original)[:, None, None]
    for i, ours in enumerate(model.network(model._inputs(pictures, texts)[0]).attentions):
        rows = compact(original, ours.transpose(1, 2))
        found = compact(original, rows.permute(0, 3, 1, 2)).permute(0, 3, 2, 1)
        shown = seen.expand(found.shape)
        near(found[shown], original.outputs[f"attentions.{i}"][shown])


def test_attention_of_words_to_regions_is_the_originals(original):
    model, pictures, texts = ported(original)
    layers = torch.stack([original.outputs[f"attentions.{k}"] for k in range(3)])
    for i, found in enumerate(model.attend(pictures, texts)):
        words, regions = (int(original.inputs[key][i]) for key in ("txt_lens", "num_bbs"))
        near(found.weights, layers[:, i, :, 1 : words - 1, words : words + regions])
        assert torch.equal(found.boxes, pictures[i].regions.boxes)


def test_scores_are_the_originals(original):
    model, pictures, texts = ported(original)
    found = model.score_pairs(pictures, texts)
    near(found, original.outputs["itm_softmax"][:, 1])
    near(found, original.outputs["unpadded_itm_logits"].softmax(1)[:, 1])


def test_a_file_fine_tuned_for_retrieval_is_scored_by_its_rank(original):
    model, pictures, texts = ported(original, "weights_itr.pt")
    expected = original.outputs["itr_rank_scores"][:, 0].sigmoid()
    near(model.score_pairs(pictures, texts), expected)


def test_label_1_is_a_match(load, state, pictures):
    bias = {"itm_output.weight": torch.zeros(2, 16), "itm_output.bias": torch.tensor([0.0, 2.0])}
    found = load({**state, **bias}).score_pairs(pictures, TEXTS)
    torch.testing.assert_close(found, torch.full((3,), 2.0).sigmoid())


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        assert alone.spans == together[i].spans
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.score_pairs([seen], [text]), scores[i : i + 1])


def test_spans_are_those_of_the_words_alone(model, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    assert found.spans == SPANS
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.whole


def test_the_case_of_letters_is_the_tokenizers(state, tmp_path, pictures):
    folder = tiny_folder(tmp_path, img_dim=WIDTH)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    torch.save(state, tmp_path / "uniter.pt")
    model = Uniter(device=CPU, architecture=folder, weights=str(tmp_path / "uniter.pt"))
    scores = model.score_pairs(pictures[:1] * 3, ["the dog", "The dog", "[UNK] dog"])
    assert scores[1] == scores[2] != scores[0]


def test_regions_in_another_order_get_their_own_attention(model, pictures):
    seen, order = pictures[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)


def test_regions_of_another_width_are_refused_with_both_widths(model, pictures):
    with pytest.raises(DataError, match=r"picture 1 .* 9 wide; the model reads 8$"):
        model.attend([pictures[0], picture(2, 9)], TEXTS[:2])


def test_a_picture_of_no_regions_has_no_columns(model, pictures):
    found = model.attend([picture(0, WIDTH), pictures[0]], TEXTS[:2])
    assert [one.weights.shape[-1] for one in found] == [0, 3]


def test_what_passes_the_limit_is_cut_and_counted(model, pictures):
    assert model.context_length == 16
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == 14


def test_a_missing_weight_is_named(load, state):
    kept = {key: value for key, value in state.items() if key != LOST}
    with pytest.raises(WeightsError, match=rf"uniter\.pt does not fit Network; 1 missing: {LOST}$"):
        load(kept)


def test_a_weight_of_another_shape_is_named(load, state):
    with pytest.raises(WeightsError, match=rf"1 of another shape: {LOST} \(3,\), not \(16,\)"):
        load({**state, LOST: torch.ones(3)})


def test_a_layer_more_than_the_configuration_has_is_refused(load, state):
    with pytest.raises(WeightsError, match=r"1 unexpected: uniter\.encoder\.layer\.2\.bias$"):
        load({**state, "uniter.encoder.layer.2.bias": torch.ones(3)})


def test_a_file_without_heads_attends_and_scores_nothing(load, state, pictures):
    model = load({key: value for key, value in state.items() if "itm_output" not in key})
    assert model.attend(pictures[:1], TEXTS[:1])[0].weights.shape[-1] == 3
    with pytest.raises(CannotDo, match="this checkpoint has no matching head"):
        model.score_pairs(pictures[:1], TEXTS[:1])


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Uniter(device=CPU, architecture=folder, weights="random", init_seed=seed).score_pairs(
            pictures, TEXTS
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model, region_width=WIDTH) == []
