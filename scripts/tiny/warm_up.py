"""What a captioner is taught before it says captions: to name what it sees.

Taught by captions alone, it learns how they are worded long before it learns what is in an image.
So it first lists the nouns of an image's captions, in random order; then it does this or says a
caption, as the first word tells; then it says captions alone. arXiv:2210.09550 has no such phases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.probes.captioning.captioner_files import draw_captioner
from vlbench.probes.captioning.captioner_network import Sizes
from vlbench.probes.captioning.captioner_training import CrossEntropy

# No caption begins with it: a list of nouns does.
LIST = "."


class WarmUp(NamedTuple):
    """So many epochs of `noun_lists`, then of lists and captions, `mixed`, at a `learning_rate`.

    It falls by `decay` after each mixed epoch. `open_gates` is added to the bias of the
    forget gates at first, so that what was seen lasts for a caption.
    """

    noun_lists: int = 0
    mixed: int = 0
    learning_rate: float = 5e-4
    decay: float = 0.7
    open_gates: float = 0.0


class Phase(NamedTuple):
    """A phase of the training: the texts of each image, and how they are taught."""

    texts: Sequence[Sequence[str]]
    plan: CrossEntropy


def phases(
    captions: Sequence[Sequence[str]],
    plan: CrossEntropy,
    warm_up: WarmUp,
    is_noun: Callable[[str], bool],
) -> list[Phase]:
    """Return the phases for the captions of images; the last has the captions alone."""
    rng = Random(plan.seed)  # noqa: S311 - no secret
    lists = [_list_nouns(several, is_noun, rng) for several in captions]
    pairs = (zip(*both, strict=True) for both in zip(captions, lists, strict=True))
    both = [list(chain.from_iterable(several)) for several in pairs]
    first = plan._replace(learning_rate=warm_up.learning_rate, sampling=0.0, dropout=0.0, decay=1.0)
    # Of two neighbours one is a caption.
    mixed = first._replace(images=max(1, plan.images // 2), captions=2 * plan.captions)
    found = [
        Phase(lists, first._replace(epochs=warm_up.noun_lists)),
        Phase(both, mixed._replace(epochs=warm_up.mixed, decay=warm_up.decay, decay_epochs=1)),
        Phase(captions, plan),
    ]
    return [phase for phase in found if phase.plan.epochs]


def _list_nouns(captions: Sequence[str], is_noun: Callable[[str], bool], rng: Random) -> list[str]:
    """Return for each caption of an image the nouns of all of them, in another random order."""
    nouns = sorted({word for text in captions for word in text.split() if is_noun(word)})
    return [" ".join([LIST, *rng.sample(nouns, len(nouns))]) for _ in captions]


def first_weights(sizes: Sizes, seed: int, open_gates: float) -> dict[str, Tensor]:
    """Return the weights that the training starts from."""
    weights = draw_captioner(sizes, torch.Generator().manual_seed(seed)).state_dict()
    # The gates are, in this order: input, forget, output, and the two candidates.
    weights["_core.h2h.bias"][sizes.hidden : 2 * sizes.hidden] += open_gates
    return weights
