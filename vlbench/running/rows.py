"""Rows made: the result of a job, whether it ended well or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlbench.data.overlaps import overlaps
from vlbench.data.records import Data
from vlbench.planning.jobs import Job
from vlbench.planning.privacy import cleaned, secrets_in
from vlbench.resolve import parameters
from vlbench.results import Outcome, Result, counts_of
from vlbench.running.models import LiveModels
from vlbench.running.provenance import comparable_of, provenance_of


def without_scores(job: Job, status: str, reason: str) -> Result:
    """Return the row of a job that was skipped or failed, with the reason."""
    return replace(_head(job), status=status, reason=_cleaned(job, reason))


def limited_out(job: Job, found: str) -> Result:
    """Return the row of a job that --limit leaves too few rows for, and what it found of them."""
    return replace(without_scores(job, "skipped", "limit"), notes=[_cleaned(job, found)])


def begun(job: Job, models: LiveModels) -> Result:
    """Return the row of a job that is about to run: all but what its probe finds."""
    return replace(
        _head(job),
        comparable=comparable_of(job, models),
        provenance=provenance_of(job, models),
    )


def finished(row: Result, job: Job, outcome: Outcome, run: Mapping[str, Any]) -> Result:
    """Return a row that was begun with what the job's probe found."""
    assert job.data
    missing = job.data.missing_rows()
    notes = [
        f"partial: {split} lacks {n} of {job.data.expected[split]} rows"
        for split, n in missing.items()
    ]
    return replace(
        row,
        scores=outcome.scores,
        counts=counts_of(outcome, row.primary, sum(missing.values())),
        notes=[
            *notes,
            *_shared(job.data),
            *_dropped(job),
            *_own_regions(job),
            *(_cleaned(job, note) for note in outcome.notes),
        ],
        run=run,
    )


def _dropped(job: Job) -> list[str]:
    """Return a note for each argument that the task has for adapters and this one lacks."""
    asked, made = job.task.spec.model, job.model.instance is None
    known = parameters(job.model.adapter) if made else {}
    why = "the adapter has no `{}`" if made else "the adapter came as an object, without `{}`"
    return [f"{why.format(key)}: its own preprocessing holds" for key in asked if key not in known]


def _shared(data: Data) -> list[str]:
    """Return a note for each two splits of the data that share rows."""
    found = {
        pair: n for pair, n in overlaps(data).items() if n and pair == _small_first(data, pair)
    }
    return [
        f"data: {n} of {len(data.splits[one])} rows of {one} are in {other}, too"
        for (one, other), n in found.items()
    ]


def _small_first(data: Data, pair: tuple[str, str]) -> tuple[str, str]:
    one, other = sorted(pair, key=lambda name: (len(data.splits[name]), name))
    return one, other


def _own_regions(job: Job) -> list[str]:
    """Return a note of the regions that the model reads, where rows of other kinds stand beside."""
    kind = job.model.spec.regions.get("kind")
    return [f"regions: {kind}"] if kind and job.task.spec.own_regions else []


def _cleaned(job: Job, text: str) -> str:
    """Return a message as a row may hold it."""
    companions = [one for several in job.task.companions.values() for one in several]
    given = [one.arguments for model in (job.model, *companions) for one in model.parts()]
    task = job.task.spec
    return cleaned(text, secrets_in([*given, task.data, task.params]))


def _head(job: Job) -> Result:
    spec = job.task.spec
    return Result(
        task=spec.name,
        version=spec.version,
        paper=spec.paper,
        primary=spec.primary_score,
        model=job.model.name,
        status="ok",
        request=job.request,
    )
