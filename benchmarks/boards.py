"""Measure what is made of many boards, as ratios to reading them once (CPU seconds).

Synthetic boards of random scores, half of them along a number of shots, each row with the items of
its primary score; and with --matrices N a board of N rows with a matrix of 1,000 classes. Printed
are the CPU seconds and the peak memory of each command as a whole process; what is read once is the
JSON of all boards, or for `compare` the tables of the models' items, through pyarrow alone.

Run: python benchmarks/boards.py [--models 100] [--tasks 8] [--items 1000] [--matrices 0]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from vlbench.boards.board import Board, board_bytes, save_artifacts
from vlbench.files import safe_name, write_whole
from vlbench.metrics.items import Examples, item_table
from vlbench.results import Result, Score

CLASSES = 1_000
SHARED = {"version": 1, "paper": "arXiv:2104.08313, section 4", "status": "ok", "comparable": "a"}
PROVENANCE = {"weights": "sha256:1", "adapter": "sha256:2", "data": "synthetic"}


def main() -> None:
    """Print the table of one folder of boards."""
    parser = argparse.ArgumentParser()
    sizes = {"models": 100, "tasks": 8, "items": 1_000, "matrices": 0}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "boards"
        for i in range(arguments.tasks):
            write(output, task_board(output, i, arguments.models, arguments.items, rng))
        if arguments.matrices:
            write(output, matrix_board(output, arguments.matrices, rng))
        start = time.process_time()
        for file in output.glob("*.json"):
            json.loads(file.read_text("utf-8"))
        parsing = time.process_time() - start
        print(f"parsing the JSON of all boards: {parsing:.2f} s")
        words = [["build"], ["show"], ["page", f"{folder}/page"]]
        where, cache = ["--output", str(output)], f"{folder}/cache"
        for command in [*words, *([["show", "task_000"]] if arguments.tasks else [])]:
            measure(command, where, cache, parsing)
        for count in (2, 10) if arguments.tasks and arguments.items else ():
            measure(["compare", *names(count)], where, cache, reading_items(output, count))


def reading_items(output: Path, count: int) -> float:
    """Return the seconds that pyarrow alone takes for the items of so many models."""
    start = time.process_time()
    for name in names(count):
        for file in output.glob(f"artifacts/*/{safe_name(name)}/items.parquet"):
            pq.read_table(file, use_threads=False)
    return time.process_time() - start


def names(count: int) -> list[str]:
    """Return the names of models."""
    return [f"timm:model_{i:03}" for i in range(count)]


def write(output: Path, board: Board) -> None:
    """Write a board as its task's file."""
    write_whole(output / f"{board.task}.json", board_bytes(board))


def task_board(
    output: Path, number: int, models: int, items: int, rng: np.random.Generator
) -> Board:
    """Return a board with scores of each model; every second one has a curve along shots."""
    task, shots = f"task_{number:03}", (1, 5, 10) if number % 2 else ()
    ats = [{"shots": n} for n in shots] or [{}]
    primary = {"metric": "accuracy", "at": ats[-1]}
    ids = [f"images/{i:06}.png" for i in range(items)]
    examples = Examples(ids, [f"sha256:{i:064x}" for i in range(items)])
    table = item_table(examples, "accuracy", ats[-1], np.zeros(items))
    rows = []
    for name in names(models):
        credit = (rng.random(items) < 0.3 + 0.4 * rng.random()).astype(float)
        table = table.set_column(table.column_names.index("credit"), "credit", pa.array(credit))
        scores = [score(metric, at, rng) for at in ats[:-1] for metric in ("accuracy", "cosine")]
        scores += [score("cosine", ats[-1], rng), score("accuracy", ats[-1], rng)]
        value = float(credit.mean()) if items else scores[-1].value
        scores[-1] = Score(**{**vars(scores[-1]), "value": value})
        kept = save_artifacts(output, task, name, {"items": table}) if items else {}
        rows.append(row(task, primary, name, scores, kept))
    return Board(task=task, version=1, paper=str(SHARED["paper"]), primary=primary, results=rows)


def score(metric: str, at: dict[str, int], rng: np.random.Generator) -> Score:
    """Return a score of ten trials."""
    draws = rng.uniform(0.3, 0.7, 10).tolist()
    value = float(np.mean(draws))
    around = {"stderr": 0.02, "ci95": (value - 0.04, value + 0.04)}
    return Score(
        metric, value, 1_000, at, chance=0.1, floors={"majority": 0.2}, draws=draws, **around
    )


def matrix_board(output: Path, models: int, rng: np.random.Generator) -> Board:
    """Return a board whose rows keep a matrix of 1,000 classes each."""
    primary = {"metric": "reliability", "at": {}}
    names_of_classes = [f"class {i}" for i in range(CLASSES)]
    classes = pa.table({"name": names_of_classes, "category": names_of_classes})
    shared = rng.random(CLASSES * (CLASSES - 1) // 2, np.float32)
    rows = []
    for name in names(models):
        matrix = torch.from_numpy(shared + rng.random(len(shared), np.float32))
        kept = save_artifacts(output, "rsa_large", name, {"rdm": matrix, "classes": classes})
        rows.append(row("rsa_large", primary, name, [Score("reliability", 0.9, CLASSES)], kept))
    return Board(task="rsa_large", version=1, paper="", primary=primary, results=rows)


def row(
    task: str,
    primary: dict[str, object],
    model: str,
    scores: list[Score],
    kept: dict[str, dict[str, str]],
) -> Result:
    """Return an ok row."""
    counts = {"n": 1_000, "expected": 1_000}
    given = {"task": task, "primary": primary, "model": model, "scores": scores, "counts": counts}
    return Result(**{**SHARED, **given}, artifacts=kept, provenance=PROVENANCE)


def measure(command: list[str], where: list[str], cache: str, reading: float) -> None:
    """Print what a command takes as a whole process, also as a ratio to reading what it needs."""
    # Of this process alone; what getrusage says of a child has the memory of its parent in it.
    code = (
        "import sys; from pathlib import Path; from vlbench.cli import main; "
        "code = main(sys.argv[1:]); status = Path('/proc/self/status').read_text(); "
        "print(status.split('VmHWM:')[1].split()[0], file=sys.stderr); sys.exit(code)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-c", code, "leaderboard", *command, *where]
    environment = os.environ | {"VLBENCH_CACHE_DIR": cache}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = int(done.stderr.split()[-1]) / 1024
    name = f"compare {len(command) - 1}" if command[0] == "compare" else " ".join(command[:2])
    print(
        f"{name}: {spent:.2f} s, {spent / max(reading, 1e-3):.1f} times, {peak:.0f} MB", flush=True
    )


if __name__ == "__main__":
    main()
