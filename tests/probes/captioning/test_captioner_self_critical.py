"""Planted tastes: what the captioner then says, and what it does not."""

import pytest
import torch
from captions_world import CPU, PAIRS, VOCABULARY, features, named, network, run, said
from captions_world import taught as taught_once

from vlbench.probes.captioning.captioner_self_critical import (
    Policy,
    SelfCritical,
    SelfCriticalTraining,
    advantages,
    distinct_scores,
)

PLAN = SelfCritical(epochs=12, images=5, rate=3e-3, dropout=0.1)
SHORT = PLAN._replace(epochs=3)


@pytest.fixture
def taught():
    """The weights of a captioner of the little world."""
    return taught_once()["weights"]


def training(weights, reward, plan=PLAN, seed=0):
    policy = Policy(network(weights), VOCABULARY)
    return SelfCriticalTraining(policy, features(), reward, plan, CPU, seed=seed)


def likes(taste):
    """Return the reward of a taste: a function of the things of an image and a text."""
    return lambda rows, texts: torch.tensor(
        [float(taste(PAIRS[row], text)) for row, text in zip(rows, texts, strict=True)]
    )


def prefix(_, text):
    return text.startswith("a picture of")


def nouns(pair, text):
    return len(set(named(text)) & set(pair)) - len(set(named(text)) - set(pair))


def length(_, text):
    return len(text.split())


def mean(taste, texts):
    return sum(taste(pair, text) for pair, text in zip(PAIRS, texts, strict=True)) / len(PAIRS)


def test_a_taste_for_a_prefix_is_found(taught):
    before, found = said(taught), run(training(taught, likes(prefix))).result()
    after = said(found["weights"])
    assert mean(prefix, before) < 0.5
    assert mean(prefix, after) == 1
    assert mean(nouns, after) < mean(nouns, before)
    assert found["history"][-1]["greedy_score"] > found["history"][0]["greedy_score"]


def test_a_taste_for_the_nouns_of_the_image_is_found(taught):
    before, after = said(taught), said(run(training(taught, likes(nouns))).result()["weights"])
    assert mean(nouns, before) < 1.7
    assert mean(nouns, after) > 1.9


def test_a_taste_for_length_is_found(taught):
    before, after = said(taught), said(run(training(taught, likes(length))).result()["weights"])
    assert mean(length, after) > 2 * mean(length, before)
    assert mean(nouns, after) < mean(nouns, before)


def test_no_taste_changes_nothing(taught):
    found = run(training(taught, likes(lambda *_: 0.7), SHORT)).result()
    assert all(torch.equal(found["weights"][name], taught[name]) for name in taught)
    assert found["share_with_advantage"] == 0
    assert {entry["share_with_advantage"] for entry in found["history"]} == {0}


def test_rounding_errors_are_no_taste(taught):
    rng = torch.Generator().manual_seed(0)
    found = run(
        training(taught, lambda rows, _: 1 - 1e-7 * torch.rand(len(rows), generator=rng), SHORT)
    ).result()
    assert all(torch.equal(found["weights"][name], taught[name]) for name in taught)


def test_each_text_of_an_image_is_scored_once_in_a_step(taught):
    asked = []

    def reward(rows, texts):
        asked.append(list(zip(rows, texts, strict=True)))
        return torch.zeros(len(rows))

    found = run(training(taught, reward, SHORT)).result()
    assert len(asked) == 9
    assert all(len(set(pairs)) == len(pairs) <= 30 for pairs in asked)
    assert found["scored"] == sum(map(len, asked))


def test_the_same_seed_finds_the_same_captioner_and_another_one_another(taught):
    first, same, other = (
        run(training(taught, likes(length), SHORT, seed)).result() for seed in (0, 0, 1)
    )
    assert first["history"] == same["history"]
    for name, value in first["weights"].items():
        assert torch.equal(value, same["weights"][name])
    assert not torch.equal(first["weights"]["logit.weight"], other["weights"]["logit.weight"])


@pytest.mark.parametrize("stop", [1, 4])
def test_a_training_restored_ends_as_one_that_was_never_stopped(taught, stop):
    whole = run(training(taught, likes(length), SHORT)).result()
    state = run(training(taught, likes(length), SHORT), stop=stop).state()
    resumed = training(taught, likes(length), SHORT)
    resumed.restore(state)
    found = run(resumed, start=stop).result()
    for name, value in whole.pop("weights").items():
        assert torch.equal(found["weights"][name], value)
    assert {k: v for k, v in found.items() if k != "weights"} == whole


def test_no_more_captions_are_scored_than_allowed():
    plan = SelfCritical(epochs=20, images=10, samples=5)
    assert plan.steps(95) == 200
    assert plan._replace(most_captions=6_059).steps(95) == 100


def test_scores_come_back_in_order_whatever_is_repeated():
    asked = []

    def reward(rows, texts):
        asked.extend(texts)
        return torch.tensor([10.0 * row + len(text) for row, text in zip(rows, texts, strict=True)])

    found, count = distinct_scores(reward, [1, 0, 1, 1], ["a", "a", "bb", "a"])
    assert found.tolist() == [11, 1, 12, 11]
    assert (asked, count) == (["a", "a", "bb"], 3)


def test_rewards_that_are_no_numbers_or_too_few_are_errors():
    with pytest.raises(ValueError, match="reward of image 1 with 'a cat' is nan"):
        distinct_scores(lambda *_: torch.tensor([1.0, torch.nan]), [0, 1], ["a", "a cat"])
    with pytest.raises(ValueError, match=r"the reward gave \[1\] for 2 captions"):
        distinct_scores(lambda *_: torch.ones(1), [0, 1], ["a", "a"])


def test_a_reward_that_raises_ends_the_step(taught):
    def reward(*_):
        raise RuntimeError("the model broke")

    with pytest.raises(RuntimeError, match="the model broke"):
        training(taught, reward).step(0)


def test_ties_are_no_advantage():
    found = advantages(torch.tensor([0.5, 100.0, 0.0]), torch.tensor([0.4, 100.00001, 0.0]))
    torch.testing.assert_close(found, torch.tensor([0.1, 0.0, 0.0]))
