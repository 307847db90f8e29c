"""The loop that all small models are trained by."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# The loss is told as the mean over this many steps, the first and the last.
WINDOW = 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how fast to train; `rate` is the peak of a one-cycle schedule of AdamW."""

    steps: int
    batch: int
    rate: float
    decay: float
    seed: int = 0
    optimizer: str = "AdamW, one cycle"


class Batch(NamedTuple):
    """The rows of one step, the share of all steps done, 0..1, and the generator for draws."""

    rows: Tensor
    done: float
    rng: torch.Generator


class Training(NamedTuple):
    """What a training took and did; `load_before` is the machine's load in the minute before."""

    steps: int
    batch: int
    first_loss: float
    last_loss: float
    wall_seconds: float
    cpu_seconds: float
    threads: int
    load_before: float


def train(
    what: str, model: nn.Module, loss_of: Callable[[Batch], Tensor], rows: int, plan: Plan
) -> Training:
    """Train a model in place on `rows` examples and say every few seconds how far it is."""
    rng = torch.Generator().manual_seed(plan.seed)
    optimizer = torch.optim.AdamW(_groups(model, plan.decay), lr=plan.rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, plan.rate, total_steps=plan.steps, pct_start=0.15, cycle_momentum=False
    )
    losses: list[float] = []
    queue = torch.empty(0, dtype=torch.int64)
    load, wall, cpu = round(os.getloadavg()[0], 1), time.perf_counter(), time.process_time()
    model.train()
    for step in range(plan.steps):
        if len(queue) < plan.batch:
            queue = torch.cat([queue, torch.randperm(rows, generator=rng)])
        drawn, queue = queue[: plan.batch], queue[plan.batch :]
        loss = loss_of(Batch(drawn, step / plan.steps, rng))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        _tell(what, losses, plan.steps, wall)
    model.eval()
    ends = [sum(part) / len(part) for part in (losses[:WINDOW], losses[-WINDOW:])]
    seconds = [round(time.perf_counter() - wall, 1), round(time.process_time() - cpu, 1)]
    return Training(plan.steps, plan.batch, *ends, *seconds, torch.get_num_threads(), load)


def _groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return the weights by whether they decay: matrices and kernels do, the rest do not."""
    weights = list(model.parameters())
    return [
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": decay},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0},
    ]


def _tell(what: str, losses: list[float], steps: int, start: float) -> None:
    done = len(losses)
    if done % max(1, steps // 20) == 0:
        spent = time.perf_counter() - start
        left = spent / done * (steps - done)
        recent = losses[-WINDOW:]
        loss = sum(recent) / len(recent)
        print(f"{what}: {done}/{steps}, loss {loss:.3f}, {left:.0f} s left", flush=True)
