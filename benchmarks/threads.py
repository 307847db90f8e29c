"""The probes' own work with one thread, with all threads, and as vlbench sets them.

Each measurement is a process of its own, in turn; a first call on few rows has the imports. CPU and
wall seconds of the fastest round are printed, the ratio of our CPU seconds to the better of the
others, and the largest difference that another number of threads makes to a score.

Run: python benchmarks/threads.py [--rounds 3] [--sizes 300x512,10000x768] [--probes few_shot,knn]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

import vlbench
from vlbench.probes.generalization.similarity import scores_of
from vlbench.results import Score
from vlbench.system import threads

CLASSES = 10
MODES = ("one thread", "all threads", "vlbench")
TARGET = 1.15


class Work(NamedTuple):
    """The largest number of rows, beyond which it takes minutes, and a probe's parameters."""

    rows: int
    parameters: Mapping[str, Any] = MappingProxyType({})


PROBES = {
    "few_shot": Work(50_000, {"shots": [1, 5]}),
    "knn": Work(50_000, {"k": [1, 5, 20]}),
    "similarity": Work(10_000),
    "transfer": Work(50_000, {"training": {"optimizer": "lbfgs", "weight_decay": 5e-4}}),
    "description_length": Work(50_000),
    "clustering": Work(10_000),
}


def work(probe: str, rows: int, width: int) -> Callable[[], list[Score]]:
    """Return the work of a probe on planted classes: half of the rows to train, half to test."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % CLASSES
    centres = rng.standard_normal((CLASSES, width))
    x = (centres[labels] + 2 * rng.standard_normal((rows, width))).astype(np.float32)
    if probe == "similarity":
        y = x @ rng.standard_normal((width, width)).astype(np.float32)
        both = torch.from_numpy(x), torch.from_numpy(y)
        return threads.single_thread()(lambda: scores_of(*both, 10, 20, 0))
    names = [f"class {label}" for label in labels]
    return lambda: list(vlbench.probe(probe, x, names, **PROBES[probe].parameters).scores)


def measure(probe: str, size: str, mode: str) -> None:
    """Print the CPU and wall seconds of a probe's work, and its scores, as JSON."""
    if mode == "all threads":
        threads._compute = lambda **_: nullcontext()  # noqa: SLF001 - what is compared with
    work(probe, 300, 16)()
    rows, width = map(int, size.split("x"))
    job = work(probe, rows, width)
    time.sleep(0.5)  # the threads that made the data wait in a loop for more
    cpu, wall = time.process_time(), time.perf_counter()
    scores = job()
    spent = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps([*spent, [float(score.value) for score in scores]]))


def measured(probe: str, size: str, mode: str) -> tuple[float, float, list[float]]:
    """Return what `measure` prints in a process of its own."""
    words = [sys.executable, __file__, "--measure", f"{probe},{size},{mode}"]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    environment |= {"OMP_NUM_THREADS": "1"} if mode == MODES[0] else {}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    cpu, wall, scores = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall, scores


def print_line(probe: str, size: str, rounds: int) -> None:
    """Print what a probe takes in each mode, the rounds of the modes in turn."""
    times = [[measured(probe, size, mode) for mode in MODES] for _ in range(rounds)]
    one, all_threads, ours = (min(of_mode) for of_mode in zip(*times, strict=True))
    best = [one, all_threads, ours]
    ratio = ours[0] / min(one[0], all_threads[0])
    moved = max(abs(np.subtract(scores, ours[2])).max() for _, _, scores in best)
    spent = ", ".join(f"{cpu:.3g} / {wall:.3g}" for cpu, wall, _ in best)
    note = f"ratio {ratio:.2f} (target {TARGET}), scores move by {moved:.1e}"
    print(f"{probe} {size}: {spent}; {note}", flush=True)


def main() -> None:
    """Print a line for each probe and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="300x512,10000x768")
    parser.add_argument("--probes", default=",".join(PROBES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure.split(","))
        return
    print(f"load {os.getloadavg()[0]:.1f}; CPU / wall seconds: {', '.join(MODES)}")
    for size in given.sizes.split(","):
        for probe in given.probes.split(","):
            if int(size.partition("x")[0]) <= PROBES[probe].rows:
                print_line(probe, size, given.rounds)


if __name__ == "__main__":
    main()
