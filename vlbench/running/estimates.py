"""Estimates: what the jobs of a plan will take, by what earlier runs on this machine took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vlbench.planning.jobs import Job
from vlbench.running.history import LOADING, Seen, work_of


class Step(NamedTuple):
    """One step of a run: a model loaded or a job done, and what that took in earlier runs.

    `seen` is None where there was none. `others` counts the other models that it was seen of; 0: it
    was seen of this one.
    """

    model: str
    what: str
    seen: Seen | None
    others: int = 0


def estimated(jobs: Sequence[Job], known: Mapping[str, Mapping[str, Seen]]) -> list[Step]:
    """Return the steps of the jobs that are to run, in order, as far as earlier runs tell.

    `known` is what was seen, by work and model. A task that this model has not done is estimated
    from other models on the same rows; the loading of a model from nothing but itself.
    """
    steps: list[Step] = []
    loaded = set()
    for job in jobs:
        if job.status != "run":
            continue
        name = job.model.name
        if job.model.key not in loaded:
            loaded.add(job.model.key)
            steps.append(Step(name, LOADING, known.get(LOADING, {}).get(name)))
        steps.append(_step(job, known.get(work_of(job), {})))
    return steps


def total(steps: Sequence[Step]) -> Seen | None:
    """Return what steps take one after the other; None where nothing is known of any."""
    seen = [step.seen for step in steps if step.seen]
    if not seen:
        return None
    least, most, memory, stored = zip(*seen, strict=True)
    return Seen(sum(least), sum(most), max(memory), sum(stored))


def _step(job: Job, models: Mapping[str, Seen]) -> Step:
    name, task = job.model.name, job.task.spec.name
    if name in models or not models:
        return Step(name, task, models.get(name))
    least, most, memory, stored = zip(*models.values(), strict=True)
    seen = Seen(min(least), max(most), max(memory), max(stored))
    return Step(name, task, seen, others=len(models))
