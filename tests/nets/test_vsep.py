import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm, normalize

from vlbench.engine import Engine
from vlbench.engine.passes import Place
from vlbench.engine.store import Store
from vlbench.nets import vsep
from vlbench.nets.vsep import Recipe, Trained, directions, train


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pairs(n=40, width=6, words=5):
    return drawn(n, width), drawn(n, words, seed=1)


def learn(recipe=Recipe(epochs=4, batch_size=16), engine=None):  # noqa: B008 - a tuple
    return train(engine or Engine.for_tests(), *pairs(), recipe)


def same(one, other):
    return all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


def test_the_same_seed_trains_the_same_network_whatever_torchs_generator_did():
    one = learn()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    other = learn()
    assert same(one, other)
    assert torch.equal(state, torch.get_rng_state())
    assert not same(one, learn(Recipe(4, 16, seed=1)))


def test_the_loss_is_the_symmetric_cross_entropy_of_scaled_cosines():
    regions, words = pairs(7)
    rng = torch.Generator().manual_seed(0)
    probe = vsep._untrained(6, 5, rng)
    found = vsep._loss(probe, regions, directions(words, layer_normed=True), layer_normed=True)
    mapped = layer_norm(probe(regions), (5,)).detach().double().numpy()
    said = layer_norm(words, (5,)).double().numpy()
    cosines = [[m @ s / np.linalg.norm(m) / np.linalg.norm(s) for s in said] for m in mapped]
    logits = np.array(cosines) / 0.07
    both = [np.log(np.exp(x).sum(1)) - x.diagonal() for x in (logits, logits.T)]
    assert float(found.detach()) == pytest.approx(np.mean(both), rel=1e-5)


def test_the_scale_never_exceeds_a_hundred():
    probe = vsep._untrained(6, 5, torch.Generator().manual_seed(0))
    targets = directions(pairs(7)[1], layer_normed=True)
    losses = []
    for scale in (np.log(100), 50.0):
        probe.scale.data.fill_(float(scale))
        loss = vsep._loss(probe, pairs(7)[0], targets, layer_normed=True)
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_network_has_two_layers_of_512_and_all_of_it_learns():
    trained, start = learn(), vsep._untrained(6, 5, torch.Generator().manual_seed(0)).state_dict()
    shapes = {name: list(value.shape) for name, value in trained.weights.items()}
    assert shapes == {
        "scale": [], "hidden.weight": [512, 6], "hidden.bias": [512],
        "out.weight": [5, 512], "out.bias": [5],
    }  # fmt: skip
    assert not any(torch.equal(trained.weights[name], start[name]) for name in start)


@pytest.mark.parametrize("layer_normed", [True, False])
def test_directions_are_of_length_one_with_and_without_layer_normalisation(layer_normed):
    trained = learn(Recipe(2, 16, layer_norm=layer_normed))
    found = trained.directions(drawn(3, 6))
    weights = trained.weights
    mapped = (drawn(3, 6) @ weights["hidden.weight"].T + weights["hidden.bias"]).relu()
    mapped = mapped @ weights["out.weight"].T + weights["out.bias"]
    mapped = layer_norm(mapped, (5,)) if layer_normed else mapped
    assert torch.allclose(found.float(), normalize(mapped), atol=1e-5)


def test_training_in_pieces_is_training_at_once(monkeypatch):
    whole = learn(Recipe(7, 16))
    monkeypatch.setattr(vsep, "CHUNK", 3)
    assert same(learn(Recipe(7, 16)), whole)


def test_a_killed_training_goes_on_where_it_was_stored(monkeypatch, tmp_path):
    monkeypatch.setattr(vsep, "CHUNK", 2)
    engine, advance, done = (
        Engine(Place(torch.device("cpu")), store=Store(tmp_path)),
        vsep.advance,
        [],
    )

    def counted(state, regions, words, recipe, epochs, device):
        done.append(epochs)
        if len(done) == 3:
            raise KeyboardInterrupt
        return advance(state, regions, words, recipe, epochs, device)

    monkeypatch.setattr(vsep, "advance", counted)
    with pytest.raises(KeyboardInterrupt):
        learn(Recipe(7, 16), engine)
    resumed = learn(Recipe(7, 16), engine)
    assert done == [2, 2, 2, 2, 1]
    assert same(resumed, learn(Recipe(7, 16), Engine.for_tests()))


def test_what_is_trained_once_is_shared_and_another_recipe_is_not(monkeypatch, tmp_path):
    engine = Engine(Place(torch.device("cpu")), store=Store(tmp_path))
    one = learn(engine=engine)
    monkeypatch.setattr(vsep, "advance", None)
    assert same(learn(engine=engine), one)
    for other in (
        Recipe(5, 16),
        Recipe(4, 8),
        Recipe(4, 16, seed=1),
        Recipe(4, 16, layer_norm=False),
    ):
        with pytest.raises(TypeError, match="not callable"):
            learn(other, engine)


@pytest.mark.parametrize("recipe", [Recipe(epochs=0), Recipe(batch_size=0)])
def test_a_recipe_without_epochs_or_batches_is_refused(recipe):
    with pytest.raises(ValueError, match="epochs and batch_size must be 1 or more"):
        learn(recipe)


def test_regions_are_mapped_in_blocks_alike(monkeypatch):
    trained, regions = learn(), drawn(10, 6)
    whole = trained.directions(regions)
    monkeypatch.setattr(vsep, "BLOCK", 3)
    assert torch.allclose(Trained(*trained).directions(regions), whole, atol=1e-12)
