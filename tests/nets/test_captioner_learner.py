import copy

import numpy as np
import pytest
import torch

from vlbench.nets.captioner import Sizes
from vlbench.nets.captioner_learner import Learner
from vlbench.nets.captioner_weights import drawn_captioner

CPU = torch.device("cpu")
SIZES = Sizes(features=2, words=3, embedding=2, hidden=2)
CLIP = 0.1
# Gradients of four biases at three steps, of which some are cut; and the rates.
GRADIENTS = torch.tensor([[3.0, -0.05, 0.0, 0.1], [-0.02, -9.0, 0.0, 0.1], [0.5, 0.03, 1.0, 0.1]])
RATES = (0.1, 0.01, 0.2)


def learner(*, seed=0, sizes=SIZES):
    network = drawn_captioner(sizes, torch.Generator().manual_seed(1))
    return Learner(network, CPU, clip=CLIP, seed=seed)


def learn(one, steps=range(3)):
    """Do steps whose gradients of the bias of the output are given, and of all else zero."""
    for i in steps:
        one.descend((GRADIENTS[i] * one.network.logit.bias).sum(), RATES[i])
    return one


def adam(weight, gradients, rates):
    """Return a weight after steps of Adam. Kingma and Ba 2015, arXiv:1412.6980, algorithm 1."""
    first, second = np.zeros_like(weight), np.zeros_like(weight)
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        weight = weight - rate * step
    return weight


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_steps_are_those_of_adam_with_gradients_cut_by_value():
    one = learner()
    before = one.weights()
    after = learn(one).weights()
    cut = GRADIENTS.double().numpy().clip(-CLIP, CLIP)
    expected = adam(before.pop("logit.bias").double().numpy(), cut, RATES)
    np.testing.assert_allclose(after.pop("logit.bias").numpy(), expected, rtol=1e-5, atol=1e-6)
    assert same(before, after)


def test_the_weights_given_stay_as_they_were_when_more_is_learnt():
    one = learner()
    given = one.weights()
    kept = copy.deepcopy(given)
    learn(one)
    assert same(given, kept)
    assert not same(given, one.weights())


def test_a_learner_restored_goes_on_as_the_one_whose_state_it_is():
    whole = learner()
    learn(whole, [0, 1]).shuffled(9)
    state = copy.deepcopy(whole.state())
    resumed = learner(seed=5)
    resumed.restore(state)
    assert torch.equal(resumed.shuffled(50), whole.shuffled(50))
    assert same(learn(resumed, [2]).weights(), learn(whole, [2]).weights())


def test_a_state_of_another_size_is_refused():
    state = learner(sizes=SIZES._replace(words=5)).state()
    with pytest.raises(RuntimeError, match=r"size mismatch for embed.weight"):
        learner().restore(state)


def test_a_loss_of_no_weight_is_refused():
    with pytest.raises(RuntimeError, match="does not require grad"):
        learner().descend(torch.tensor(1.0), 0.1)


def test_all_numbers_are_shuffled_by_the_seed_alone():
    before = torch.get_rng_state()
    one, again, other = (learner(seed=seed).shuffled(50) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert one.sort().values.tolist() == list(range(50))
    assert torch.equal(before, torch.get_rng_state())
    assert learner().shuffled(0).tolist() == []


def test_every_epoch_has_an_order_of_its_own():
    one = learner()
    assert not torch.equal(one.shuffled(50), one.shuffled(50))
