"""Random projected gradient descent on images. Madry et al. 2018, arXiv:1706.06083, section 2.1.

foolbox takes the steps. From a random point within epsilon of the image, each of `steps` steps goes
`rel_stepsize` x epsilon along the gradient of the summed cross-entropy: along its sign (linf), or
along the gradient scaled to length one (l2). After each step the image is projected back to within
epsilon and into [0, 1].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlbench.metrics.ranking import choose
from vlbench.results import Positive
from vlbench.system.digests import digest

# foolbox's name of the attack under each norm.
ATTACKS = {"linf": "LinfPGD", "l2": "L2PGD"}
GOALS = ("untargeted", "targeted")

Logits = Callable[[Tensor], Tensor]


class Descent(NamedTuple):
    """How images are attacked: the steps, and how many images share a random start.

    With `early_stop`, an image is fixed when it is first misclassified (or gets the target class).
    """

    steps: Positive = 100
    rel_stepsize: float = 0.025
    batch_size: Positive = 10
    early_stop: bool = False


# As in arXiv:2104.08313.
PAPER_DESCENT = Descent()


class Attack(NamedTuple):
    """An attack under one norm, to one goal, of one size epsilon, in units of [0, 1]."""

    norm: str
    goal: str
    epsilon: float
    descent: Descent
    seed: int


def perturb(logits: Logits, pixels: Tensor, label: Tensor, attack: Attack, number: int) -> Tensor:
    """Return pixels [N, 3, H, W] in [0, 1], moved by at most epsilon.

    They move away from the right classes `label` [N], or towards target classes `label`. The random
    start depends only on seed, norm, goal, epsilon and the batch's `number`; torch's generators are
    restored.
    """
    foolbox = _foolbox()
    descent = attack.descent
    steps = getattr(foolbox.attacks, ATTACKS[attack.norm])(
        rel_stepsize=descent.rel_stepsize, steps=descent.steps, random_start=True
    )
    with _seeded(pixels.device, attack, number), torch.enable_grad():
        if descent.early_stop:
            return _until_success(steps, logits, pixels, label, attack)
        net = foolbox.PyTorchModel(LogitsModule(logits).eval(), bounds=(0, 1), device=pixels.device)
        criterion = {
            "untargeted": foolbox.criteria.Misclassification,
            "targeted": foolbox.criteria.TargetedMisclassification,
        }[attack.goal]
        _, moved, _ = steps(net, pixels, criterion(label), epsilons=attack.epsilon)
    result: Tensor = moved.detach()
    return result


class LogitsModule(nn.Module):
    """A function from pixels to logits as a module, which foolbox needs."""

    def __init__(self, logits: Logits) -> None:
        super().__init__()
        self.forward = logits


def gradient(logits: Logits, pixels: Tensor, label: Tensor) -> Tensor:
    """Return the gradient of the attacked loss with respect to pixels, [N, 3, H, W].

    Raises ValueError if no gradient reaches the pixels, and if it is not finite.
    """
    with torch.enable_grad():
        moving = pixels.clone().requires_grad_()
        loss = cross_entropy(logits(moving), label, reduction="sum")
        gradient = None
        if loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, moving, allow_unused=True)
    if gradient is None:
        raise ValueError(
            "no gradient reaches the pixels: torch cannot trace the logits back to them; if the "
            "adapter has no gradient, set differentiable = False"
        )
    if not gradient.isfinite().all():
        raise ValueError("the gradient at the pixels is NaN or infinite, so no attack is possible")
    return gradient


def _until_success(
    steps: Any, logits: Logits, pixels: Tensor, label: Tensor, attack: Attack
) -> Tensor:
    """Return each image at the first step at which the attack succeeds, or after the last step.

    The steps are computed by foolbox. Images on which the attack has succeeded, without a tie, are
    no longer changed.
    """
    from eagerpy.astensor import astensor  # noqa: PLC0415 - as late as foolbox, which needs it

    sign, successful = (1.0, 0.0) if attack.goal == "untargeted" else (-1.0, 1.0)
    size = attack.descent.rel_stepsize * attack.epsilon
    moved: Tensor = steps.get_random_start(astensor(pixels), attack.epsilon).raw.clamp(0, 1)
    active = torch.arange(len(pixels), device=pixels.device)
    for _ in range(attack.descent.steps):
        x = moved[active].requires_grad_()
        scores = logits(x)
        loss = cross_entropy(scores, label[active], reduction="sum")
        gradient = astensor(torch.autograd.grad(loss, x)[0])
        credit = choose(scores.detach(), label[active], log_odds=True).credit
        go_on = credit != successful
        direction = steps.normalize(gradient, x=astensor(x.detach()), bounds=(0, 1)).raw
        x = x.detach() + sign * size * direction
        x = steps.project(astensor(x), astensor(pixels[active]), attack.epsilon).raw.clamp(0, 1)
        active, x = active[go_on], x[go_on]
        moved[active] = x
        if not len(active):
            break
    return moved


@contextmanager
def _seeded(device: torch.device, attack: Attack, number: int) -> Iterator[None]:
    """Seed torch's generators for one call, and restore them."""
    parts = [attack.seed, attack.norm, attack.goal, float(attack.epsilon), number]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(digest(parts).removeprefix("sha256:")[:15], 16))
        yield


def _foolbox() -> Any:
    with warnings.catch_warnings():
        # foolbox imports a SciPy function by a deprecated name.
        warnings.simplefilter("ignore", DeprecationWarning)
        import foolbox  # noqa: PLC0415 - planning a run must not wait for it
    return foolbox
