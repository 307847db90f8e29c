"""A linear probe on frozen features: cross-entropy and Adam, as in arXiv:2104.08313, section 3.3.

L2 weight decay acts on weights and bias. The weights after the last epoch are used. L-BFGS finds
the optimum of the same loss, which Adam approaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlbench.data.records import Data, labels
from vlbench.engine import Engine, Features
from vlbench.engine.training import Training, on_cpu
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import Choice, choose, join_choices
from vlbench.results import Positive
from vlbench.system.digests import digest
from vlbench.system.threads import threads_for

# Logits computed at a time, independent of the size of the test set.
BLOCK = 1 << 20

# Features digested at a time.
KEYED = 1 << 12

# L-BFGS: iterations per step, most steps, features per pass, and the largest component of the
# gradient that counts as the optimum, with all features on one scale.
ITERATIONS, STEPS, PASSED, FLAT = 10, 100, 1 << 14, 1e-4

# The weight [C, D] and the bias [C] of a linear probe.
LinearProbe = dict[str, Tensor]


class LinearTraining(NamedTuple):
    """How linear probes are trained; a seed draws the first weights and the order of images.

    There are `seeds` seeds, from `seed` on: a score is the mean over their probes. The `optimizer`
    is adam, or lbfgs, which is deterministic and uses only the weight decay.
    """

    epochs: Positive = 20
    batch_size: Positive = 60
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    seed: int = 0
    seeds: Positive = 1
    optimizer: str = "adam"


# As in arXiv:2104.08313.
PAPER_TRAINING = LinearTraining()

# A step of Adam moves each weight by about the learning rate. If all steps together move it by less
# than this, the probe may be far from its optimum: on 898 digits, .3 gives 85 % in place of 97 %.
FAR_ENOUGH = 1.0


def few_steps(training: LinearTraining, rows: int) -> list[str]:
    """Return a note if Adam takes too few steps on some train rows, else none.

    Example:
        >>> few_steps(PAPER_TRAINING, 50_000), len(few_steps(PAPER_TRAINING, 500))
        ([], 1)
    """
    steps = training.epochs * -(-rows // training.batch_size)
    moved = steps * training.learning_rate
    if training.optimizer != "adam" or moved >= FAR_ENOUGH:
        return []
    way = f"{steps:,} steps of Adam move a weight by about {moved:.2g} at most"
    return [f"{way}: the probe may be far from its optimum"]


def train_linear_probe_once(
    engine: Engine,
    features: Features,
    label: Tensor,
    size: tuple[int, int],
    training: LinearTraining,
) -> LinearProbe:
    """Return the probe trained on the same features [N, D] in every epoch, or load it.

    A killed training resumes from its last checkpoint. The result of L-BFGS contains `converged`.
    """
    starts = range(0, len(features), KEYED)
    key = {"what": "linear probe", "label": label, "size": size, "device": engine.device.type}
    key["features"] = [digest(features[start : start + KEYED]) for start in starts]

    def make() -> Training:
        kind = LinearProbeOptimum if training.optimizer == "lbfgs" else LinearProbeTraining
        return kind(features, label, size, training, engine.device)

    at_once = PASSED if training.optimizer == "lbfgs" else training.batch_size
    probe: LinearProbe = engine.train(
        key | training._asdict(), make, "linear probe", sizes=(min(at_once, len(label)), *size)
    )
    return probe


def train_linear_probe(
    epochs: Iterable[Features],
    label: Tensor,
    size: tuple[int, int],
    training: LinearTraining,
    device: torch.device,
) -> LinearProbe:
    """Return a probe of size (C, D), trained on `device` for one epoch per item of `epochs`.

    An item contains the features [N, D] of its epoch, in the order of `label` [N].
    """
    probe = LinearProbeTraining(torch.empty(0), label, size, training, device)
    for epoch, probe.features in enumerate(epochs):
        with threads_for(training.batch_size, *size):
            for place in range(probe.batches):
                probe.step(epoch * probe.batches + place)
    return probe.result()


class LinearProbeTraining:
    """The training of a linear probe of size (C, D), for `Engine.train`; `result` has its weights.

    `features` are the features of the epoch, in the order of `label` [N]. The seed draws PyTorch's
    initialisation of a linear layer, then the order of each epoch.
    """

    def __init__(
        self,
        features: Features,
        label: Tensor,
        size: tuple[int, int],
        training: LinearTraining,
        device: torch.device,
    ) -> None:
        """Begin."""
        self.features = features
        self.batches = -(-len(label) // training.batch_size)
        self.steps = training.epochs * self.batches
        self._label, self._batch_size, self._device = label, training.batch_size, device
        self._rng = torch.Generator().manual_seed(training.seed)
        self._linear = _initialise(*size, self._rng).to(device)
        self._adam = torch.optim.Adam(
            self._linear.parameters(),
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
            fused=True,
        )
        self._order = torch.empty(0, dtype=torch.int64)

    def step(self, number: int) -> None:
        """Do one step of Adam on the next batch of the epoch."""
        place = number % self.batches
        if place == 0:
            self._order = torch.randperm(len(self._label), generator=self._rng)
        rows = self._order[place * self._batch_size : (place + 1) * self._batch_size]
        self._adam.zero_grad()
        logits = self._linear(self.features[rows].to(self._device))
        torch.autograd.backward(cross_entropy(logits, self._label[rows].to(self._device)))
        self._adam.step()

    def state(self) -> Mapping[str, Any]:
        """Return everything that later steps depend on."""
        parts = {"weights": dict(self._linear.state_dict()), "adam": self._adam.state_dict()}
        return {**on_cpu(parts), "order": self._order, "rng": self._rng.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the training to a returned `state`."""
        self._linear.load_state_dict(state["weights"])
        self._adam.load_state_dict(state["adam"])
        self._order = state["order"]
        self._rng.set_state(state["rng"])

    def result(self) -> LinearProbe:
        """Return the weights, on the CPU."""
        return {name: value.detach().cpu() for name, value in self._linear.named_parameters()}


class LinearProbeOptimum:
    """The training of a linear probe by L-BFGS (Liu and Nocedal 1989) from zero to its optimum.

    The loss is the mean cross-entropy + half the weight decay times the sum of squared weights.
    """

    steps = STEPS

    def __init__(
        self,
        features: Features,
        label: Tensor,
        size: tuple[int, int],
        training: LinearTraining,
        device: torch.device,
    ) -> None:
        """Begin. Arguments are the same as for `LinearProbeTraining`."""
        self._features = features.to(device) if isinstance(features, Tensor) else features
        self._label, self._decay = label.to(device), training.weight_decay
        # The optimised variable is the weight times a scale that makes the curvature of the loss
        # similar in all directions; the bias is the last column.
        self._scaled = torch.zeros(size[0], size[1] + 1, device=device)
        self._scale = self._scales()
        self._lbfgs = torch.optim.LBFGS(
            [self._scaled],
            lr=1,
            max_iter=ITERATIONS,
            tolerance_grad=FLAT,
            tolerance_change=0,
            history_size=10,
            line_search_fn="strong_wolfe",
        )
        self._converged = False

    def step(self, number: int) -> None:
        """Do some iterations, unless the optimum is reached."""
        del number
        if not self._converged:
            self._lbfgs.step(self._loss)  # type: ignore[no-untyped-call]  # by the library
            self._loss()
            assert self._scaled.grad is not None
            self._converged = self._scaled.grad.abs().amax().item() <= FLAT

    def state(self) -> Mapping[str, Any]:
        """Return everything that later steps depend on."""
        parts = {"scaled": self._scaled, "lbfgs": self._lbfgs.state_dict()}
        return {**on_cpu(parts), "converged": self._converged}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the training to a returned `state`."""
        self._scaled.copy_(state["scaled"])
        self._lbfgs.load_state_dict(state["lbfgs"])
        self._converged = state["converged"]

    def result(self) -> LinearProbe:
        """Return the weights, on the CPU, and whether they are at the optimum."""
        weight = (self._scaled / self._scale).cpu()
        probe = {"weight": weight[:, :-1].contiguous(), "bias": weight[:, -1].contiguous()}
        return {**probe, "converged": torch.tensor(self._converged)}

    def _scales(self) -> Tensor:
        """Return the root of the loss's curvature along each weight at zero, per class: [D + 1]."""
        starts = range(0, len(self._label), PASSED)
        squares = torch.stack([self._part(start).square().sum(0) for start in starts]).sum(0)
        curvature = torch.ones_like(self._scaled[0])
        curvature[:-1] = squares / len(self._label)
        curvature += len(self._scaled) * self._decay
        return curvature.where(curvature > 0, 1.0).sqrt()

    def _part(self, start: int) -> Tensor:
        return self._features[start : start + PASSED].to(self._scaled)

    def _loss(self) -> float:
        """Return the loss, and set the gradient of the optimised variable."""
        weight = self._scaled / self._scale
        loss, gradient = self._gradient(weight)
        self._scaled.grad = gradient / self._scale
        return loss

    @torch.no_grad()
    def _gradient(self, weight: Tensor) -> tuple[float, Tensor]:
        """Return the loss of a weight [C, D + 1] and its gradient."""
        gradient = self._decay * weight
        loss = self._decay / 2 * weight.cpu().double().square().sum()
        n = len(self._label)
        for start in range(0, n, PASSED):
            x, label = self._part(start), self._label[start : start + PASSED, None]
            logits = torch.addmm(weight[:, -1], x, weight[:, :-1].T)
            entropy = torch.logsumexp(logits, 1, keepdim=True)
            loss += (entropy - logits.gather(1, label)).cpu().double().sum() / n
            # The gradient of the logits: (softmax - one-hot label) / n.
            of_logits = (logits - entropy).exp_()
            of_logits.scatter_add_(1, label, -torch.ones_like(entropy)).div_(n)
            gradient[:, :-1].addmm_(of_logits.T, x)
            gradient[:, -1] += of_logits.sum(0)
        return float(loss), gradient


def zero_probe(classes: int, width: int) -> LinearProbe:
    """Return the probe whose logits are all zero."""
    return {"weight": torch.zeros(classes, width), "bias": torch.zeros(classes)}


def classify(probe: LinearProbe, features: Features, right: Tensor) -> Choice:
    """Return the choice of the highest logit for each of [N, D] features; `right` [N] is right.

    Logits are tied within 1e-6 of |x| max |w| + max |b|, the magnitude of their terms.
    """
    weight, bias = probe["weight"], probe["bias"]
    largest, offset = weight.norm(dim=1).amax(), bias.abs().amax()
    rows = max(1, BLOCK // len(bias))
    choices = []
    for start in range(0, max(1, len(right)), rows):
        part = slice(start, start + rows)
        x = features[part]
        scale = x.norm(dim=1) * largest + offset
        choices.append(choose(torch.addmm(bias, x, weight.T), right[part], scale=scale))
    return join_choices(choices)


def require_train_images(train: Tensor, test: Tensor, classes: Sequence[str]) -> None:
    """Raise TooFewRows for a class that occurs among test labels and not among train labels."""
    n_train, n_test = (label.bincount(minlength=len(classes)) for label in (train, test))
    missing = ((n_train == 0) & (n_test > 0)).nonzero().flatten().tolist()
    if missing:
        present = f"class '{classes[missing[0]]}' has {int(n_test[missing[0]])} test images"
        rows = max(len(train) + 1, int((n_test > 0).sum()))
        raise TooFewRows(f"{present}, but no train image to learn it from", rows)


def train_and_test_labels(data: Data) -> tuple[Tensor, Tensor]:
    """Return the labels of the train and of the test images. Raises as `require_train_images`."""
    train, test = (torch.from_numpy(labels(data.splits[split])) for split in ("train", "test"))
    require_train_images(train, test, data.classes)
    return train, test


def _initialise(classes: int, width: int, rng: torch.Generator) -> nn.Linear:
    """Return a linear layer with PyTorch's initialisation, drawn from `rng`."""
    linear = nn.Linear(width, classes, device="meta").to_empty(device="cpu")
    nn.init.kaiming_uniform_(linear.weight, a=math.sqrt(5), generator=rng)
    bound = 1 / math.sqrt(width)
    nn.init.uniform_(linear.bias, -bound, bound, generator=rng)
    return linear
