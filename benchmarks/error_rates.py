"""Make error rates of findings: how often a verdict is right on models that know or do not.

For each claim that ranges over models, and whose scores are fractions over items with a chance, or
are compared with a floor, the items of a row of the shipped boards lend their number, clusters and
trials. Their credit is drawn: the first side of a comparison knows all clusters, half of them, or
none, and guesses the others with the probability of the floor or of chance; the other side guesses
all. Where the first side is a floor, the second does the reverse of what it knows. The scores get
the intervals of their kind (clusters, trials, or Wilson), and the claim is judged as `findings`
does, without a correction for other models. What a probe adds to the error by training or choosing
heads is not in these rates. Findings of few-shot and clustering are of features, through the probe:
of the drawings that a planted model knows, the features point to the category, of others nowhere.

The rates stand beside the findings as long as the tasks have the same versions. Run:
python benchmarks/error_rates.py [--seeds 200]     it writes tasks/claims/error_rates.json
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench import __version__
from vlbench.boards import Board
from vlbench.catalog.catalog import Catalog, load_all_claims, load_catalog
from vlbench.catalog.claims import IN_TURN, Claim, Side
from vlbench.data.records import labels
from vlbench.data.scenes import objects
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_items
from vlbench.leaderboard.claims import Evidence, judge, read_boards
from vlbench.leaderboard.findings import NOT_RUN, finding_name, read_findings
from vlbench.leaderboard.joins import Items, items_of
from vlbench.metrics.intervals import Estimate, clustered_fractions, mean_of_trials, wilson
from vlbench.metrics.items import at_text
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.few_shot import few_shot
from vlbench.results import ITEMS, Outcome, Result, Score, matching

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tasks" / "claims" / "error_rates.json"

# Which fraction of clusters a planted model knows.
KINDS = {"knows": 1.0, "half": 0.5, "blind": 0.0}
PLANTED, OTHER = "planted", "other"


class Real(NamedTuple):
    """A score of a shipped row, and its items."""

    score: Score
    items: Items
    codes: NDArray[np.intp]


def main() -> None:
    """Write the file, and print its rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    catalog = load_catalog()
    output, claims = ROOT / "leaderboards", load_all_claims(catalog)
    rates = {}
    FILE.unlink(missing_ok=True)
    for row in read_findings(output, catalog, claims):
        ran = [m for m, cell in row.cells.items() if cell.verdict != NOT_RUN]
        if row.claim.range is None or not ran:
            continue
        # Rows of models that know nothing keep no items.
        kept = (m for m in ran if keeps_items(row.claim.tasks[0], m, catalog, output))
        model = next(kept, ran[0])
        try:
            if row.claim.tasks[0] in PROBES and row.claim.sides[0].metric == "accuracy":
                most = min(seeds, PROBES[row.claim.tasks[0]][1])
                rated = feature_rates(row.claim, catalog, most)
                found = {"planted": "features", "seeds": most, **rated}
            else:
                rated = planted_rates(row.claim, model, catalog, output, seeds)
                found = {"planted": "items", "seeds": seeds, **rated}
        except DataError as error:
            print(f"{row.name}: not planted: {error}", flush=True)
            continue
        versions = {name: catalog.tasks[name].version for name in row.claim.tasks}
        rates[finding_name(row.claim)] = {"versions": versions, **found}
        print(row.name, json.dumps(found), flush=True)
    made = {"vlbench": __version__, "made": f"{datetime.now(UTC):%Y-%m-%d}"}
    FILE.write_text(json.dumps(made | {"rates": rates}, indent=1) + "\n")


def keeps_items(task: str, model: str, catalog: Catalog, output: Path) -> bool:
    """Return whether a model's row has the items of its scores."""
    row = Evidence(read_boards(output, [catalog.tasks[task]]), catalog, output).row(task, model)
    return isinstance(row, Result) and ITEMS in row.artifacts


def planted_rates(
    claim: Claim, model: str, catalog: Catalog, output: Path, seeds: int
) -> dict[str, dict[str, float]]:
    """Return the fraction of each verdict on each kind of model; DataError where none can be."""
    real = {side_key(side): real_score(side, model, catalog, output) for side in sides_of(claim)}
    found = {}
    for kind, known in KINDS.items():
        rng = np.random.default_rng(0)
        drawn = {}
        for i, comparison in enumerate(claim.comparisons):
            floor = next((side.floor for side in comparison.sides if side.floor), "")
            for j, side in enumerate(comparison.sides):
                if not side.floor:
                    own = known if j == 0 or floor else 0.0
                    score = real[side_key(side)]
                    guess = guessing(score.score, floor)
                    drawn[i, j] = planted_scores(score, own, guess, seeds, rng, high=j == 0)
        verdicts = [one_verdict(claim, real, drawn, seed, catalog) for seed in range(seeds)]
        found[kind] = {v: verdicts.count(v) / seeds for v in dict.fromkeys(sorted(verdicts))}
    return found


def sides_of(claim: Claim) -> Iterator[Side]:
    """Yield the sides of a claim that can be planted. Raises DataError for another."""
    if any(len(one.sides) != 2 or one.low for one in claim.comparisons):
        raise DataError("its comparisons are not of two sides, or have a margin")
    for i, side in enumerate(side for one in claim.comparisons for side in one.sides):
        if len(side.models) * len(side.tasks) * len(side.at) > 1:
            raise DataError("a side is a mean of several scores")
        if i and side in [*claim.sides][:i] and not side.floor:
            raise DataError("a score stands in several comparisons")
        yield side


def side_key(side: Side) -> tuple[str, ...]:
    """Return what tells the scores of a claim apart, whatever the model."""
    return side.tasks[0], side.metric, at_text(side.at[0])


def real_score(side: Side, model: str, catalog: Catalog, output: Path) -> Real:
    """Return a score of a model's row, with its items. Raises DataError where it has none."""
    spec = catalog.tasks[side.tasks[0]]
    row = Evidence(read_boards(output, [spec]), catalog, output).row(spec.name, model)
    if not isinstance(row, Result) or ITEMS not in row.artifacts:
        raise DataError("the row keeps no items")
    (score,) = matching(row.scores, {"metric": side.metric, "at": side.at[0]})
    if score.unit != "fraction":
        raise DataError("a score is no fraction")
    items = items_of(model, read_items(output, row), score)
    if items.formula or not ((items.credit >= 0) | np.isnan(items.credit)).all():
        raise DataError("a score is no mean of credit")
    own = [f"item {i}" if c is None else c for i, c in enumerate(items.placed.clusters)]
    return Real(score, items, np.unique(own, return_inverse=True)[1])


def guessing(score: Score, floor: str) -> float:
    """Return the probability of credit that a model has which knows nothing."""
    value = score.floors[floor] if floor not in {"", "chance"} else score.chance
    if value is None:
        raise DataError("a score has no chance")
    return float(value)


class Draws(NamedTuple):
    """Planted credit [S, T, N] and its estimates."""

    credit: NDArray[np.float64]
    estimates: list[Estimate]


def planted_scores(
    real: Real, known: float, guess: float, seeds: int, rng: np.random.Generator, *, high: bool
) -> Draws:
    """Return scores that know a fraction of the clusters: credit 1, or where not `high`, 0."""
    trials, items = real.items.credit.shape
    credit = (rng.random((seeds, trials, items)) < guess).astype(float)
    clusters = int(real.codes.max()) + 1
    knows = rng.random((seeds, clusters))[:, real.codes] < known
    credit = np.where(knows[:, None, :], float(high), credit)
    credit[:, np.isnan(real.items.credit)] = np.nan
    if trials > 1:
        return Draws(credit, [mean_of_trials(one) for one in credit])
    if clusters == items:
        return Draws(credit, [wilson(float(one.sum()), items) for one in credit[:, 0]])
    totals = np.stack([np.bincount(real.codes, one) for one in credit[:, 0]], 1)
    return Draws(credit, clustered_fractions(totals, np.bincount(real.codes)))


def one_verdict(
    claim: Claim,
    real: Mapping[tuple[str, ...], Real],
    drawn: Mapping[tuple[int, int], Draws],
    seed: int,
    catalog: Catalog,
) -> str:
    """Return the verdict on one draw of the planted model."""
    scores: dict[str, dict[Any, Score]] = {PLANTED: {}, OTHER: {}}
    kept = {}
    for (i, j), draws in drawn.items():
        side = claim.comparisons[i].sides[j]
        key, name = side_key(side), PLANTED if side.models[0] == IN_TURN else OTHER
        base, value, credit = real[key], draws.estimates[seed], draws.credit[seed]
        scores[name][key] = replace(
            base.score, value=value.value, stderr=value.stderr, ci95=value.ci95, draws=(), halves=()
        )
        kept[key[0], name, "a", *key[1:]] = base.items._replace(
            model=name, credit=credit, values=credit
        )
    return verdict_on(claim, {k: [*own.values()] for k, own in scores.items()}, kept, catalog)


def verdict_on(
    claim: Claim,
    scores: Mapping[str, list[Score]],
    kept: dict[tuple[str, ...], Items],
    catalog: Catalog,
) -> str:
    """Return the verdict on the planted model by the scores and items of both models."""
    (task,) = claim.tasks
    rows = [planted_row(task, name, own) for name, own in scores.items() if own]
    version = catalog.tasks[task].version
    board = Board(task=task, version=version, paper="", primary={}, results=rows)
    evidence = Evidence({task: board}, catalog, ROOT, items=kept)
    return judge(renamed(claim.of(PLANTED)), evidence).verdict


# Of these tasks the probe reads planted features: the probe, and the most seeds, for time.
PROBES: Mapping[str, tuple[Any, int]] = {
    "few_shot_scenes": (few_shot, 200),
    "clustering_scenes": (clustering, 50),
}


def feature_rates(claim: Claim, catalog: Catalog, seeds: int) -> dict[str, dict[str, float]]:
    """Return the fraction of each verdict on models whose features the probe reads."""
    (comparison,) = claim.comparisons
    side = comparison.sides[0]
    names = (PLANTED, OTHER) if side.models[0] == IN_TURN else (OTHER, PLANTED)
    (task,), at = claim.tasks, side.at[0]
    found = {}
    for kind, known in KINDS.items():
        verdicts = []
        for seed in range(seeds):
            scores, kept = {}, {}
            for name, own, draw in zip(names, (known, 0.0), (seed, seed + seeds), strict=True):
                outcome = planted_outcome(task, own, draw, at.get("shots"))
                (score,) = matching(outcome.scores, {"metric": side.metric, "at": at})
                scores[name] = [score]
                key = (task, name, "a", side.metric, at_text(at))
                assert outcome.items is not None
                kept[key] = items_of(name, outcome.items, score)
            verdicts.append(verdict_on(claim, scores, kept, catalog))
        found[kind] = {v: verdicts.count(v) / seeds for v in sorted(set(verdicts))}
    return found


@cache
def planted_outcome(task: str, known: float, seed: int, shots: int | None) -> Outcome:
    """Return what a task's probe makes of planted features, on the held-out categories."""
    spec, data = load_catalog().tasks[task], objects(seed=0)
    params = {**spec.params, **({"shots": [shots]} if shots else {})}
    params["categories"] = {"held_out": spec.params["categories"]["held_out"]}
    both = PlantedFeatures(data, known, seed)
    outcome: Outcome = PROBES[task][0](both, data, both, **params)
    return outcome


class PlantedFeatures:
    """A model and an engine in one: features of 16 numbers that point to the category, or not."""

    encode_images = None

    def __init__(self, data: Any, known: float, seed: int) -> None:
        """Know this fraction of the drawings."""
        self.rng, self.known = np.random.default_rng(seed), known
        self.category = {
            name: int(label)
            for split in data.splits.values()
            for name, label in zip(split["image"].examples().ids, labels(split), strict=True)
        }

    def __getattr__(self, name: str) -> Any:
        """Return what else a probe asks of an engine."""
        return getattr(Engine.for_tests(), name)

    def features(self, _: Any, column: Any) -> torch.Tensor:
        """Return float32 [N, 16]."""
        ids = column.examples().ids
        features = self.rng.normal(size=(len(ids), 16))
        knows = self.rng.random(len(ids)) < self.known
        features[np.arange(len(ids)), [self.category[name] for name in ids]] += 8 * knows
        return torch.from_numpy(features.astype(np.float32))


def renamed(claim: Claim) -> Claim:
    """Return a claim of the planted model with the other one in the place of a control."""

    def swap(side: Side) -> Side:
        return replace(side, models=[m if m == PLANTED else OTHER for m in side.models])

    comparisons = [replace(c, sides=[swap(s) for s in c.sides]) for c in claim.comparisons]
    return replace(claim, comparisons=comparisons)


def planted_row(task: str, model: str, scores: list[Score]) -> Result:
    """Return an ok row that keeps items, which stand in no file."""
    kept = {ITEMS: {"file": "", "sha256": ""}}
    about = {"task": task, "version": 1, "paper": "", "primary": {}, "status": "ok"}
    return Result(model=model, comparable="a", scores=scores, artifacts=kept, **about)


if __name__ == "__main__":
    main()
