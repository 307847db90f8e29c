"""A captioner with its optimizer: what both of its stages share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.engine.training import on_cpu
from vlbench.metrics.captions import CaptionMetrics, plain_words
from vlbench.metrics.statistics import Estimate
from vlbench.probes.captioning.captioner_files import Labels, Vocabulary, drawn_captioner
from vlbench.probes.captioning.captioner_network import (
    END,
    FcCaptioner,
    Noise,
    Sizes,
    State,
    caption_loss,
    greedy_captions,
    repeated,
)


class Learner:
    """A network on a device, Adam, and a random generator; gradients are cut by value."""

    def __init__(
        self, network: FcCaptioner, device: torch.device, *, clip: float, seed: int
    ) -> None:
        """Take over the network."""
        self.network = network.to(device)
        self.device = device
        self.rng = torch.Generator(device).manual_seed(seed)
        self._adam = torch.optim.Adam(self.network.parameters(), fused=True)
        self._clip = clip

    def shuffled(self, n: int) -> Tensor:
        """Return the numbers below n in random order, on the CPU."""
        return torch.randperm(n, generator=self.rng, device=self.device).cpu()

    def descend(self, loss: Tensor, rate: float) -> None:
        """Do one step down a loss at a learning rate."""
        self._adam.zero_grad()
        torch.autograd.backward(loss)
        self._step(rate)

    def follow(self, gradients: Mapping[str, Tensor], rate: float) -> None:
        """Do one step against the gradient by each weight at a learning rate."""
        for name, weight in self.network.named_parameters():
            weight.grad = gradients[name]
        self._step(rate)

    def _step(self, rate: float) -> None:
        for group in self._adam.param_groups:
            group["lr"] = rate
        nn.utils.clip_grad_value_(self.network.parameters(), self._clip)
        self._adam.step()

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the weights, on the CPU."""
        return {k: value.cpu().clone() for k, value in self.network.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return all that the steps to come depend on, on the CPU."""
        adam = on_cpu(self._adam.state_dict())
        return {"weights": self.weights(), "adam": adam, "rng": self.rng.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become as it was when `state` was returned."""
        self.network.load_state_dict(state["weights"])
        self._adam.load_state_dict(state["adam"])
        self.rng.set_state(state["rng"])


class CrossEntropy(NamedTuple):
    """How the captioner is taught; the defaults are those of the paper and of `fc.yml`.

    A batch is so many `images` with so many `captions` each. The rate falls by the factor `decay`
    every `decay_epochs`; the probability of reading a word of its own grows by `sampling` every
    `sampling_epochs`, up to `most_sampling`. `validate_steps` lie between two validations, each on
    the first `validate_images`. `feature_noise` is the deviation of normal noise on the features,
    drawn for each caption (the paper has none). Gradients are cut to `clip` by value.
    """

    epochs: int = 30
    images: int = 10
    captions: int = 5
    rate: float = 5e-4
    decay: float = 0.8
    decay_epochs: int = 3
    sampling: float = 0.05
    sampling_epochs: int = 5
    most_sampling: float = 0.25
    dropout: float = 0.5
    feature_noise: float = 0.0
    clip: float = 0.1
    validate_steps: int = 3000
    validate_images: int = 5000
    seed: int = 0

    def rate_in(self, epoch: int) -> float:
        """Return the learning rate of an epoch, the first being 0."""
        return self.rate * self.decay ** (epoch // self.decay_epochs)

    def sampling_in(self, epoch: int) -> float:
        """Return the probability of scheduled sampling in an epoch, the first being 0."""
        return min(self.sampling * (epoch // self.sampling_epochs), self.most_sampling)


# As in arXiv:2210.09550.
PAPER_CROSS_ENTROPY = CrossEntropy()


class Lesson(NamedTuple):
    """Features [N, F] of the training images, their captions, and the words of both."""

    features: Tensor
    labels: Labels
    vocabulary: Vocabulary


class Exam(NamedTuple):
    """Features [N, F] of the validation images, and the references of each."""

    features: Tensor
    references: Sequence[Sequence[str]]


class CrossEntropyTraining:
    """The training of a captioner, for `Engine.train`; `result` has its weights and its history.

    `loss` is that of the last step.
    """

    def __init__(
        self,
        lesson: Lesson,
        exam: Exam,
        widths: tuple[int, int],
        plan: CrossEntropy,
        device: torch.device,
    ) -> None:
        """Begin; `widths` are those of embeddings and LSTM."""
        sizes = Sizes(lesson.features.shape[1], len(lesson.vocabulary), *widths)
        drawn = drawn_captioner(sizes, torch.Generator().manual_seed(plan.seed))
        self._learner = Learner(drawn, device, clip=plan.clip, seed=plan.seed)
        self._lesson, self._exam, self._plan = lesson, exam, plan
        self._order = torch.empty(0, dtype=torch.int64)
        self.loss = math.nan
        self._losses: list[float] = []
        self._best: dict[str, Any] = {}
        self._history: list[dict[str, float]] = []
        self._batches = -(-len(lesson.features) // plan.images)
        self.steps = plan.epochs * self._batches

    def step(self, number: int) -> None:
        """Do one step, and validate where it is time."""
        epoch, place = divmod(number, self._batches)
        if place == 0:
            self._order = self._learner.shuffled(len(self._lesson.features))
        start = place * self._plan.images
        loss = self._loss(self._order[start : start + self._plan.images], epoch)
        self._learner.descend(loss, self._plan.rate_in(epoch))
        self.loss = float(loss.detach())
        self._losses.append(self.loss)
        if number + 1 == self.steps or (number + 1) % self._plan.validate_steps == 0:
            self._validate(number + 1)

    def state(self) -> Mapping[str, Any]:
        """Return all that the steps to come depend on."""
        kept = {"order": self._order, "losses": self._losses, "best": self._best}
        return {"learner": self._learner.state(), "history": self._history, **kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become as it was when `state` was returned."""
        self._learner.restore(state["learner"])
        self._order, self._best = state["order"], state["best"]
        self._losses, self._history = list(state["losses"]), list(state["history"])

    def result(self) -> dict[str, Any]:
        """Return the weights of the best CIDEr, its step, and the history of validations."""
        return {**self._best, "history": self._history}

    def _loss(self, images: Tensor, epoch: int) -> Tensor:
        learner, several = self._learner, self._plan.captions
        rows = self._lesson.labels.draw(images, several, learner.rng).flatten()
        words = self._lesson.labels.words[rows].long()
        words = words[:, : int((words != END).sum(1).max()) + 1].to(learner.device)
        noise = Noise(learner.rng, self._plan.dropout, self._plan.sampling_in(epoch))
        features = self._lesson.features[images].to(learner.device)
        if self._plan.feature_noise:
            features = features.repeat_interleave(several, 0)
            seen = learner.network.see(noise.blur(features, self._plan.feature_noise))
        else:
            seen = repeated(learner.network.see(features), several)
        return taught_loss(learner.network, seen, words, noise)

    def _validate(self, steps: int) -> None:
        """Keep the network if its captions are the best so far."""
        some = slice(self._plan.validate_images)
        captions = greedy_captions(self._learner.network, self._exam.features[some])
        texts = self._lesson.vocabulary.texts(captions)
        score = cider(self._lesson.vocabulary, texts, self._exam.references[some]).value
        loss = sum(self._losses) / len(self._losses)
        self._losses = []
        self._history.append({"steps": steps, "loss": loss, "cider": score})
        if not self._best or score > self._best["cider"]:
            self._best = {"weights": self._learner.weights(), "steps": steps, "cider": score}


def taught_loss(
    network: FcCaptioner, seen: State, words: Tensor, noise: Noise | None = None
) -> Tensor:
    """Return the loss of captions [N, T], the last column END, for images that were seen."""
    start = torch.full_like(words[:, :1], END)
    outputs = network(seen, torch.cat([start, words[:, :-1]], 1), noise)
    return caption_loss(network, outputs, words)


def cider(
    vocabulary: Vocabulary, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> Estimate:
    """Return the CIDEr of a caption per image, on the vocabulary's words without punctuation."""
    split = vocabulary.split
    own: dict[Hashable, list[str]] = {i: [_spelled(split(text))] for i, text in enumerate(texts)}
    others: dict[Hashable, list[str]] = {
        i: [_spelled(split(text)) for text in several] for i, several in enumerate(references)
    }
    with CaptionMetrics(["cider"], words=plain_words) as metrics:
        found = metrics(own, others)["cider"].estimate
    assert isinstance(found, Estimate)
    return found


def _spelled(words: Sequence[str]) -> str:
    return " ".join(word for word in words if any(map(str.isalnum, word)))
