"""Rows made: the result of a job, whether it ended well or not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlbench.planning.jobs import Job
from vlbench.results import Outcome, Result, counts_of
from vlbench.running.models import LiveModels
from vlbench.running.provenance import comparable_of, provenance_of

# The folders of an absolute path: of somebody's machine, which no row may tell of.
LOCAL_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s'\"/]+/)+")


def without_scores(job: Job, status: str, reason: str) -> Result:
    """Return the row of a job that was skipped or failed, with the reason."""
    return replace(_head(job), status=status, reason=LOCAL_PATH.sub("", reason))


def begun(job: Job, models: LiveModels) -> Result:
    """Return the row of a job that is about to run: all but what its probe finds."""
    return replace(
        _head(job),
        comparable=comparable_of(job, models),
        provenance=provenance_of(job, models),
    )


def finished(
    row: Result, job: Job, outcome: Outcome, run: Mapping[str, Any], artifacts: Mapping[str, Any]
) -> Result:
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
        artifacts=artifacts,
        notes=[*notes, *outcome.notes],
        run=run,
    )


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
