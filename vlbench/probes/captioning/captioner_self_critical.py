"""Captions that a captioner draws from its own probabilities, and REINFORCE's gradient, by hand.

Autograd takes longer over some 800 small tensors than their arithmetic. Captions do not touch
each other, so the gradient is linear in their rewards: all of it but the last sums, `deltas`, is
found before any reward is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from vlbench.probes.captioning.captioner_cross_entropy import Learner
from vlbench.probes.captioning.captioner_files import Vocabulary
from vlbench.probes.captioning.captioner_network import END, LONGEST, FcCaptioner, Noise, until_end


class Rollout(NamedTuple):
    """Greedy captions of B images, sampled ones, and what the gradient of these needs.

    `greedy` int64 [20, B] and `sampled` [20, N] are END after their last word; an image's samples
    are neighbours. What follows is of the sampled ones and of the T steps until all had ended:
    `gates` [T + 1, N, 5, H], of which the last two are candidates, `cells` and `outputs`
    [T + 1, N, H], step 0 being the image's; `kept` [T, N, H] is what dropout multiplies outputs by,
    and 0 after END; `errors` [T, N, V + 1] are the probabilities, less 1 for the word sampled.
    """

    greedy: Tensor
    sampled: Tensor
    gates: Tensor
    cells: Tensor
    outputs: Tensor
    kept: Tensor
    errors: Tensor


@torch.no_grad()
def rollout(network: FcCaptioner, features: Tensor, several: int, noise: Noise) -> Rollout:
    """Return the greedy caption, without dropout, and `several` samples of each of [B, F]."""
    n, images, hidden = len(features) * several, len(features), network.logit.in_features
    rows, recurrent = n + images, network.core.h2h.weight.T
    table = network.added(network.embed.weight)
    kept = features.new_ones(LONGEST, rows, hidden)
    kept[:, :n] = noise.thin(kept[:, :n])
    gates = features.new_empty(LONGEST + 1, rows, 5, hidden)
    cells, outputs = features.new_empty(2, LONGEST + 1, rows, hidden)
    errors = features.new_empty(LONGEST, n, len(table))
    words = torch.full((LONGEST, rows), END, device=features.device)

    seen = network.added(network.fc_embed(features))
    torch.cat([seen.repeat_interleave(several, 0), seen], out=gates[0].view(rows, -1))
    _turn(gates[0], torch.zeros_like(cells[0]), cells[0], outputs[0])
    word, going = words[0], torch.ones_like(words[0], dtype=torch.bool)
    for step in range(LONGEST):
        read = gates[step + 1].view(rows, -1)
        torch.index_select(table, 0, word, out=read).addmm_(outputs[step], recurrent)
        _turn(gates[step + 1], cells[step], cells[step + 1], outputs[step + 1])
        logits = network.logit(outputs[step + 1] * kept[step])
        torch.softmax(logits[:n], 1, out=errors[step])
        word = torch.cat([noise.draw(errors[step]), logits[n:].argmax(1)])
        word *= going
        words[step] = word
        going &= word != END
        if not going.any():
            break
    steps, after, sampled = slice(step + 1), slice(step + 2), words[:, :n]
    errors[steps].scatter_add_(2, sampled[steps, :, None], -torch.ones_like(errors[steps, :, :1]))
    kept[steps, :n] *= until_end(sampled[steps].T).T[:, :, None]
    return Rollout(
        words[:, n:],
        sampled,
        gates[after, :n],
        cells[after, :n],
        outputs[after, :n],
        kept[steps, :n],
        errors[steps],
    )


def _turn(gates: Tensor, before: Tensor, cell: Tensor, output: Tensor) -> None:
    """Write cell and output [N, H], of gates [N, 5, H], whose first three it makes 0..1."""
    gates[:, :3].sigmoid_()
    take, keep, show, one, other = gates.unbind(1)
    torch.mul(keep, before, out=cell)
    cell.addcmul_(take, torch.maximum(one, other))
    torch.mul(show, cell.tanh(), out=output)


@torch.no_grad()
def deltas(network: FcCaptioner, said: Rollout) -> Tensor:
    """Return the gradient of the summed negative log probabilities by gates, [T + 1, N, 5, H]."""
    take, _, show, one, other = said.gates.unbind(2)
    squashed = said.cells.tanh()
    slopes = torch.empty_like(said.gates)
    opened = said.gates[:, :, :3]
    torch.addcmul(opened, opened, opened, value=-1, out=slopes[:, :, :3])
    slopes[:, :, 0] *= torch.maximum(one, other)
    slopes[0, :, 1] = 0
    slopes[1:, :, 1] *= said.cells[:-1]
    slopes[:, :, 2] *= squashed
    # Of equal candidates, which no real weights have, the second takes all.
    torch.mul(take, one > other, out=slopes[:, :, 3])
    torch.sub(take, slopes[:, :, 3], out=slopes[:, :, 4])
    to_cell = torch.addcmul(show, show * squashed, squashed, value=-1)
    outputs = (said.errors @ network.logit.weight).mul_(said.kept)

    gates = torch.empty_like(slopes)
    cell, later = torch.zeros_like(to_cell[0]), torch.zeros_like(to_cell[0])
    for step in reversed(range(len(gates))):
        output = later + outputs[step - 1] if step else later
        cell.addcmul_(output, to_cell[step])
        torch.mul(slopes[step], cell[:, None], out=gates[step])
        torch.mul(slopes[step, :, 2], output, out=gates[step, :, 2])
        cell *= said.gates[step, :, 1]
        later = gates[step].flatten(1) @ network.core.h2h.weight
    return gates


@torch.no_grad()
def reward_gradients(
    network: FcCaptioner, features: Tensor, said: Rollout, found: Tensor, rewards: Tensor
) -> dict[str, Tensor]:
    """Return REINFORCE's gradient by each weight, for the reward [N] of each sampled caption.

    Its loss is the mean of reward times negative log probability over all words of the batch, the
    END of each caption included (arXiv:1612.00563, as ImageCaptioning.pytorch averages it). The
    deltas that were `found` are used up.
    """
    core, counted = network.core, until_end(said.sampled.T).T[: len(said.errors)]
    share = rewards / counted.sum()
    gates = found.flatten(2).mul_(share[:, None])
    seen = gates[0].view(len(features), -1, gates.shape[2]).sum(1)
    later, errors = gates[1:].flatten(0, 1), said.errors.flatten(0, 1)
    outputs = (said.outputs[1:] * said.kept * share[:, None]).flatten(0, 1)
    read = pad(said.sampled[: len(counted) - 1], (0, 0, 1, 0), value=END).flatten()
    # What `embedding` has as its gradient: sums of the rows of each word, the same on every run.
    by_word = torch.ops.aten.embedding_dense_backward(
        later, read, len(network.embed.weight), -1, False
    )
    by_image, bias = seen @ core.i2h.weight, seen.sum(0) + later.sum(0)
    return {
        "fc_embed.weight": by_image.T @ features,
        "fc_embed.bias": by_image.sum(0),
        "embed.weight": by_word @ core.i2h.weight,
        "_core.i2h.weight": by_word.T @ network.embed.weight + seen.T @ network.fc_embed(features),
        "_core.i2h.bias": bias,
        "_core.h2h.weight": later.T @ said.outputs[:-1].flatten(0, 1),
        "_core.h2h.bias": bias.clone(),
        "logit.weight": errors.T @ outputs,
        "logit.bias": (counted * share).flatten() @ errors,
    }


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
