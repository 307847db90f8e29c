"""Probes called directly, with the scores that the harness makes of their items."""

from functools import wraps

from vlbench.metrics.scores import scored


def with_scores(probe):
    """Return the probe with its outcome scored, as the harness does."""

    @wraps(probe)
    def run(*args, **options):
        return scored(probe(*args, **options))

    return run


def values(outcome):
    """Return the values of scores by metric and conditions."""
    return {(s.metric, *s.at.values()): s.value for s in outcome.scores}


def metric_values(outcome):
    """Return the values of scores by metric."""
    return {s.metric: s.value for s in outcome.scores}
