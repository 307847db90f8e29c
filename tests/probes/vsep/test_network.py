import numpy as np
import pytest
import torch
from named_world import drawn
from torch.nn.functional import layer_norm, normalize

from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.probes.vsep import network
from vlbench.probes.vsep.network import RegionWords, TrainedVsep, VsepTraining, directions, train


def pairs(n=40, width=6, words=5):
    return RegionWords(drawn(n, width), drawn(n, words, seed=1))


def trained(epochs=4, batch_size=16, seed=0, engine=None, **options):
    training = VsepTraining(epochs, batch_size, seed)
    return train(engine or Engine.for_tests(), pairs(), training, **options)


def same(one, other):
    return all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


def test_the_same_seed_trains_the_same_network_whatever_torchs_generator_did():
    one = trained()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    other = trained()
    assert same(one, other)
    assert torch.equal(state, torch.get_rng_state())
    assert not same(one, trained(seed=1))


def test_the_loss_is_the_symmetric_cross_entropy_of_scaled_cosines():
    regions, words = pairs(7)
    rng = torch.Generator().manual_seed(0)
    probe = network._initialise(6, 5, rng)
    found = network._loss(probe, regions, directions(words, layer_normed=True), layer_normed=True)
    mapped = layer_norm(probe(regions), (5,)).detach().double().numpy()
    targets = layer_norm(words, (5,)).double().numpy()
    cosines = [[m @ t / np.linalg.norm(m) / np.linalg.norm(t) for t in targets] for m in mapped]
    logits = np.array(cosines) / 0.07
    both = [np.log(np.exp(x).sum(1)) - x.diagonal() for x in (logits, logits.T)]
    assert float(found.detach()) == pytest.approx(np.mean(both), rel=1e-5)


def test_the_scale_never_exceeds_a_hundred():
    probe = network._initialise(6, 5, torch.Generator().manual_seed(0))
    targets = directions(pairs(7)[1], layer_normed=True)
    losses = []
    for scale in (np.log(100), 50.0):
        probe.scale.data.fill_(float(scale))
        loss = network._loss(probe, pairs(7)[0], targets, layer_normed=True)
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_network_has_two_layers_of_512_and_all_of_it_learns():
    net = trained()
    start = network._initialise(6, 5, torch.Generator().manual_seed(0)).state_dict()
    shapes = {name: list(value.shape) for name, value in net.weights.items()}
    assert shapes == {
        "scale": [], "hidden.weight": [512, 6], "hidden.bias": [512],
        "out.weight": [5, 512], "out.bias": [5],
    }  # fmt: skip
    assert not any(torch.equal(net.weights[name], start[name]) for name in start)


@pytest.mark.parametrize("layer_normed", [True, False])
def test_directions_are_of_length_one_with_and_without_layer_normalisation(layer_normed):
    net = trained(2, layer_normed=layer_normed)
    found = net.directions(drawn(3, 6))
    weights = net.weights
    mapped = (drawn(3, 6) @ weights["hidden.weight"].T + weights["hidden.bias"]).relu()
    mapped = mapped @ weights["out.weight"].T + weights["out.bias"]
    mapped = layer_norm(mapped, (5,)) if layer_normed else mapped
    assert torch.allclose(found.float(), normalize(mapped), atol=1e-5)


def test_training_in_pieces_is_training_at_once(monkeypatch):
    whole = trained(7)
    monkeypatch.setattr(network, "EPOCHS_PER_CHECKPOINT", 3)
    assert same(trained(7), whole)


def test_a_killed_training_resumes_at_its_last_checkpoint(monkeypatch, tmp_path):
    monkeypatch.setattr(network, "EPOCHS_PER_CHECKPOINT", 2)
    engine = Engine(ComputeSettings(torch.device("cpu")), store=Store(tmp_path))
    advance, done = network.advance, []

    def counted(state, pairs, training, device, **options):
        done.append(training.epochs)
        if len(done) == 3:
            raise KeyboardInterrupt
        return advance(state, pairs, training, device, **options)

    monkeypatch.setattr(network, "advance", counted)
    with pytest.raises(KeyboardInterrupt):
        trained(7, engine=engine)
    resumed = trained(7, engine=engine)
    assert done == [2, 2, 2, 2, 1]
    assert same(resumed, trained(7))


def test_what_is_trained_once_is_shared_and_other_training_is_not(monkeypatch, tmp_path):
    engine = Engine(ComputeSettings(torch.device("cpu")), store=Store(tmp_path))
    one = trained(engine=engine)
    monkeypatch.setattr(network, "_loss", None)
    assert same(trained(engine=engine), one)
    for other in ({"epochs": 5}, {"batch_size": 8}, {"seed": 1}, {"layer_normed": False}):
        with pytest.raises(TypeError, match="not callable"):
            trained(engine=engine, **other)


@pytest.mark.parametrize("training", [{"epochs": 0}, {"batch_size": 0}])
def test_training_without_epochs_or_batches_is_refused(training):
    with pytest.raises(ValueError, match="epochs and batch_size must be 1 or more"):
        trained(**training)


def test_regions_are_mapped_in_blocks_to_the_same_vectors(monkeypatch):
    net, regions = trained(), drawn(10, 6)
    whole = net.directions(regions)
    monkeypatch.setattr(network, "BLOCK", 3)
    assert torch.allclose(TrainedVsep(*net).directions(regions), whole, atol=1e-12)
