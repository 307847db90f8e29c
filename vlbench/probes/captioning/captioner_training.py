"""The two trainings of the captioner: by cross-entropy, and by a model's matching score (SCST).

Samples are drawn without a gradient. Their log probabilities do not depend on the reward, so that
they are computed again, with a gradient, while the model scores. Scoring is spread over the
processes. Each process computes all gradients: a step of cross-entropy of the paper's sizes takes
0.37 s on a core, half of its batch 0.34 s, and the sum of 13 million gradients over two processes
0.06 s. Departure from ImageCaptioning.pytorch: training by reward starts with a new Adam, and does
not continue with the Adam state of cross-entropy. As in ImageCaptioning.pytorch, words outside the
vocabulary are generated as UNK, which models under test read unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.engine.training import on_cpu
from vlbench.metrics.captions import CaptionMetrics, Captions, plain_words
from vlbench.metrics.intervals import Estimate
from vlbench.probes.captioning.captioner_files import (
    Labels,
    StoredCaptioner,
    Vocabulary,
    restore_captioner,
)
from vlbench.probes.captioning.captioner_network import (
    FcCaptioner,
    Noise,
    Sizes,
    caption_loss,
    greedy_captions,
    repeat_states,
    reward_loss,
    rollout,
    sample_losses,
    until_all_end,
)
from vlbench.results import Positive

# The first and the last layer, whose weights determine all widths.
ENDS = ("fc_embed", "logit")

# A difference below this fraction of the larger score is no advantage.
TIE = 1e-6

# Number of entries of the history.
ENTRIES = 50

# The last 1 / LAST of the steps are the last epochs: 4 of the paper's 20. The change of held-out
# captions over these epochs shows whether training has converged.
LAST = 5


class CaptionerTraining:
    """The common parts of trainings with Adam, in batches of images, for `Engine.train`.

    Gradients are clipped by value. `rng` draws all random numbers.
    """

    # Attributes that later steps depend on, in addition to weights, optimizer and `rng`.
    kept: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        network: FcCaptioner,
        device: torch.device,
        *,
        clip: float,
        seed: int,
        count: int,
        images: int,
    ) -> None:
        """Take over the network; a batch has `images` images out of `count`."""
        self.network = network.to(device)
        self.device = device
        self.rng = torch.Generator(device).manual_seed(seed)
        self._adam = torch.optim.Adam(self.network.parameters(), fused=True)
        self._clip, self._count, self._images = clip, count, images
        self._batches = -(-count // images)
        self._order = torch.empty(0, dtype=torch.int64)
        self._history: list[dict[str, float]] = []

    def batch(self, number: int) -> tuple[int, Tensor]:
        """Return the epoch of a step, and its images; every epoch has a new order."""
        epoch, place = divmod(number, self._batches)
        if place == 0:
            drawn = torch.randperm(self._count, generator=self.rng, device=self.device)
            self._order = drawn.cpu()
        start = place * self._images
        return epoch, self._order[start : start + self._images]

    def descend(self, loss: Tensor, rate: float) -> None:
        """Do an optimizer step on a loss at a learning rate."""
        self._adam.zero_grad()
        torch.autograd.backward(loss)
        for group in self._adam.param_groups:
            group["lr"] = rate
        nn.utils.clip_grad_value_(self.network.parameters(), self._clip)
        self._adam.step()

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the weights, on the CPU."""
        return {k: value.cpu().clone() for k, value in self.network.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return everything that later steps depend on, on the CPU."""
        kept = {name: getattr(self, name) for name in ("_order", "_history", *self.kept)}
        adam, rng = on_cpu(self._adam.state_dict()), self.rng.get_state()
        return {"weights": self.weights(), "adam": adam, "rng": rng, "kept": kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the training to a returned `state`."""
        self.network.load_state_dict(state["weights"])
        self._adam.load_state_dict(state["adam"])
        self.rng.set_state(state["rng"])
        for name, value in state["kept"].items():
            setattr(self, name, deepcopy(value))


class CrossEntropy(NamedTuple):
    """Settings of cross-entropy training; defaults are from the paper and `fc.yml`.

    A batch has `images` images with `captions` captions each. The learning rate is multiplied by
    `decay` every `decay_epochs`; the probability of scheduled sampling grows by `sampling` every
    `sampling_epochs`, up to `most_sampling`. There are `validate_steps` between two validations,
    each on the first `validate_images`. `feature_noise` is the standard deviation of normal noise
    on the features, drawn for each caption (the paper has none). Gradients are clipped to `clip` by
    value.
    """

    epochs: Positive = 30
    images: Positive = 10
    captions: Positive = 5
    learning_rate: float = 5e-4
    decay: float = 0.8
    decay_epochs: Positive = 3
    sampling: float = 0.05
    sampling_epochs: Positive = 5
    most_sampling: float = 0.25
    dropout: float = 0.5
    feature_noise: float = 0.0
    clip: float = 0.1
    validate_steps: Positive = 3000
    validate_images: Positive = 5000
    seed: int = 0

    def rate_in(self, epoch: int) -> float:
        """Return the learning rate of an epoch, numbered from 0."""
        return self.learning_rate * self.decay ** (epoch // self.decay_epochs)

    def sampling_in(self, epoch: int) -> float:
        """Return the probability of scheduled sampling in an epoch, numbered from 0."""
        return min(self.sampling * (epoch // self.sampling_epochs), self.most_sampling)


# As in arXiv:2210.09550.
PAPER_CROSS_ENTROPY = CrossEntropy()


class TrainingCaptions(NamedTuple):
    """Features [N, F] of the training images, their captions, and the vocabulary."""

    features: Tensor
    labels: Labels
    vocabulary: Vocabulary


class ValidationCaptions(NamedTuple):
    """Features [N, F] of the validation images, and the references of each."""

    features: Tensor
    references: Sequence[Sequence[str]]


class CrossEntropyTraining(CaptionerTraining):
    """Cross-entropy training of a captioner, for `Engine.train`.

    `loss` is the loss of the last step. Without an exam, the result has the last weights.
    """

    kept = ("_losses", "_best")

    def __init__(
        self,
        lesson: TrainingCaptions,
        exam: ValidationCaptions | None,
        weights: Mapping[str, Tensor],
        plan: CrossEntropy,
        device: torch.device,
    ) -> None:
        """Begin with these weights."""
        (width, features), (words, hidden) = (weights[f"{end}.weight"].shape for end in ENDS)
        network = restore_captioner(weights, Sizes(features, words - 1, width, hidden))
        count, images = len(lesson.features), plan.images
        super().__init__(
            network, device, clip=plan.clip, seed=plan.seed, count=count, images=images
        )
        self._lesson, self._exam, self._plan = lesson, exam, plan
        self.loss = math.nan
        self._losses: list[float] = []
        self._best: dict[str, Any] = {}
        self.steps = plan.epochs * self._batches

    def step(self, number: int) -> None:
        """Do a step, and validate if it is due."""
        epoch, images = self.batch(number)
        loss = self._loss(images, epoch)
        self.descend(loss, self._plan.rate_in(epoch))
        self.loss = float(loss.detach())
        self._losses.append(self.loss)
        if self._exam is None:
            return
        if number + 1 == self.steps or (number + 1) % self._plan.validate_steps == 0:
            self._validate(number + 1, self._exam)

    def result(self) -> dict[str, Any]:
        """Return the weights with the best CIDEr, their step, and the history of validations."""
        return {"weights": self.weights(), **self._best, "history": self._history}

    def _loss(self, images: Tensor, epoch: int) -> Tensor:
        count, lesson = self._plan.captions, self._lesson
        rows = lesson.labels.draw(images, count, self.rng).flatten()
        words = until_all_end(lesson.labels.words[rows].long()).to(self.device)
        noise = Noise(self.rng, self._plan.dropout, self._plan.sampling_in(epoch))
        features = lesson.features[images].to(self.device)
        if self._plan.feature_noise:
            features = features.repeat_interleave(count, 0)
            seen = self.network.see(noise.blur(features, self._plan.feature_noise))
        else:
            seen = repeat_states(self.network.see(features), count)
        return caption_loss(self.network, seen, words, noise)

    def _validate(self, steps: int, exam: ValidationCaptions) -> None:
        """Keep the network if its captions are the best so far."""
        some = slice(self._plan.validate_images)
        captions = greedy_captions(self.network, exam.features[some])
        texts = self._lesson.vocabulary.texts(captions)
        score = cider(self._lesson.vocabulary, texts, exam.references[some]).value
        loss = sum(self._losses) / len(self._losses)
        self._losses = []
        self._history.append({"steps": steps, "loss": loss, "cider": score})
        if not self._best or score > self._best["cider"]:
            self._best = {"weights": self.weights(), "steps": steps, "cider": score}


def cider(
    vocabulary: Vocabulary, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> Estimate:
    """Return the CIDEr of a caption per image, on the vocabulary's words without punctuation."""

    def words(text: str) -> str:
        return " ".join(word for word in vocabulary.split(text) if any(map(str.isalnum, word)))

    captions: Captions = {i: [words(text)] for i, text in enumerate(texts)}
    others: Captions = {i: [*map(words, group)] for i, group in enumerate(references)}
    with CaptionMetrics(["cider"], words=plain_words) as metrics:
        estimate = metrics(captions, others)["cider"].estimate
    assert isinstance(estimate, Estimate)
    return estimate


# Scores float32 [N] of texts for the images of these rows, including repeated pairs; higher is
# better.
Reward = Callable[[Sequence[int], Sequence[str]], Tensor]


class SelfCritical(NamedTuple):
    """Settings of training by a model's reward; defaults are from `fc_rl.yml`.

    A batch has `images` images with `samples` samples each. At most `most_captions` captions are
    scored, including greedy captions, for any `epochs`; None sets no limit. `budgets` are ascending
    multiples of this training, after which favourites are evaluated; the last budget is the end of
    training, and 0 is before the reward.
    """

    epochs: Positive = 20
    images: Positive = 10
    samples: Positive = 5
    learning_rate: float = 5e-5
    dropout: float = 0.5
    clip: float = 0.1
    most_captions: Positive | None = None
    budgets: Sequence[int] = (1,)

    def steps(self, images: int) -> int:
        """Return the number of steps on `images` training images, for a budget of 1."""
        steps = self.epochs * -(-images // self.images)
        if self.most_captions is None:
            return steps
        return min(steps, self.most_captions // (self.images * (self.samples + 1)))


# As in arXiv:2210.09550.
PAPER_SELF_CRITICAL = SelfCritical()


class SelfCriticalTraining(CaptionerTraining):
    """Training of a captioner by reward on features [N, F] of images, for `Engine.train`.

    `result` has the weights after each budget and before the last epochs, the number of scored
    captions, the fraction of samples with an advantage, and the history of both and of mean scores.
    """

    kept = ("_sums", "_total", "_weights", "_before_last")

    def __init__(
        self,
        taught: StoredCaptioner,
        features: Tensor,
        reward: Reward,
        plan: SelfCritical,
        device: torch.device,
        *,
        seed: int,
    ) -> None:
        """Start from a captioner, whose network is modified.

        Raises ValueError for budgets that are not ascending, or whose last is not above 0.
        """
        budgets = list(plan.budgets)
        if budgets != sorted({*budgets}) or not budgets or budgets[0] < 0 or budgets[-1] < 1:
            raise ValueError(f"budgets are {budgets}; they must ascend from 0 or more to 1 or more")
        count, images = len(features), plan.images
        super().__init__(
            taught.network, device, clip=plan.clip, seed=seed, count=count, images=images
        )
        self._vocabulary, self._features = taught.vocabulary, features
        self._reward, self._plan = reward, plan
        self._sums = self._total = torch.zeros(len(Sums._fields), dtype=torch.float64)
        self._weights: dict[int, dict[str, Tensor]] = {}
        self._ends = {budget * plan.steps(count): budget for budget in plan.budgets if budget}
        self.steps = max(self._ends)
        self._before_last = self.weights()

    def step(self, number: int) -> None:
        """Do one step."""
        if number == self.steps - max(1, self.steps // LAST):
            self._before_last = self.weights()
        sums = self._learn(self.batch(number)[1])
        self._sums = self._sums + torch.tensor(sums, dtype=torch.float64)
        if number + 1 == self.steps or (number + 1) % max(1, self.steps // ENTRIES) == 0:
            self._note(number + 1)
        if number + 1 in self._ends:
            self._weights[self._ends[number + 1]] = self.weights()

    def result(self) -> dict[str, Any]:
        """Return the weights by budget, the history, and the counts of the whole training."""
        total = Sums(*self._total.tolist())
        return {
            "weights": self._weights,
            "before_last": self._before_last,
            "history": self._history,
            "scored": int(total.scored),
            "share_with_advantage": total.advantages / max(1.0, total.samples),
        }

    def _learn(self, images: Tensor) -> Sums:
        samples, features = self._plan.samples, self._features[images].to(self.device)
        captions = rollout(self.network, features, samples, Noise(self.rng, self._plan.dropout))
        texts = self._vocabulary.texts(torch.cat([captions.greedy, captions.sampled]))
        rows = torch.cat([images, images.repeat_interleave(samples)]).tolist()
        with ThreadPoolExecutor(1) as beside:
            losses = beside.submit(sample_losses, self.network, features, captions)
            scores = self._reward(rows, texts)
        base, own = scores[: len(images)].repeat_interleave(samples), scores[len(images) :]
        gain = advantages(own, base)
        self.descend(reward_loss(losses.result(), captions, gain), self._plan.learning_rate)
        scored = len(set(zip(rows, texts, strict=True)))
        return Sums(float(own.sum()), float(base.sum()), float((gain != 0).sum()), len(own), scored)

    def _note(self, steps: int) -> None:
        """Append the means since the last entry to the history."""
        sums = Sums(*self._sums.tolist())
        self._total, self._sums = self._total + self._sums, torch.zeros_like(self._sums)
        entry = {
            "steps": float(steps),
            "sampled_score": sums.sampled / sums.samples,
            "greedy_score": sums.greedy / sums.samples,
            "share_with_advantage": sums.advantages / sums.samples,
        }
        self._history.append(entry)


class Sums(NamedTuple):
    """Sums over samples: scores, scores of the greedy captions, advantages; captions scored."""

    sampled: float
    greedy: float
    advantages: float
    samples: float
    scored: float


def advantages(scores: Tensor, greedy: Tensor) -> Tensor:
    """Return scores [N] minus the scores of the greedy captions [N]; 0 if both are tied."""
    gain = scores - greedy
    largest = torch.maximum(scores.abs(), greedy.abs())
    return gain.masked_fill(gain.abs() <= TIE * largest, 0.0)
