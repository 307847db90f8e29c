"""A little world of captions: images with two of six things, told apart by their features."""

from functools import cache
from itertools import combinations

import torch

from vlbench.probes.captioning.captioner_files import (
    draw_captioner,
    empty_captioner,
    label,
    learn_vocabulary,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import (
    CrossEntropy,
    CrossEntropyTraining,
    TrainingCaptions,
    ValidationCaptions,
)

CPU = torch.device("cpu")

THINGS = ("boat", "cat", "dog", "hat", "plane", "tree")
PAIRS = list(combinations(THINGS, 2))

FORMS = (
    "there is a {} and a {}",
    "a {} and a {} on a plain background",
    "a {} near a {}",
    "a {}",
    "a picture of a {} and a {}",
)

VOCABULARY = learn_vocabulary([form.format(*PAIRS[0]) for form in FORMS] + [*THINGS], rare=0)


def captions(pair):
    """Return five captions of an image that shows two things."""
    return [form.format(*pair) for form in FORMS]


def features(pairs=PAIRS):
    """Return what an encoder sees of images of two things each, [N, 6], 0 or 3."""
    return torch.tensor([[3.0 * (thing in pair) for thing in THINGS] for pair in pairs])


def labels(pairs=PAIRS):
    return label(VOCABULARY, [captions(pair) for pair in pairs])


def named(text):
    """Return the things that a text names, with repetitions."""
    return [word for word in text.split() if word in THINGS]


WIDTHS = (16, 32)
PLAN = CrossEntropy(
    epochs=80, images=5, learning_rate=0.01, decay=1.0, sampling=0.0, dropout=0.0, clip=1.0
)
SIZES = Sizes(features=len(THINGS), words=len(VOCABULARY), embedding=WIDTHS[0], hidden=WIDTHS[1])


def cross_entropy(plan):
    """Return a training on all images, validated on the same."""
    references = [captions(pair) for pair in PAIRS]
    lesson = TrainingCaptions(features(), labels(), VOCABULARY)
    weights = draw_captioner(SIZES, torch.Generator().manual_seed(plan.seed)).state_dict()
    return CrossEntropyTraining(
        lesson, ValidationCaptions(features(), references), weights, plan, CPU
    )


def run(training, start=0, stop=None):
    """Do the steps from `start` to `stop`, or to the end."""
    for number in range(start, training.steps if stop is None else stop):
        training.step(number)
    return training


@cache
def taught():
    """Return what a training gives that ends with a captioner of this world."""
    return run(cross_entropy(PLAN)).result()


def network(weights):
    found = empty_captioner(SIZES)
    found.load_state_dict(weights)
    return found


def said(weights):
    """Return the greedy caption of each image."""
    return VOCABULARY.texts(greedy_captions(network(weights), features()))
