"""Measure how often intervals of shipped models hold the mean over freshly drawn worlds.

Four probes run on four shipped models, on the `objects` of each of 14 seeds that nothing was
trained or tuned on. For each score and model the truth is taken to be the mean over the worlds, and
the fraction of the 14 intervals that hold it is counted: wanted are 95 %. The last column is the
deviation over worlds by the mean standard error: below 1, intervals are wider than they need be.
World 0 is the board's own. It takes half a minute a world.

Run: python benchmarks/replication.py [--worlds 14] [--cache FOLDER]
It writes its table into docs/simulations.md.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml
from coverage import write_table

from vlbench.bench import evaluate
from vlbench.metrics.items import at_text
from vlbench.results import Result, Score

TASKS = ("few_shot_scenes", "clustering_scenes", "zero_shot_scenes", "rsa_scenes")
MODELS = ("tiny-rn", "tiny-clip", "tiny-vlm", "raw-pixels")
FIRST_SEED = 3000


def main() -> None:
    """Run all worlds and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=14)
    parser.add_argument("--cache", type=Path, help="keeps features and drawings for another run")
    given = parser.parse_args()
    scores: dict[tuple[str, str], dict[tuple[str, str], list[Score]]] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + given.worlds):
        for row in in_world(seed, given.cache):
            task = row.task.removesuffix(f"_{seed}")
            for score in row.scores:
                if score.ci95 is not None:
                    here = scores.setdefault((task, score.metric), defaultdict(list))
                    here[row.model, at_text(score.at)].append(score)
        print(f"world {seed}", flush=True)
    write_table([*table(scores)])


def in_world(seed: int, cache: Path | None) -> list[Result]:
    """Return the rows of all models and tasks on the world of a seed."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder) / "tasks"
        tasks.mkdir()
        for task in TASKS:
            spec = {"version": 1, "extends": task, "data": {"seed": seed}}
            (tasks / f"{task}_{seed}.yaml").write_text(yaml.safe_dump(spec), "utf-8")
        names = [f"{task}_{seed}" for task in TASKS]
        rows = evaluate([*MODELS], names, include_path=folder, cache_dir=cache or folder)
    failed = [f"{row.model}, {row.task}: {row.reason}" for row in rows if row.status == "failed"]
    if failed:
        raise RuntimeError("; ".join(failed))
    return rows


def table(
    scores: dict[tuple[str, str], dict[tuple[str, str], list[Score]]],
) -> Iterator[str]:
    """Yield the lines of the table: one per task and metric, and one of all."""
    yield "| score on fresh worlds | intervals | hold the mean | deviation / standard error |"
    yield "|---|---|---|---|"
    all_held = []
    for (task, metric), several in scores.items():
        held, relative = [], []
        for worlds in several.values():
            values = np.array([one.value for one in worlds])
            errors = [one.stderr for one in worlds]
            held += [one.ci95[0] <= values.mean() <= one.ci95[1] for one in worlds]
            relative.append(values.std(ddof=1) / np.mean(errors))
        all_held += held
        yield line(f"{task}, {metric}", held, f"{np.median(relative):.2f}")
    yield line("all", all_held, "")


def line(name: str, held: list[bool], relative: str) -> str:
    """Return a line of the table."""
    return f"| {name} | {len(held):,} | {sum(held):,} ({np.mean(held):.1%}) | {relative} |"


if __name__ == "__main__":
    main()
