"""What all ports of BERT's kin do alike: UNITER, ROSITA and ViLBERT."""

from functools import partial

import pytest
import torch
from ported import near
from ports import PORTS, WIDTH, rosita_original, uniter_original
from tiny_joint import SPANS, TEXTS, broken_promises, picture

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, DataError, WeightsError

ORIGINALS = {
    "uniter": uniter_original,
    "uniter for retrieval": partial(uniter_original, weights="weights_itr.pt"),
    "rosita": rosita_original,
    "rosita before": partial(rosita_original, weights="weights_pretrain.pt"),
}
PICTURES = [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


@pytest.fixture(params=ORIGINALS)
def original(request, real_data, tmp_path):
    return ORIGINALS[request.param](real_data, tmp_path)


def compact(original, found):
    """Return rows [N, L, ...] in the original's order."""
    return torch.stack([row[places] for row, places in zip(found, original.order, strict=True)])


def test_embeddings_and_hidden_states_are_the_originals(original):
    network, inputs = original.model.network, original.model._inputs(*original.pairs)[0]
    found = [network.embed(inputs), *network(inputs).states]
    for ours, theirs in zip(found, original.states, strict=True):
        near(compact(original, ours)[original.real], theirs[original.real])


def test_attention_over_the_whole_sequence_is_the_originals(original):
    seen = original.real[:, None, :, None] & original.real[:, None, None]
    found = original.model.network(original.model._inputs(*original.pairs)[0]).attentions
    for ours, theirs in zip(found, original.attentions, strict=True):
        rows = compact(original, ours.transpose(1, 2))
        ordered = compact(original, rows.permute(0, 3, 1, 2)).permute(0, 3, 2, 1)
        near(ordered[seen.expand(theirs.shape)], theirs[seen.expand(theirs.shape)])


def test_attention_of_words_to_regions_is_the_originals(original):
    pictures = original.pairs[0]
    found = original.model.attend(*original.pairs)
    for ours, theirs, seen in zip(found, original.to_regions, pictures, strict=True):
        near(ours.weights, theirs)
        assert torch.equal(ours.boxes, seen.regions.boxes)


def test_scores_are_the_originals(original):
    near(original.model.score_pairs(*original.pairs), original.scores)


@pytest.fixture(scope="module", params=PORTS)
def drawn(request, tmp_path_factory):
    """A port, the folder of its configuration, its weights, and the adapter of them."""
    port, folder = PORTS[request.param], tmp_path_factory.mktemp("port")
    state = port.state(folder)
    return port, folder, state, port.load(folder, state)


@pytest.fixture
def port(drawn):
    return drawn[0]


@pytest.fixture
def state(drawn):
    return dict(drawn[2])


@pytest.fixture
def model(drawn):
    return drawn[3]


@pytest.fixture
def load(drawn):
    return partial(drawn[0].load, drawn[1])


def test_a_match_has_the_label_that_the_original_gives_it(port, load, state):
    found = load({**state, **port.match}).score_pairs(PICTURES, TEXTS)
    torch.testing.assert_close(found, torch.full((3,), port.certain))


def test_padding_changes_neither_attention_nor_scores(model):
    together, scores = model.attend(PICTURES, TEXTS), model.score_pairs(PICTURES, TEXTS)
    for i, (seen, text) in enumerate(zip(PICTURES, TEXTS, strict=True)):
        alone, score = model.attend([seen], [text])[0], model.score_pairs([seen], [text])
        assert alone.spans == together[i].spans
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(score, scores[i : i + 1], rtol=1e-4, atol=1e-6)


def test_spans_are_those_of_the_words_alone(port, model):
    found = model.attend(PICTURES[1:2], TEXTS[1:2])[0]
    assert found.spans == SPANS
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.whole is port.whole


def test_regions_in_another_order_get_their_own_attention(model):
    seen, order = PICTURES[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)


def test_regions_of_another_width_are_refused_with_both_widths(model):
    with pytest.raises(DataError, match=r"picture 1 .* 9 wide; the model reads 8$"):
        model.attend([PICTURES[0], picture(2, 9)], TEXTS[:2])


def test_what_passes_the_limit_is_cut_and_counted(model):
    assert model.context_length == 16
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(PICTURES[:1], ["cat " * 40])[0].spans) == 14


def test_a_missing_weight_is_named_as_the_library_names_it(port, load, state):
    del state[port.lost]
    misfit = rf"{port.file} does not fit Network; 1 missing: {port.lost}$"
    with pytest.raises(WeightsError, match=misfit):
        load(state)


def test_a_weight_of_another_shape_is_named(port, load, state):
    with pytest.raises(WeightsError, match=rf"1 of another shape: {port.lost} \(3,\), not \(16,\)"):
        load({**state, port.lost: torch.ones(3)})


def test_a_file_without_the_head_attends_and_scores_nothing(port, load, state):
    model = load({key: value for key, value in state.items() if not key.startswith(port.head)})
    assert model.attend(PICTURES[:1], TEXTS[:1])[0].weights.shape[-1] == 3
    with pytest.raises(CannotDo, match=f"{port.refused}$"):
        model.score_pairs(PICTURES[:1], TEXTS[:1])


def test_random_weights_obey_their_seed(drawn):
    models = [drawn[0].drawn(drawn[1], init_seed=seed) for seed in (0, 0, 1)]
    first, same, other = (model.attend(PICTURES, TEXTS)[0].weights for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    first, same, other = (model.score_pairs(PICTURES, TEXTS) for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model, region_width=WIDTH) == []


@pytest.mark.parametrize("name", ["rosita", "vilbert"])
def test_a_lower_limit_can_be_asked_for(name, tmp_path):
    model = PORTS[name].load(tmp_path, PORTS[name].state(tmp_path), limit=6)
    assert model.context_length == 6
    assert model.count_tokens(["cat " * 40]) == [42]
    assert len(model.attend(PICTURES[:1], ["cat " * 40])[0].spans) == 4
