import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from caption_world import (
    PAIRS,
    PLAN,
    VOCABULARY,
    cross_entropy,
    features,
    named,
    network,
    run,
    said,
)
from caption_world import taught as taught_once

from vlbench.probes.captioning import captioner_training
from vlbench.probes.captioning.captioner_files import (
    StoredCaptioner,
    draw_captioner,
    learn_vocabulary,
)
from vlbench.probes.captioning.captioner_network import Sizes
from vlbench.probes.captioning.captioner_training import (
    CaptionerTraining,
    SelfCritical,
    SelfCriticalTraining,
    advantages,
    cider,
)

CPU = torch.device("cpu")
SIZES = Sizes(features=2, words=3, embedding=2, hidden=2)
CLIP = 0.1
# Gradients of four biases at three steps, of which some are cut; and the rates.
GRADIENTS = torch.tensor([[3.0, -0.05, 0.0, 0.1], [-0.02, -9.0, 0.0, 0.1], [0.5, 0.03, 1.0, 0.1]])
RATES = (0.1, 0.01, 0.2)


def stage(seed=0):
    """Return a training whose batches are epochs of 50 images."""
    drawn = draw_captioner(SIZES, torch.Generator().manual_seed(1))
    return CaptionerTraining(drawn, CPU, clip=CLIP, seed=seed, count=50, images=50)


def order(one, number=0):
    return one.batch(number)[1]


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
    one = stage()
    before = one.weights()
    after = learn(one).weights()
    cut = GRADIENTS.double().numpy().clip(-CLIP, CLIP)
    expected = adam(before.pop("logit.bias").double().numpy(), cut, RATES)
    np.testing.assert_allclose(after.pop("logit.bias").numpy(), expected, rtol=1e-5, atol=1e-6)
    assert same(before, after)


def test_the_weights_given_stay_as_they_were_when_more_is_learnt():
    one = stage()
    given = one.weights()
    kept = copy.deepcopy(given)
    learn(one)
    assert same(given, kept)
    assert not same(given, one.weights())


def test_a_stage_restored_goes_on_as_the_one_whose_state_it_is():
    whole = stage()
    first = order(learn(whole, [0, 1]))
    state = copy.deepcopy(whole.state())
    resumed = stage(seed=5)
    resumed.restore(state)
    assert torch.equal(order(resumed, 1), order(whole, 1))
    assert not torch.equal(order(whole, 2), first)
    assert same(learn(resumed, [2]).weights(), learn(whole, [2]).weights())


def test_all_images_are_shuffled_by_the_seed_alone_and_anew_in_every_epoch():
    before = torch.get_rng_state()
    first, again, seeded = (stage(seed=seed) for seed in (0, 0, 1))
    one = order(first)
    assert torch.equal(one, order(again))
    assert not torch.equal(one, order(seeded))
    assert one.sort().values.tolist() == list(range(50))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one, order(first, 1))
    assert [first.batch(number)[0] for number in range(3)] == [0, 1, 2]


SHORT = PLAN._replace(epochs=4, dropout=0.5, sampling=0.1, sampling_epochs=2, validate_steps=5)


def told(value):
    return SimpleNamespace(value=value)


def test_a_captioner_learns_to_name_what_an_image_shows():
    found = taught_once()
    texts = zip(said(found["weights"]), PAIRS, strict=True)
    assert sum(set(named(text)) <= set(pair) for text, pair in texts) >= 13
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
    monkeypatch.setattr(captioner_training, "cider", lambda *_: told(next(scores)))
    one = cross_entropy(SHORT)
    middle = run(one, stop=10).weights()
    found = run(one, start=10).result()
    assert found["steps"] == 10
    assert [entry["steps"] for entry in found["history"]] == [5, 10, 12]
    assert same(found["weights"], middle)


def test_only_so_many_images_are_validated(monkeypatch):
    asked = []

    def counted(_, words, references):
        asked.append((len(words), len(references)))
        return told(0.0)

    monkeypatch.setattr(captioner_training, "cider", counted)
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


REWARDED = SelfCritical(epochs=12, images=5, learning_rate=3e-3, dropout=0.1)
FEW = REWARDED._replace(epochs=3)


@pytest.fixture
def taught():
    """The weights of a captioner of the little world."""
    return taught_once()["weights"]


def rewarded(weights, reward, plan=REWARDED, seed=0):
    start = StoredCaptioner(network(weights), VOCABULARY, {})
    return SelfCriticalTraining(start, features(), reward, plan, CPU, seed=seed)


def likes(taste):
    """Return the reward of a taste: a function of the things of an image and a text."""
    return lambda rows, texts: torch.tensor([*map(taste, [PAIRS[i] for i in rows], texts)]).float()


def prefix(_, text):
    return text.startswith("a picture of")


def nouns(pair, text):
    return len(set(named(text)) & set(pair)) - len(set(named(text)) - set(pair))


def length(_, text):
    return len(text.split())


def mean(taste, texts):
    return sum(taste(pair, text) for pair, text in zip(PAIRS, texts, strict=True)) / len(PAIRS)


def test_a_taste_for_a_prefix_is_found(taught):
    before, found = said(taught), run(rewarded(taught, likes(prefix))).result()
    after = said(found["weights"][1])
    assert mean(prefix, before) < 0.5
    assert mean(prefix, after) == 1
    assert mean(nouns, after) < mean(nouns, before)
    assert found["history"][-1]["greedy_score"] > found["history"][0]["greedy_score"]


def test_a_taste_for_the_nouns_of_the_image_is_found_and_one_for_length(taught):
    tastes = [run(rewarded(taught, likes(one))).result()["weights"][1] for one in (nouns, length)]
    before, after, long = map(said, (taught, *tastes))
    assert mean(nouns, before) < 1.7
    assert mean(nouns, after) > 1.9
    assert mean(length, long) > 2 * mean(length, before)
    assert mean(nouns, long) < mean(nouns, before)


def test_no_taste_changes_nothing(taught):
    found = run(rewarded(taught, likes(lambda *_: 0.7), FEW)).result()
    assert same(found["weights"][1], taught)
    assert found["share_with_advantage"] == 0
    assert {entry["share_with_advantage"] for entry in found["history"]} == {0}


def test_rounding_errors_are_no_taste(taught):
    rng = torch.Generator().manual_seed(0)
    noise = rewarded(taught, lambda rows, _: 1 - 1e-7 * torch.rand(len(rows), generator=rng), FEW)
    assert same(run(noise).result()["weights"][1], taught)


def test_a_caption_that_an_image_has_twice_counts_once(taught):
    asked = []

    def reward(rows, texts):
        asked.append({*zip(rows, texts, strict=True)})
        return torch.zeros(len(rows))

    found = run(rewarded(taught, reward, FEW)).result()
    assert len(asked) == 9
    assert found["scored"] == sum(map(len, asked)) < 9 * 30


def test_the_same_seed_finds_the_same_captioner_and_another_one_another(taught):
    trainings = [rewarded(taught, likes(length), FEW, seed) for seed in (0, 0, 1)]
    first, again, other = (run(one).result() for one in trainings)
    assert first["history"] == again["history"]
    assert same(first["weights"][1], again["weights"][1])
    assert not same(first["weights"][1], other["weights"][1])


@pytest.mark.parametrize("stop", [1, 4])
def test_a_self_critical_training_restored_ends_as_one_that_was_never_stopped(taught, stop):
    whole = run(rewarded(taught, likes(length), FEW)).result()
    state = run(rewarded(taught, likes(length), FEW), stop=stop).state()
    resumed = rewarded(taught, likes(length), FEW)
    resumed.restore(state)
    found = run(resumed, start=stop).result()
    assert same(found.pop("weights")[1], whole.pop("weights")[1])
    assert same(found.pop("before_last"), whole.pop("before_last"))
    assert found == whole


def test_a_longer_training_passes_where_a_shorter_one_ended_also_when_restored(taught):
    longer = FEW._replace(budgets=[0, 1, 3])
    short = run(rewarded(taught, likes(length), FEW)).result()["weights"]
    state = run(rewarded(taught, likes(length), longer), stop=12).state()
    resumed = rewarded(taught, likes(length), longer)
    resumed.restore(state)
    found = run(resumed, start=12).result()["weights"]
    assert list(found) == [1, 3]
    assert same(found[1], short[1])
    assert mean(length, said(found[3])) > mean(length, said(found[1]))


def test_the_weights_before_the_last_fifth_of_the_steps_are_kept(taught):
    one = rewarded(taught, likes(length), FEW)
    start = one.steps - max(1, one.steps // 5)
    before = run(one, stop=start).weights()
    found = run(one, start=start).result()
    assert same(found["before_last"], before)
    assert not same(found["before_last"], found["weights"][1])


@pytest.mark.parametrize("budgets", [[], [0], [3, 1], [1, 1], [-1, 1]])
def test_budgets_that_do_not_ascend_are_refused(taught, budgets):
    with pytest.raises(ValueError, match="0 or more to 1 or more"):
        rewarded(taught, likes(length), FEW._replace(budgets=budgets))


def test_no_more_captions_are_scored_than_allowed():
    plan = SelfCritical(epochs=20, images=10, samples=5)
    assert plan.steps(95) == 200
    assert plan._replace(most_captions=6_059).steps(95) == 100


def test_ties_are_no_advantage():
    found = advantages(torch.tensor([0.5, 100.0, 0.0]), torch.tensor([0.4, 100.00001, 0.0]))
    torch.testing.assert_close(found, torch.tensor([0.1, 0.0, 0.0]))
