"""How a captioner was trained on a model's score: advantages that are not zero, and the history."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vlbench.metrics.statistics import student_interval
from vlbench.probes.captioning.captioner import Favourites
from vlbench.probes.captioning.parts import Part
from vlbench.results import Score

SCHEMA = pa.schema(
    [
        ("seed", pa.int32()),
        *(
            (name, pa.float64())
            for name in ("steps", "sampled_score", "greedy_score", "share_with_advantage")
        ),
    ]
)


def training_part(trained: Sequence[Favourites]) -> Part:
    """Return the share of sampled captions with an advantage that is not zero.

    A saturated model gives most samples none. With several seeds, the interval is Student's t.
    """
    draws = [one.share_nonzero_advantage for one in trained]
    seeds, value = len(draws), float(np.mean(draws))
    stderr, interval = None, None
    if seeds > 1:
        stderr = float(np.std(draws, ddof=1)) / math.sqrt(seeds)
        interval = (value, value)
        if stderr:
            low, high = student_interval(value, [stderr**2], [seeds])
            interval = (max(low, 0.0), min(high, 1.0))
    score = Score(
        metric="nonzero_advantages",
        value=value,
        n=seeds,
        stderr=stderr,
        ci95=interval,
        draws=draws if seeds > 1 else [],
    )
    return Part([score], counts={"scored_in_training": sum(one.scored for one in trained)})


def history_table(trained: Sequence[Favourites]) -> pa.Table:
    """Return the mean scores of sampled and greedy captions by seed and steps."""
    rows = [{"seed": seed, **entry} for seed, one in enumerate(trained) for entry in one.history]
    return pa.Table.from_pylist(rows, SCHEMA)
