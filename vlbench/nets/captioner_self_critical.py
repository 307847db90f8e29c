"""The self-critical stage of the captioner (SCST, arXiv:1612.00563), as in arXiv:2210.09550.

The reward is a model's matching score alone: L = -(r(sample) - r(greedy)) sum over t of log p(s_t),
averaged over words as in ImageCaptioning.pytorch, whose `fc_rl.yml` gives the other settings
(PROTOCOLS 7.2). The network after the last step is the result, not the one of the best CIDEr, which
only falls. Departure: an advantage within 1e-6 of the larger of the two scores is none, since Adam
would make full steps of a saturated model's rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.nets.captioner import FcCaptioner, Noise
from vlbench.nets.captioner_learner import Learner
from vlbench.nets.captioner_rollout import deltas, reward_gradients, rollout
from vlbench.nets.captioner_words import Vocabulary

# Scores float32 [N] of texts for the images of these rows; higher is better. No pair of a row and a
# text is asked for twice in one call.
Reward = Callable[[Sequence[int], Sequence[str]], Tensor]

# A smaller share of the larger score is no advantage.
TIE = 1e-6

# Entries of the history.
ENTRIES = 50


class SelfCritical(NamedTuple):
    """How the captioner learns a model's taste; the defaults are those of `fc_rl.yml`.

    A batch is so many `images` with so many `samples` each. No more than `most_captions` captions
    are scored, greedy ones included, whatever `epochs` says; None sets no limit.
    """

    epochs: int = 20
    images: int = 10
    samples: int = 5
    rate: float = 5e-5
    dropout: float = 0.5
    clip: float = 0.1
    most_captions: int | None = None

    def steps(self, images: int) -> int:
        """Return the number of steps on so many training images."""
        steps = self.epochs * -(-images // self.images)
        if self.most_captions is None:
            return steps
        return min(steps, self.most_captions // (self.images * (self.samples + 1)))


# As in arXiv:2210.09550.
PAPER_SELF_CRITICAL = SelfCritical()


class Policy(NamedTuple):
    """A captioner to start from: its widths and weights, and its words."""

    network: FcCaptioner
    vocabulary: Vocabulary


class SelfCriticalTraining:
    """The training of a policy on features [N, F] of images, for `Engine.train`.

    `result` has the weights after the last step, the number of captions scored, the fraction of
    samples with an advantage, and the history of both and of mean scores.
    """

    def __init__(
        self,
        policy: Policy,
        features: Tensor,
        reward: Reward,
        plan: SelfCritical,
        device: torch.device,
        *,
        seed: int,
    ) -> None:
        """Begin with the weights of the policy, whose network is taken over."""
        self._learner = Learner(policy.network, device, clip=plan.clip, seed=seed)
        self._vocabulary, self._features = policy.vocabulary, features
        self._reward, self._plan = reward, plan
        self._order = torch.empty(0, dtype=torch.int64)
        self._sums = [0.0] * len(Sums._fields)
        self._total = list(self._sums)
        self._history: list[dict[str, float]] = []
        self._batches = -(-len(features) // plan.images)
        self.steps = plan.steps(len(features))

    def step(self, number: int) -> None:
        """Do one step."""
        place = number % self._batches
        if place == 0:
            self._order = self._learner.shuffled(len(self._features))
        start = place * self._plan.images
        found = self._learn(self._order[start : start + self._plan.images])
        self._sums = [a + b for a, b in zip(self._sums, found, strict=True)]
        if number + 1 == self.steps or (number + 1) % max(1, self.steps // ENTRIES) == 0:
            self._note(number + 1)

    def state(self) -> Mapping[str, Any]:
        """Return all that the steps to come depend on."""
        kept = {"order": self._order, "sums": self._sums, "total": self._total}
        return {"learner": self._learner.state(), "history": self._history, **kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become as it was when `state` was returned."""
        self._learner.restore(state["learner"])
        self._order, self._history = state["order"], list(state["history"])
        self._sums, self._total = list(state["sums"]), list(state["total"])

    def result(self) -> dict[str, Any]:
        """Return what the training is for."""
        total = Sums(*self._total)
        return {
            "weights": self._learner.weights(),
            "history": self._history,
            "scored": int(total.scored),
            "share_with_advantage": total.advantages / max(1.0, total.samples),
        }

    def _learn(self, images: Tensor) -> Sums:
        learner, several = self._learner, self._plan.samples
        network = learner.network
        features = self._features[images].to(learner.device)
        said = rollout(network, features, several, Noise(learner.rng, self._plan.dropout))
        texts = self._vocabulary.texts(torch.cat([said.greedy, said.sampled], 1).T)
        rows = torch.cat([images, images.repeat_interleave(several)]).tolist()
        # What of the gradient needs no reward is computed while the model scores.
        with ThreadPoolExecutor(1) as beside:
            found = beside.submit(deltas, network, said)
            scores, scored = distinct_scores(self._reward, rows, texts)
        base = scores[: len(images)].repeat_interleave(several)
        gain = advantages(scores[len(images) :], base)
        rewards = gain.to(learner.device)
        weights = reward_gradients(network, features, said, found.result(), rewards)
        learner.follow(weights, self._plan.rate)
        own = scores[len(images) :]
        return Sums(float(own.sum()), float(base.sum()), float((gain != 0).sum()), len(own), scored)

    def _note(self, steps: int) -> None:
        """Write the means since the last entry into the history."""
        sums = Sums(*self._sums)
        self._total = [a + b for a, b in zip(self._total, sums, strict=True)]
        self._sums = [0.0] * len(sums)
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


def distinct_scores(
    reward: Reward, rows: Sequence[int], texts: Sequence[str]
) -> tuple[Tensor, int]:
    """Return the score of each text for its row, float32 [N], and how many were computed.

    Each text of a row is scored once. Raises ValueError where the reward gives another number of
    scores, or one that is not finite, with the text.
    """
    pairs = list(dict.fromkeys(zip(rows, texts, strict=True)))
    found = reward([row for row, _ in pairs], [text for _, text in pairs])
    if found.shape != (len(pairs),):
        raise ValueError(f"the reward gave {list(found.shape)} for {len(pairs)} captions")
    values = found.detach().float().cpu()
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        row, text = pairs[int(bad[0])]
        raise ValueError(f"the reward of image {row} with {text!r} is {float(values[bad[0]])}")
    known = dict(zip(pairs, values.tolist(), strict=True))
    scores = torch.tensor([known[pair] for pair in zip(rows, texts, strict=True)])
    return scores, len(pairs)


def advantages(scores: Tensor, greedy: Tensor) -> Tensor:
    """Return scores [N] less those of the greedy captions [N]; 0 where both are tied."""
    gain = scores - greedy
    largest = torch.maximum(scores.abs(), greedy.abs())
    return gain.masked_fill(gain.abs() <= TIE * largest, 0.0)
