import copy
from itertools import repeat

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn.functional import cross_entropy

from vlbench.engine import Engine
from vlbench.engine import training as checkpoints
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import TooFewRows
from vlbench.probes.generalization import linear as module
from vlbench.probes.generalization.linear import (
    LinearProbeOptimum,
    LinearProbeTraining,
    LinearTraining,
    classify,
    require_train_images,
    train_linear_probe,
    train_linear_probe_once,
    zero_probe,
)

CPU = torch.device("cpu")


def blobs(*per_class):
    """Return float32 features of overlapping classes, and their labels."""
    drawn = {"n_features": 6, "cluster_std": 5.0, "shuffle": False, "random_state": 0}
    points, label = make_blobs(per_class, **drawn)
    return torch.tensor(points, dtype=torch.float32), torch.from_numpy(label)


def by_pytorch(features, label, training):
    """Return the layer that PyTorch's own initialisation, order and Adam give for a global seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        linear = nn.Linear(features.shape[1], int(label.max()) + 1)
        rates = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
        adam = torch.optim.Adam(linear.parameters(), **rates, fused=True)
        for _ in range(training.epochs):
            for rows in torch.randperm(len(label)).split(training.batch_size):
                adam.zero_grad()
                cross_entropy(linear(features[rows]), label[rows]).backward()
                adam.step()
    return linear.requires_grad_(requires_grad=False)


def by_numpy(linear, features, label, orders, training):
    """Return weight and bias, [C, D + 1] float64, after Kingma and Ba's Adam from a layer's."""
    x = np.hstack([features.double().numpy(), np.ones((len(label), 1))])
    w = np.hstack([linear["weight"].double().numpy(), linear["bias"].double().numpy()[:, None]])
    target, step = np.eye(len(w))[label.numpy()], 0
    first, second = np.zeros_like(w), np.zeros_like(w)
    for rows in [rows for order in orders for rows in torch.split(order, training.batch_size)]:
        error = (softmax(x[rows] @ w.T, axis=1) - target[rows]) / len(rows)
        gradient, step = error.T @ x[rows] + training.weight_decay * w, step + 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        w -= training.learning_rate * first / (1 - 0.9**step) / root
    return w


@pytest.mark.parametrize("seed", [0, 5])
def test_the_weights_are_those_of_a_plain_pytorch_loop_and_the_global_generator_is_left_alone(seed):
    features, label = blobs(40, 30, 50)
    training = LinearTraining(7, 32, 1e-2, 5e-4, seed)
    state = torch.get_rng_state()
    found = train_linear_probe([features] * 7, label, (3, 6), training, CPU)
    assert torch.equal(torch.get_rng_state(), state)
    linear = by_pytorch(features, label, training)
    assert torch.equal(found["weight"], linear.weight)
    assert torch.equal(found["bias"], linear.bias)


def test_the_weights_are_those_of_adam_written_out():
    features, label = blobs(40, 30, 50)
    training = LinearTraining(4, 32, 1e-3, 0.1, 3)
    rng = torch.Generator().manual_seed(3)
    torch.rand(3 * 6 + 3, generator=rng)
    orders = [torch.randperm(120, generator=rng) for _ in range(4)]
    start = train_linear_probe([], label, (3, 6), training, CPU)
    found = train_linear_probe([features] * 4, label, (3, 6), training, CPU)
    expected = by_numpy(start, features, label, orders, training)
    assert found["weight"].numpy() == pytest.approx(expected[:, :6], abs=1e-6)
    assert found["bias"].numpy() == pytest.approx(expected[:, 6], abs=1e-6)


def test_each_epoch_has_features_of_its_own():
    features, label = blobs(8, 8)
    training = LinearTraining(batch_size=16, learning_rate=0.01)
    mirrored = train_linear_probe([features, -features], label, (2, 6), training, CPU)
    same = train_linear_probe([features, features], label, (2, 6), training, CPU)
    assert not torch.equal(mirrored["weight"], same["weight"])


def trained(folder):
    features, label = blobs(40, 30, 50)
    engine = Engine(ComputeSettings(CPU), store=Store(folder))
    return train_linear_probe_once(engine, features, label, (3, 6), LinearTraining(3, 25))


def test_a_killed_training_goes_on_at_its_checkpoint_to_the_same_bits(tmp_path, monkeypatch):
    whole = trained(tmp_path / "whole")
    step, steps = LinearProbeTraining.step, []

    def dies_once(self, number):
        steps.append(number)
        if len(steps) == 8:  # in the second epoch of five steps
            raise KeyboardInterrupt
        step(self, number)

    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(LinearProbeTraining, "step", dies_once)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path)
    again = trained(tmp_path)
    assert steps == [*range(8), *range(7, 15)]
    assert all(torch.equal(again[name], whole[name]) for name in ("weight", "bias"))


def test_a_probe_is_trained_once_per_features_labels_and_training(tmp_path, monkeypatch):
    engine = Engine(ComputeSettings(CPU), store=Store(tmp_path))
    features, label = blobs(8, 8)
    training = LinearTraining(epochs=2)
    first = train_linear_probe_once(engine, features, label, (2, 6), training)
    expected = train_linear_probe(repeat(features, 2), label, (2, 6), training, CPU)
    assert torch.equal(first["weight"], expected["weight"])
    monkeypatch.setattr(module, "LinearProbeTraining", None)
    again = train_linear_probe_once(engine, features, label, (2, 6), training)
    assert torch.equal(first["weight"], again["weight"])
    others = [training._replace(seed=1), training._replace(epochs=3)]
    for args in [(features, label, one) for one in others] + [(2 * features, label, training)]:
        with pytest.raises(TypeError, match="not callable"):
            train_linear_probe_once(engine, *args[:2], (2, 6), args[2])


def test_a_zero_probe_prefers_no_class():
    choice = classify(zero_probe(4, 3), torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0]))
    assert choice.credit.tolist() == [0.25] * 5


def test_logits_that_differ_by_less_than_the_rounding_of_what_they_sum_are_tied():
    probe = {"weight": torch.tensor([[1.0, -1.0]] * 2), "bias": torch.tensor([0.0, 1e-4])}
    x = torch.tensor([[1000.0, 1000.0], [1.0, 1.0]])
    assert classify(probe, x, torch.tensor([0, 0])).credit.tolist() == [0.5, 0.0]


def test_many_images_are_classified_in_blocks_to_the_same_result(monkeypatch):
    features, label = blobs(40, 30, 50)
    probe = train_linear_probe([features], label, (3, 6), LinearTraining(1), CPU)
    whole = classify(probe, features, label)
    monkeypatch.setattr(module, "BLOCK", 21)
    parts = classify(probe, features, label)
    assert torch.equal(parts.credit, whole.credit)
    assert 0 < whole.credit.mean() < 1


def test_a_class_without_train_images_is_named_and_one_that_the_test_images_lack_is_no_obstacle():
    train, test = torch.tensor([0, 0, 2]), torch.tensor([1, 1, 2])
    with pytest.raises(TooFewRows, match="class 'dog' has 2 test images, but no train image"):
        require_train_images(train, test, ["cat", "dog", "eel"])
    require_train_images(torch.tensor([0, 1, 2]), torch.tensor([1]), ["cat", "dog", "eel"])


LBFGS = LinearTraining(optimizer="lbfgs", weight_decay=0.01)


@pytest.mark.parametrize("scale", [1.0, 100.0, 0.01])
@pytest.mark.parametrize("passed", [1 << 14, 50])
def test_the_optimum_is_that_of_logistic_regression(scale, passed, monkeypatch):
    monkeypatch.setattr(module, "PASSED", passed)
    features, label = blobs(40, 30, 50)
    features = scale * features
    engine = Engine(ComputeSettings(CPU))
    found = train_linear_probe_once(engine, features, label, (3, 6), LBFGS)
    # The library leaves an intercept without a penalty, so the bias is the weight of a constant.
    x = np.hstack([features.double().numpy(), np.ones((120, 1))])
    peer = LogisticRegression(C=1 / (120 * 0.01), fit_intercept=False, tol=1e-9, max_iter=10_000)
    expected = peer.fit(x, label.numpy()).coef_
    assert found["converged"]
    other = {"weight": expected[:, :6], "bias": expected[:, 6]}
    best = penalised_loss({k: torch.tensor(v).float() for k, v in other.items()}, features, label)
    assert penalised_loss(found, features, label) == pytest.approx(best, rel=1e-4)
    if scale == 1:
        assert found["weight"].numpy() == pytest.approx(expected[:, :6], abs=2e-3)
        assert found["bias"].numpy() == pytest.approx(expected[:, 6], abs=5e-3)


def test_adam_approaches_the_optimum_that_lbfgs_goes_to():
    features, label = blobs(40, 30, 50)
    best = train_linear_probe_once(Engine(ComputeSettings(CPU)), features, label, (3, 6), LBFGS)
    losses = []
    for epochs in (1, 20, 500):
        adam = LinearTraining(epochs, 120, 0.01, 0.01)
        probe = train_linear_probe([features] * epochs, label, (3, 6), adam, CPU)
        found = [penalised_loss(one, features, label) for one in (probe, best)]
        losses.append(found[0] - found[1])
    assert losses == sorted(losses, reverse=True)
    assert -1e-6 < losses[-1] < 0.05 * losses[0]


def penalised_loss(probe, features, label):
    logits = features @ probe["weight"].T + probe["bias"]
    squares = probe["weight"].square().sum() + probe["bias"].square().sum()
    return float(cross_entropy(logits, label) + 0.01 / 2 * squares)


def test_a_training_by_lbfgs_goes_on_where_it_stopped():
    features, label = blobs(40, 30, 50)
    weak = LBFGS._replace(weight_decay=1e-6)
    whole, half, rest = (LinearProbeOptimum(features, label, (3, 6), weak, CPU) for _ in range(3))
    for number in range(4):
        whole.step(number)
    half.step(0)
    half.step(1)
    rest.restore(copy.deepcopy(half.state()))
    rest.step(2)
    rest.step(3)
    assert torch.equal(rest.result()["weight"], whole.result()["weight"])
    assert not torch.equal(half.result()["weight"], whole.result()["weight"])


def test_features_that_are_all_zero_leave_the_weights_at_zero():
    given = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), (2, 2), LBFGS
    probe = train_linear_probe_once(Engine(ComputeSettings(CPU)), *given)
    assert probe["converged"]
    assert not probe["weight"].any()
