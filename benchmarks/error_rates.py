"""Measure how often the verdict on a finding is right, on planted models.

A planted model answers rightly with the probability of its floor, 1/2, and an effect more: 0 to 15
points, what real models differ by. Its items are of one of the kinds that tasks have, and lend the
score its interval. It is judged whether it beats the floor, and whether it beats another model, on
the same items, that is 25 points above the floor less the effect. A row is the fraction of draws
with a verdict; of an effect of 0, with any, which is at most 5 % where the test keeps its level.

Run: python benchmarks/error_rates.py [--draws 1000]
It writes its table into docs/simulations.md.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from coverage import clustered, credits_of_trials

from vlbench.boards.board import Board, save_artifacts
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import Comparison, Finding, Side
from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.metrics.intervals import Estimate, clustered_fraction, mean_of_trials, wilson
from vlbench.metrics.items import Examples, item_table
from vlbench.report.judging import SUPPORTED, UNDECIDED, Evidence, judge
from vlbench.results import ITEMS, Result, Score

Random = np.random.Generator

EFFECTS = (0.0, 0.03, 0.05, 0.1, 0.15)
FLOOR, BETTER = 0.5, 0.25

DOCS = Path(__file__).resolve().parents[1] / "docs" / "simulations.md"
BEGIN, END = "<!-- error_rates.py writes this -->", "<!-- up to here -->"

AT: dict[str, str] = {}
MODEL, OTHER, CHANCE = (
    Side(name, [name], ["t"], "accuracy", [AT], floor)
    for name, floor in (("a", ""), ("b", ""), ("a", "chance"))
)
FINDINGS = {
    "above its floor": Finding("", "", "", [Comparison("", [MODEL, CHANCE], 0.0)]),
    "above another model": Finding("", "", "", [Comparison("", [MODEL, OTHER], 0.0)]),
}


class Drawn(NamedTuple):
    """Credit [models, N], or [models, T, N] of T trials, and the cluster of each item, if any."""

    credit: np.ndarray
    clusters: list[str] | None = None


def independent(rng: Random, means: tuple[float, float], items: int) -> Drawn:
    """Draw items that have nothing to do with each other."""
    return Drawn((rng.random((2, items)) < np.array(means)[:, None]).astype(float))


def in_clusters(rng: Random, means: tuple[float, float], clusters: int) -> Drawn:
    """Draw clusters of 1 to 11 items, correlated by .1."""
    (hits,), sizes = clustered(rng, means[0], clusters)
    others = rng.binomial(sizes, rng.beta(9 * means[1], 9 * (1 - means[1]), clusters))
    credit = [
        np.concatenate([np.arange(size) < right for right, size in zip(own, sizes, strict=True)])
        for own in (hits, others)
    ]
    names = np.repeat(np.arange(clusters), sizes)
    return Drawn(np.stack(credit).astype(float), [f"c{i}" for i in names])


def in_trials(rng: Random, means: tuple[float, float], trials: int, items: int) -> Drawn:
    """Draw trials, whose seeds vary by .2 logits."""
    return Drawn(
        np.concatenate([credits_of_trials(rng, mean, trials, items, 0.2) for mean in means])
    )


KINDS: Mapping[str, Callable[[Random, tuple[float, float]], Drawn]] = {
    "300 independent items": lambda rng, means: independent(rng, means, 300),
    "1,000 independent items": lambda rng, means: independent(rng, means, 1000),
    "100 clusters of 1 to 11 items": lambda rng, means: in_clusters(rng, means, 100),
    "5 trials of 250 items": lambda rng, means: in_trials(rng, means, 5, 250),
}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    effects = [f"+{100 * effect:.0f}" for effect in EFFECTS[1:]]
    table = [
        f"| verdict, {draws:,} draws | of nothing | {' | '.join(effects)} points |",
        f"|---|{'---|' * len(EFFECTS)}",
    ]
    for name, kind in KINDS.items():
        with TemporaryDirectory() as folder:
            rows = rates(kind, draws, Path(folder))
        for judged, values in rows.items():
            table.append(f"| {judged}: {name} | {' | '.join(f'{100 * v:.1f}%' for v in values)} |")
            print(table[-1], flush=True)
    head, rest = DOCS.read_text().split(BEGIN)
    DOCS.write_text("\n".join([f"{head}{BEGIN}", "", *table, "", END + rest.split(END)[1]]))


def rates(kind: Callable[..., Drawn], draws: int, folder: Path) -> dict[str, list[float]]:
    """Return the fraction of draws with a verdict, by finding: any, or that it is supported.

    Items are written to the folder, each draw's in the place of the last one's.
    """
    found: dict[str, list[float]] = {}
    for text, finding in FINDINGS.items():
        base = FLOOR if finding.sides[1] is CHANCE else FLOOR + BETTER
        for effect in EFFECTS:
            verdicts = [
                judge(
                    finding,
                    evidence_of(kind(np.random.default_rng(seed), (base + effect, base)), folder),
                )
                for seed in range(draws)
            ]
            right = [
                one.verdict == SUPPORTED if effect else one.verdict != UNDECIDED for one in verdicts
            ]
            found.setdefault(text, []).append(float(np.mean(right)))
    return found


def evidence_of(drawn: Drawn, folder: Path) -> Evidence:
    """Return a board of both models, whose rows keep items in a folder."""
    examples = Examples(
        [f"{i:05}" for i in range(drawn.credit.shape[-1])],
        [f"{i}" for i in range(drawn.credit.shape[-1])],
        drawn.clusters,
    )
    rows = []
    for name, credit in zip("ab", drawn.credit, strict=True):
        value = estimate(credit, drawn.clusters)
        score = Score("accuracy", n=credit.shape[-1], chance=FLOOR, **value._asdict())
        table = item_table(examples, "accuracy", AT, credit)
        about = {"task": "t", "version": 1, "paper": "", "primary": {}, "status": "ok"}
        saved = save_artifacts(folder, "t", name, {ITEMS: table})
        about |= {"counts": {"n": credit.size, "expected": credit.size}}
        rows.append(Result(model=name, comparable="a", scores=[score], artifacts=saved, **about))
    spec = TaskSpec("t", Path(), Document(Path(), {}, {}))
    board = Board(task="t", version=1, paper="", primary={}, results=rows)
    return Evidence({"t": board}, Catalog({"t": spec}, {}), folder)


def estimate(credit: np.ndarray, clusters: Sequence[str] | None) -> Estimate:
    """Return the estimate that a probe makes of credit of its kind."""
    if credit.ndim == 2:
        return mean_of_trials(credit)
    if clusters is None:
        return wilson(float(credit.sum()), len(credit))
    codes = np.unique(clusters, return_inverse=True)[1]
    return clustered_fraction(np.bincount(codes, credit), np.bincount(codes))


if __name__ == "__main__":
    main()
