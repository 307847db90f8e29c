"""A step of the training of BERT-gen. arXiv:2002.10832, section "Implementation details".

Adam with a learning rate of 2e-5, warmed up over the first tenth of the updates, batches of 128
questions, 5 epochs. Not stated in the paper, and as in BERT's code: after the warm-up the learning
rate falls linearly to 0, gradients are clipped to a norm of 1, and the model's dropout is on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vlbench.engine.training import ALONE, Sharing
from vlbench.probes.question_generation.bert_gen import BertGen, Example
from vlbench.results import Positive

MOST_NORM = 1.0

PROJECTION = "projection"


class BertGenTraining(NamedTuple):
    """How a step is trained.

    `projection_learning_rate` is the learning rate of W; if it is None, W has the learning rate of
    the other weights. `warm_up` is a fraction of the updates.
    """

    epochs: Positive = 5
    batch_size: Positive = 128
    learning_rate: float = 2e-5
    projection_learning_rate: float | None = None
    warm_up: float = 0.1


# As in arXiv:2002.10832.
PAPER_TRAINING = BertGenTraining()


class TrainedParts(NamedTuple):
    """The weights that a step trains: the language model, W, or both."""

    language: bool
    projection: bool


class StepTraining:
    """Trains a network in place, as a `vlbench.engine.training.Training`, with a seed.

    The result has the trained weights by name. Each process computes the gradient of its part of a
    batch: without dropout, the weights equal the weights of a single process up to rounding.
    Dropout is drawn inside the model, and its masks depend on the number of processes. Raises
    ValueError for a plan without updates.
    """

    def __init__(
        self,
        network: BertGen,
        examples: Sequence[Example],
        learns: TrainedParts,
        plan: BertGenTraining,
        seed: int,
        sharing: Sharing = ALONE,
    ) -> None:
        if min(plan.epochs, plan.batch_size, len(examples)) < 1 or not 0 <= plan.warm_up < 1:
            raise ValueError(f"{plan} of {len(examples)} questions: no training")
        self._network, self._examples, self._plan, self._seed = network, examples, plan, seed
        self._sharing = sharing
        self._per_epoch = math.ceil(len(examples) / plan.batch_size)
        self.steps = plan.epochs * self._per_epoch
        for name, weight in network.named_parameters():
            of_projection = name == PROJECTION
            weight.requires_grad_(learns.projection if of_projection else learns.language)
        self._weights = {n: w for n, w in network.named_parameters() if w.requires_grad}
        groups = [
            {"params": [w for n, w in self._weights.items() if self._rate(n) == rate], "rate": rate}
            for rate in dict.fromkeys(map(self._rate, self._weights))
        ]
        # The fused step iterates over memory: shared gradients and stored moments may have another
        # memory layout than the weights of a network from elsewhere.
        fused = all(weight.is_contiguous() for weight in self._weights.values())
        self._adam = torch.optim.Adam(groups, lr=0.0, fused=fused)
        self._order: tuple[int, Any] = (-1, None)

    def step(self, number: int) -> None:
        """Do update `number`."""
        for group in self._adam.param_groups:
            group["lr"] = group["rate"] * self._share(number)
        self._network.train()
        batch = [self._examples[i] for i in self._rows(number)]
        part = batch[self._sharing.part(len(batch))]

        def loss() -> Tensor:
            # The first process draws the same numbers as a single process; the others draw
            # different masks.
            rank = [self._sharing.rank] if self._sharing.rank else []
            with _seeded([self._seed, number, *rank], self._network.projection.device):
                return self._network.loss(part)

        fraction = _tokens(part) / _tokens(batch)
        self._sharing.backward(list(self._weights.values()), loss, fraction)
        nn.utils.clip_grad_norm_(self._weights.values(), MOST_NORM)
        self._adam.step()
        self._network.eval()

    def state(self) -> Mapping[str, Any]:
        """Return the trained weights and Adam's moments, on the CPU."""
        moments = {
            name: {k: v.cpu() for k, v in self._adam.state[weight].items()}
            for name, weight in self._weights.items()
        }
        return {"weights": self.result(), "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the training to a returned state."""
        load(self._network, state["weights"])
        for name, weight in self._weights.items():
            moments = {k: v.to(weight.device) for k, v in state["moments"][name].items()}
            if moments:
                self._adam.state[weight] = moments

    def result(self) -> dict[str, Tensor]:
        """Return copies of the trained weights by name, on the CPU."""
        return {n: w.detach().to("cpu", copy=True) for n, w in self._weights.items()}

    def _rate(self, name: str) -> float:
        rate = self._plan.projection_learning_rate if name == PROJECTION else None
        return self._plan.learning_rate if rate is None else rate

    def _share(self, number: int) -> float:
        """Return the fraction of the learning rate used in an update."""
        warm = math.ceil(self._plan.warm_up * self.steps)
        if number < warm:
            return (number + 1) / warm
        return (self.steps - number) / (self.steps - warm)

    def _rows(self, number: int) -> list[int]:
        """Return the examples of an update; each epoch has all examples in a new order."""
        epoch, batch = divmod(number, self._per_epoch)
        if self._order[0] != epoch:
            rng = np.random.default_rng([self._seed, epoch])
            self._order = (epoch, rng.permutation(len(self._examples)))
        size = self._plan.batch_size
        rows: list[int] = self._order[1][batch * size : (batch + 1) * size].tolist()
        return rows


def _tokens(examples: Sequence[Example]) -> int:
    return sum(len(example.question) for example in examples)


@torch.no_grad()
def load(network: BertGen, weights: Mapping[str, Tensor]) -> None:
    """Load weights, by name, into a network; other weights are unchanged."""
    parameters = dict(network.named_parameters())
    for name, weight in weights.items():
        parameters[name].copy_(weight)


@contextmanager
def _seeded(seed: Sequence[int], device: torch.device) -> Iterator[None]:
    """Draw from a seed, then restore torch's generators."""
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(number)
        yield
