import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captions_world import PAIRS, PLAN, cross_entropy, named, run, said, taught

from vlbench.probes.captioning import captioner_cross_entropy
from vlbench.probes.captioning.captioner_cross_entropy import Learner, cider
from vlbench.probes.captioning.captioner_files import drawn_captioner, learn_vocabulary
from vlbench.probes.captioning.captioner_network import Sizes

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


SHORT = PLAN._replace(epochs=4, dropout=0.5, sampling=0.1, sampling_epochs=2, validate_steps=5)


def told(value):
    return SimpleNamespace(value=value)


def test_a_captioner_learns_to_name_what_an_image_shows():
    found = taught()
    right = [
        set(named(text)) <= set(pair)
        for text, pair in zip(said(found["weights"]), PAIRS, strict=True)
    ]
    assert sum(right) >= 13
    assert found["history"][-1]["loss"] < 1


def test_the_same_seed_trains_the_same_captioner_whatever_torchs_generator_did():
    one = run(cross_entropy(SHORT)).result()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    other = run(cross_entropy(SHORT)).result()
    assert same(one["weights"], other["weights"])
    assert one["history"] == other["history"]
    assert torch.equal(before, torch.get_rng_state())
    changed = run(cross_entropy(SHORT._replace(seed=1))).result()
    assert not same(one["weights"], changed["weights"])


@pytest.mark.parametrize("stop", [1, 3, 7])
def test_a_training_restored_ends_as_one_that_was_never_stopped(stop):
    whole = run(cross_entropy(SHORT)).result()
    state = run(cross_entropy(SHORT), stop=stop).state()
    resumed = cross_entropy(SHORT)
    resumed.restore(state)
    found = run(resumed, start=stop).result()
    assert same(found["weights"], whole["weights"])
    assert found["history"] == whole["history"]


def test_the_network_of_the_best_cider_is_kept(monkeypatch):
    scores = iter([0.2, 0.5, 0.3])
    monkeypatch.setattr(captioner_cross_entropy, "cider", lambda *_: told(next(scores)))
    one = cross_entropy(SHORT)
    middle = run(one, stop=10)._learner.weights()
    found = run(one, start=10).result()
    assert found["steps"] == 10
    assert [entry["steps"] for entry in found["history"]] == [5, 10, 12]
    assert same(found["weights"], middle)


def test_only_so_many_images_are_validated(monkeypatch):
    asked = []
    monkeypatch.setattr(
        captioner_cross_entropy,
        "cider",
        lambda _, words, references: asked.append((len(words), len(references))) or told(0.0),
    )
    run(cross_entropy(SHORT._replace(epochs=1, validate_images=4)))
    assert asked == [(4, 4)]


def test_an_epoch_shows_every_image_once(monkeypatch):
    one, seen = cross_entropy(SHORT._replace(images=4)), []
    learn = one._loss
    monkeypatch.setattr(one, "_loss", lambda images, e: seen.append(images) or learn(images, e))
    run(one, stop=4)
    assert sorted(torch.cat(seen).tolist()) == list(range(len(PAIRS)))
    assert one.steps == 16


def test_cider_leaves_punctuation_out():
    words = learn_vocabulary(["a red cat .", "the blue hat ,"], rare=0, punctuation=True)
    told = [["a red cat", "the blue hat"], ["a red cat .", "the blue hat ,"]]
    found = [cider(words, texts, [["A red cat."], ["the blue hat !"]]).value for texts in told]
    assert found[0] == found[1] > 0
