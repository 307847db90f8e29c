import pytest
import torch
from captions_data import SETTINGS, world
from captions_world import CPU, PAIRS, PLAN, SIZES, THINGS, captions, features, named, run

from vlbench.engine import Engine
from vlbench.errors import SpecError
from vlbench.probes.captioning.captioner import read_or_train
from vlbench.probes.captioning.captioner_files import (
    draw_captioner,
    label,
    learn_vocabulary,
    restore_captioner,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import CrossEntropyTraining, Lesson
from vlbench.probes.captioning.warm_up import NO_WARM_UP, WarmUp, first_weights, phases

CAPTIONS = [[f"{text} ." for text in captions(pair)] for pair in PAIRS]
WORDS = [[text.split() for text in texts] for texts in CAPTIONS]
TAGS = [[["NOUN" if w in THINGS else "X" for w in text] for text in texts] for texts in WORDS]
DATA = world(captions=CAPTIONS, words=WORDS, tags=TAGS)
ENGINE = Engine.for_tests()
NAMING = SETTINGS._replace(
    punctuation=True, warm_up=WarmUp(noun_lists=8, mixed=8, learning_rate=0.01)
)


def test_lists_come_first_then_both_then_captions():
    told = [["a van .", "a cap .", "one thing ."], ["an owl .", "two jets .", "a jet ."]]
    nouns = {"van", "cap", "owl", "jets", "jet"}
    plan = PLAN._replace(epochs=3, images=10, captions=2)
    lists, both, alone = phases(told, plan, WarmUp(1, 2, learning_rate=0.5), nouns.__contains__)
    assert (list(alone.texts), alone.plan) == (told, plan)
    assert [texts[::2] for texts in both.texts] == told
    assert [texts[1::2] for texts in both.texts] == list(lists.texts)
    assert (lists.plan.epochs, lists.plan.decay, lists.plan.learning_rate) == (1, 1.0, 0.5)
    # As many texts at a step, two neighbours for one.
    assert (both.plan.epochs, both.plan.images, both.plan.captions) == (2, 5, 4)


def test_a_list_has_each_noun_of_an_images_captions_once_in_another_order():
    told = ["two palms and a red van .", "a van on a plain background .", "one thing ."] * 9
    lists, *_ = phases([told], PLAN, WarmUp(1, 1), {"palms", "van"}.__contains__)
    (of_image,) = lists.texts
    assert len(of_image) == len(told)
    assert {*of_image} == {". palms van", ". van palms"}


def test_without_a_warm_up_captions_are_all_that_is_taught():
    assert [phase.texts for phase in phases(CAPTIONS, PLAN, NO_WARM_UP, bool)] == [CAPTIONS]


def test_open_gates_are_those_that_forget():
    sizes = Sizes(3, 4, 5, 2)
    drawn = draw_captioner(sizes, torch.Generator().manual_seed(0)).state_dict()
    found = first_weights(sizes, 0, 4.0)
    moved = {name for name in drawn if not torch.equal(drawn[name], found[name])}
    assert moved == {"_core.h2h.bias"}
    gates = found["_core.h2h.bias"] - drawn["_core.h2h.bias"]
    torch.testing.assert_close(gates, torch.tensor([0.0, 0, 4, 4, 0, 0, 0, 0, 0, 0]))


def test_a_captioner_learns_to_list_what_it_sees_and_begins_with_given_weights():
    lists, *_ = phases(CAPTIONS, PLAN, WarmUp(60, learning_rate=0.01), THINGS.__contains__)
    words = learn_vocabulary([text for texts in CAPTIONS for text in texts], punctuation=True)
    sizes = SIZES._replace(words=len(words))
    lesson, start = Lesson(features(), label(words, lists.texts), words), first_weights(sizes, 9, 0)
    training = CrossEntropyTraining(lesson, None, start, lists.plan, CPU)
    assert all(torch.equal(value, start[name]) for name, value in training.weights().items())
    taught = restore_captioner(run(training).result()["weights"], sizes)
    said = words.texts(greedy_captions(taught, features()))
    assert all(text.startswith(". ") for text in said)
    assert [tuple(sorted(named(text))) for text in said] == PAIRS


def recall(settings):
    """Return how many things of each image the captioner names."""
    taught = read_or_train(DATA, ENGINE, [], settings)
    said = taught.vocabulary.texts(greedy_captions(taught.network, features()))
    return sum(len({*named(text)} & {*p}) for text, p in zip(said, PAIRS, strict=True)) / len(PAIRS)


def test_a_captioner_that_was_taught_to_name_things_names_more_of_them():
    settings = NAMING._replace(cross_entropy=SETTINGS.cross_entropy._replace(epochs=2))
    assert recall(settings) > recall(settings._replace(warm_up=NO_WARM_UP)) + 0.5


def test_lists_without_a_word_to_begin_with_are_refused():
    with pytest.raises(SpecError, match="warm_up needs punctuation: true"):
        read_or_train(DATA, ENGINE, [], NAMING._replace(punctuation=False))
