from types import SimpleNamespace

import pytest
import torch
from captions_world import PAIRS, PLAN, cross_entropy, named, run, said, taught

from vlbench.nets import captioner_cross_entropy
from vlbench.nets.captioner_cross_entropy import cider
from vlbench.nets.captioner_words import learn_vocabulary

SHORT = PLAN._replace(epochs=4, dropout=0.5, sampling=0.1, sampling_epochs=2, validate_steps=5)


def told(value):
    return SimpleNamespace(value=value)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


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
