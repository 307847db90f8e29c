"""What all ports of BERT's kin do alike: UNITER, ROSITA and ViLBERT."""

from functools import partial

import pytest
import torch
from ported import near
from ports import PORTS, WIDTH, rosita_original, uniter_original
from tiny_joint import TEXTS, picture

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


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
def test_a_match_has_the_label_that_the_original_gives_it(port, tmp_path):
    model = port.load(tmp_path, {**port.state(tmp_path), **port.match})
    found = model.score_pairs(PICTURES, TEXTS)
    torch.testing.assert_close(found, torch.full((3,), port.certain))


@pytest.mark.parametrize("name", PORTS)
def test_attention_is_of_each_layer_and_head_and_says_whether_it_is_whole(name, opened):
    found = opened(name).model.attend(PICTURES[1:2], TEXTS[1:2])[0]
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.whole is PORTS[name].whole


@pytest.mark.parametrize("name", ["rosita", "vilbert"])
def test_a_lower_limit_can_be_asked_for(name, tmp_path):
    model = PORTS[name].load(tmp_path, PORTS[name].state(tmp_path), limit=6)
    assert model.context_length == 6
    assert model.count_tokens(["cat " * 40]) == [42]
    assert len(model.attend(PICTURES[:1], ["cat " * 40])[0].spans) == 4
