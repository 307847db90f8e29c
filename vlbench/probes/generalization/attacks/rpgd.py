"""Random projected gradient descent on images. Madry et al. 2018, arXiv:1706.06083, section 2.1.

foolbox takes the steps: from a random point within epsilon of the image, `steps` times
`rel_stepsize` x epsilon along the sign of the gradient (linf) or along the gradient at length one
(l2) of the summed cross-entropy, each time back to within epsilon and into [0, 1].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlbench.digests import digest
from vlbench.metrics.ranking import choose

# foolbox's name for the attack under each norm.
ATTACKS = {"linf": "LinfPGD", "l2": "L2PGD"}
GOALS = ("untargeted", "targeted")

Logits = Callable[[Tensor], Tensor]


class Attack(NamedTuple):
    """An attack: of which norm and size (in units of [0, 1]), to what goal, in which steps."""

    norm: str
    goal: str
    epsilon: float
    steps: int
    rel_stepsize: float
    seed: int
    early_stop: bool = False


def perturb(logits: Logits, pixels: Tensor, label: Tensor, attack: Attack, number: int) -> Tensor:
    """Return pixels [N, 3, H, W] in [0, 1], moved by at most epsilon.

    Away from classes `label` [N], which are right, or, targeted, towards those wanted. The random
    start depends on seed, norm, goal, epsilon and `number`, that of the batch, alone; torch's
    generators are left as they were. With `early_stop`, an image stays where it first falls.
    """
    foolbox = _foolbox()
    made = getattr(foolbox.attacks, ATTACKS[attack.norm])(
        rel_stepsize=attack.rel_stepsize, steps=attack.steps, random_start=True
    )
    with _seeded(pixels.device, attack, number), torch.enable_grad():
        if attack.early_stop:
            return _until_fallen(made, logits, pixels, label, attack)
        net = foolbox.PyTorchModel(Net(logits).eval(), bounds=(0, 1), device=pixels.device)
        criterion = {
            "untargeted": foolbox.criteria.Misclassification,
            "targeted": foolbox.criteria.TargetedMisclassification,
        }[attack.goal]
        _, moved, _ = made(net, pixels, criterion(label), epsilons=attack.epsilon)
    result: Tensor = moved.detach()
    return result


class Net(nn.Module):
    """A function from pixels to logits, as foolbox wants it."""

    def __init__(self, logits: Logits) -> None:
        super().__init__()
        self.forward = logits


def gradient(logits: Logits, pixels: Tensor, label: Tensor) -> Tensor:
    """Return the gradient of the attacked loss with respect to pixels, [N, 3, H, W].

    Raises ValueError where none reaches the pixels, and where it is not finite.
    """
    with torch.enable_grad():
        moving = pixels.clone().requires_grad_()
        loss = cross_entropy(logits(moving), label, reduction="sum")
        found = _slope(loss, moving) if loss.requires_grad else None
    if found is None:
        raise ValueError(
            "no gradient reaches the pixels: the logits do not depend on them in a way that "
            "torch can follow; an adapter that has none says differentiable = False"
        )
    if not found.isfinite().all():
        raise ValueError("the gradient at the pixels is NaN or infinite: nothing can be attacked")
    return found


def _slope(loss: Tensor, moving: Tensor) -> Tensor | None:
    return torch.autograd.grad(loss, moving, allow_unused=True)[0]


def _until_fallen(
    made: Any, logits: Logits, pixels: Tensor, label: Tensor, attack: Attack
) -> Tensor:
    """Return where each image is when it first falls, or after the last step.

    The steps are foolbox's own; images that have fallen, without a tie, take no further part.
    """
    from eagerpy.astensor import astensor  # noqa: PLC0415 - as late as foolbox, which needs it

    sign, fallen_at = (1.0, 0.0) if attack.goal == "untargeted" else (-1.0, 1.0)
    moved: Tensor = made.get_random_start(astensor(pixels), attack.epsilon).raw.clamp(0, 1)
    standing = torch.arange(len(pixels), device=pixels.device)
    for _ in range(attack.steps):
        x = moved[standing].requires_grad_()
        scores = logits(x)
        loss = cross_entropy(scores, label[standing], reduction="sum")
        slope = astensor(torch.autograd.grad(loss, x)[0])
        stands = choose(scores.detach(), label[standing]).credit != fallen_at
        along = made.normalize(slope, x=astensor(x.detach()), bounds=(0, 1)).raw
        x = x.detach() + sign * attack.rel_stepsize * attack.epsilon * along
        x = made.project(astensor(x), astensor(pixels[standing]), attack.epsilon).raw.clamp(0, 1)
        standing, x = standing[stands], x[stands]
        moved[standing] = x
        if not len(standing):
            break
    return moved


@contextmanager
def _seeded(device: torch.device, attack: Attack, number: int) -> Iterator[None]:
    """Seed torch's generators for one call, and put them back."""
    parts = [attack.seed, attack.norm, attack.goal, float(attack.epsilon), number]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(digest(parts).removeprefix("sha256:")[:15], 16))
        yield


def _foolbox() -> Any:
    with warnings.catch_warnings():
        # It asks SciPy for something by an old name.
        warnings.simplefilter("ignore", DeprecationWarning)
        import foolbox  # noqa: PLC0415 - planning a run must not wait for it
    return foolbox
