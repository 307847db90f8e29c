"""Measure `vlbench leaderboard findings` on many planted models (CPU seconds of whole processes).

Each finding is on a board of its own or shares one with others; every fifth one compares the models
with a control over the items of their rows, the others within a row, as those of the papers do. The
target for 500 models x 70 findings is 10 s, once they have been judged. Run:
python benchmarks/findings.py [--models 500] [--findings 70] [--boards 14] [--items 500]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml
from boards import PROVENANCE, SHARED, write

from vlbench.boards import Board, save_artifacts
from vlbench.metrics.items import Examples, item_table
from vlbench.results import Result, Score

CONTROL = "random-vectors"
PRIMARY = {"metric": "accuracy", "at": {}}
OTHERS = 20


def main() -> None:
    """Print the seconds of the command."""
    parser = argparse.ArgumentParser()
    for name, size in {"models": 500, "findings": 70, "boards": 14, "items": 500}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "source", Path(folder) / "boards"
        tasks = [f"planted_{i:02}" for i in range(given.boards)]
        write_source(source, tasks, given.findings, [f"m{i:03}" for i in range(given.models)])
        for i, task in enumerate(tasks):
            write(output, planted_board(output, task, given.models, given.items, seed=i))
        words = ["leaderboard", "findings", "--output", str(output), "--include-path", str(source)]
        environment = os.environ | {"VLBENCH_CACHE_DIR": f"{folder}/cache"}
        for what in ("an empty cache", "nothing changed", "one board changed"):
            if what == "one board changed":
                write(output, planted_board(output, tasks[0], given.models, given.items, seed=99))
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "vlbench", *words, "--format", "csv"]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
            done = subprocess.run(command, check=True, env=environment, **pipes)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            judged = sum("planted" in line for line in done.stdout.splitlines())
            print(f"{what}: {spent:.1f} s, {judged} verdicts", flush=True)


def write_source(source: Path, tasks: list[str], findings: int, models: list[str]) -> None:
    """Write tasks and claims."""
    for task in tasks:
        file = source / "tasks" / f"{task}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        probe = {"version": 1, "description": "Planted", "probe": "few_shot", "primary": PRIMARY}
        data = {"data": {"loader": "vlbench.data.scenes:scenes", "seed": 0}}
        file.write_text(yaml.safe_dump(probe | data))
    claims = [
        {
            "claim": f"Finding {i}.",
            "for_each": {"model": "all", "task": [tasks[i % len(tasks)]]},
            "metric": "accuracy" if i % 5 == 0 else f"other_{i % OTHERS}",
            "greater": [{}, {"model": CONTROL} if i % 5 == 0 else {"floor": "chance"}],
        }
        for i in range(findings)
    ]
    folder = source / "tasks" / "claims"
    folder.mkdir()
    (folder / "planted.yaml").write_text(
        yaml.safe_dump({"models": {"all": models}, "claims": claims})
    )


def planted_board(output: Path, task: str, models: int, items: int, seed: int) -> Board:
    """Return a board whose rows have 20 other scores and the items of their accuracy."""
    rng = np.random.default_rng(seed)
    examples = Examples([f"{i:06}.png" for i in range(items)], [f"of {i}" for i in range(items)])
    names = [CONTROL, *(f"m{i:03}" for i in range(models))]
    rows = []
    for name in names:
        credit = (rng.random(items) < 0.3 + 0.4 * rng.random()).astype(float)
        table = item_table(examples, "accuracy", {}, credit)
        kept = save_artifacts(output, task, name, {"items": table})
        scores = [Score("accuracy", float(credit.mean()), items, chance=0.5)]
        for i in range(OTHERS):
            value = rng.random()
            around = (value - 0.05, value + 0.05)
            scores.append(Score(f"other_{i}", value, items, ci95=around, chance=0.5))
        given = {"task": task, "primary": PRIMARY, "model": name, "scores": scores}
        counts = {"n": items, "expected": items}
        extra = {"counts": counts, "artifacts": kept, "provenance": PROVENANCE}
        rows.append(Result(**{**SHARED, **given, **extra}))
    return Board(task=task, version=1, paper="", primary=PRIMARY, results=rows)


if __name__ == "__main__":
    main()
