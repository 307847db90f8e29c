"""Long trainings: checkpointed, stored when done, and resumed after a killed run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from vlbench.engine.processes import Processes
from vlbench.engine.progress import Progress
from vlbench.engine.shards import PATIENCE
from vlbench.engine.store import Store

ONE_TRAINING = "one training: intervals leave out the variation between seeds"

# The most that a killed run loses: this number of seconds, and one step.
CHECKPOINT_SECONDS = 30.0

RESULT, CHECKPOINT = "train", "checkpoint"


class Seeded(Protocol):
    """Parameters of a training with `seeds` seeds, from `seed` on; a named tuple."""

    @property
    def seed(self) -> int:
        """The first seed."""
        ...

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        ...

    def _replace(self, *, seed: int, seeds: int) -> Self: ...


SeededT = TypeVar("SeededT", bound=Seeded)


def each_seed(training: SeededT) -> list[SeededT]:
    """Return the training of each seed separately. Raises ValueError if there is no seed."""
    if training.seeds < 1:
        raise ValueError(f"{training}: seeds must be 1 or more")
    numbers = range(training.seed, training.seed + training.seeds)
    return [training._replace(seed=seed, seeds=1) for seed in numbers]


class Training(Protocol):
    """A training that may stop after any of its `steps` and resume with the same result.

    All processes run it in step and get the same result; work is divided among them only by
    `Engine.spread`, `Engine.map` and `Engine.sharing`. Random numbers come from the training's
    generators, which are part of its state. States and results consist of tensors and plain values.
    """

    steps: int

    def step(self, number: int) -> None:
        """Do step `number`, 0 to steps - 1."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Return all that the remaining steps depend on; it is written before the next step.

        It may therefore share memory with the training.
        """
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the training to `state`, on this process's device."""
        ...

    def result(self) -> Any:
        """Return the training's result."""
        ...


class Sharing(NamedTuple):
    """How processes divide the gradient of each batch; if `processes` is None, this one does all.

    Each process adds the gradient of its part of a batch; the sums have another order than with a
    single process, so they are equal up to rounding. Weights stay identical in all processes, which
    add the same numbers in the same order.
    """

    processes: Processes | None = None

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self.processes.rank if self.processes else 0

    def part(self, count: int) -> slice:
        """Return this process's examples of a batch of `count`; the slice may be empty."""
        rank, size = (self.processes.rank, self.processes.size) if self.processes else (0, 1)
        return slice(rank * count // size, (rank + 1) * count // size)

    def backward(
        self, weights: Sequence[Tensor], loss: Callable[[], Tensor], fraction: float
    ) -> Tensor:
        """Set `grad` of each weight to the gradient of a batch's mean loss; return the loss.

        `loss` returns the mean over this process's part, which has `fraction` of the examples in
        the whole batch's mean. It is not called if the fraction is 0 (unless there is one process).
        """
        for weight in weights:
            weight.grad = None
        if self.processes is None or self.processes.size == 1:
            whole = loss()
            torch.autograd.backward(whole)
            return whole.detach()
        counts = [weight.numel() for weight in weights]

        def flat_part() -> Tensor:
            """Return this process's part of each gradient, flattened, and of the loss."""
            if not fraction:
                return torch.zeros(sum(counts) + 1, device=weights[0].device)
            part = loss() * fraction
            torch.autograd.backward(part)
            gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
            return torch.cat([*(g.flatten().float() for g in gradients), part.detach().view(1)])

        total = self.processes.sum(flat_part, sum(counts) + 1, weights[0].device)
        for weight, gradient in zip(weights, torch.split(total[:-1], counts), strict=True):
            weight.grad = gradient.view_as(weight).to(weight)
        return total[-1]


ALONE = Sharing()


class Place(NamedTuple):
    """A training's store and key, the processes that run it, and its progress."""

    store: Store | None
    key: str
    processes: Processes
    progress: Progress


def train(place: Place, make: Callable[[], Training], what: str) -> Any:
    """Return the result of a training, now or of an earlier run; `what` names it to the user.

    If another run is training the same, wait for it, up to PATIENCE.
    """
    store = place.store if place.processes.is_main else None
    with store.locked(place.key, RESULT, seconds=PATIENCE) if store else nullcontext():
        stored = _load(place, store, RESULT)
        if stored is None:
            stored = {"value": _run(place, store, make(), what)}
            if store:
                store.save(place.key, RESULT, stored)
                store.drop(place.key, CHECKPOINT)
    return stored["value"]


def _load(place: Place, store: Store | None, part: str) -> Any:
    """Return what the main process has stored, in every process; None if there is nothing."""
    return place.processes.attempt(lambda: store.load(place.key, part) if store else None)[0]


def _run(place: Place, store: Store | None, training: Training, what: str) -> Any:
    start, last = 0, time.monotonic()
    checkpoint = _load(place, store, CHECKPOINT)
    if checkpoint is not None:
        start = checkpoint["steps"]
        training.restore(checkpoint["state"])
    place.progress.start(what, training.steps)
    place.progress.advance(start)
    for number in range(start, training.steps):
        training.step(number)
        place.progress.advance(1)
        if store and time.monotonic() - last > CHECKPOINT_SECONDS:
            state = {"steps": number + 1, "state": training.state()}
            store.save(place.key, CHECKPOINT, state)
            last = time.monotonic()
    return training.result()


def on_cpu(value: Any) -> Any:
    """Return a state, of tensors in dictionaries and lists, with all its tensors on the CPU."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_cpu(item) for key, item in value.items()}
    return [on_cpu(item) for item in value] if isinstance(value, list) else value
