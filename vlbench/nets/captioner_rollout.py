"""Captions that a captioner draws from its own probabilities, and REINFORCE's gradient, by hand.

Autograd takes longer over some 800 small tensors than their arithmetic. Captions do not touch
each other, so the gradient is linear in their rewards: all of it but the last sums, `deltas`, is
found before any reward is known.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from vlbench.nets.captioner import END, LONGEST, FcCaptioner, Noise, until_end


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
