"""The probes' own work with one thread, with all threads, and as vlbench sets them.

Each measurement is a process of its own, in turn; a first call on few rows has the imports. With
`--busy`, another process keeps a core busy meanwhile. CPU and wall seconds of the fastest round are
printed, the ratio of our CPU seconds to the better of the others, and the largest difference that
another number of threads makes to a score.

Run: python benchmarks/threads.py [--busy] [--rounds 3] [--sizes 300x512,10000x768]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

import vlbench
from vlbench import threads
from vlbench.probes.generalization.similarity import scores_of
from vlbench.results import Score

CLASSES = 10
MODES = ("one thread", "all threads", "ours")
TARGET = 1.15

# The parameters of each probe that a task gives.
PARAMETERS: dict[str, dict[str, Any]] = {
    "few_shot": {"shots": [1, 5]},
    "knn": {"k": [1, 5, 20]},
    "transfer": {"training": {"optimizer": "lbfgs", "weight_decay": 5e-4}},
}

# The largest size that each probe is measured on, in rows: minutes beyond it.
PROBES = {
    "few_shot": 50_000,
    "knn": 50_000,
    "similarity": 10_000,
    "transfer": 50_000,
    "description_length": 10_000,
    "clustering": 10_000,
}


def work(probe: str, rows: int, width: int) -> Callable[[], list[Score]]:
    """Return the work of a probe on planted classes: half of the rows to train, half to test."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % CLASSES
    centres = rng.standard_normal((CLASSES, width))
    x = (centres[labels] + 2 * rng.standard_normal((rows, width))).astype(np.float32)
    if probe == "similarity":
        y = x @ rng.standard_normal((width, width)).astype(np.float32)

        def compare() -> list[Score]:
            with threads.single_thread():
                return scores_of(torch.from_numpy(x), torch.from_numpy(y), 10, 20, 0)

        return compare
    names = [f"class {label}" for label in labels]
    return lambda: list(vlbench.probe(probe, x, names, **PARAMETERS.get(probe, {})).scores)


def measure(probe: str, rows: int, width: int, mode: str) -> None:
    """Print the CPU and wall seconds of a probe's work, and its scores, as JSON."""
    if mode == "all threads":
        threads._compute = lambda **_: nullcontext()  # noqa: SLF001 - what is compared with
    work(probe, 300, 16)()
    job = work(probe, rows, width)
    time.sleep(0.5)  # the threads that made the data wait in a loop for more
    cpu, wall = time.process_time(), time.perf_counter()
    scores = job()
    spent = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps([*spent, [float(one.value) for one in scores]]))


def measured(probe: str, size: str, mode: str) -> tuple[float, float, list[float]]:
    """Return what `measure` prints, of a process of its own."""
    words = [sys.executable, __file__, "--measure", f"{probe},{size},{mode}"]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    environment |= {"OMP_NUM_THREADS": "1"} if mode == MODES[0] else {}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    cpu, wall, scores = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall, scores


@contextmanager
def busy() -> Iterator[None]:
    """Keep a core busy inside the block."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main() -> None:
    """Print a line for each probe and size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="300x512,10000x768")
    parser.add_argument("--probes", default=",".join(PROBES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        probe, size, mode = arguments.measure.split(",")
        rows, width = map(int, size.split("x"))
        measure(probe, rows, width, mode)
        return
    print(f"load {os.getloadavg()[0]:.1f}; CPU / wall seconds: {', '.join(MODES)}")
    with busy() if arguments.busy else nullcontext():
        for size in arguments.sizes.split(","):
            for probe in arguments.probes.split(","):
                if int(size.partition("x")[0]) <= PROBES[probe]:
                    line(probe, size, arguments.rounds)


def line(probe: str, size: str, rounds: int) -> None:
    """Print what a probe takes in each mode, the rounds of the modes in turn."""
    found = [[measured(probe, size, mode) for mode in MODES] for _ in range(rounds)]
    best = [min(own, key=lambda one: one[0]) for own in zip(*found, strict=True)]
    ratio = best[2][0] / min(best[0][0], best[1][0])
    moved = max(abs(np.subtract(one[2], best[2][2])).max() for one in best)
    spent = ", ".join(f"{cpu:.3g} / {wall:.3g}" for cpu, wall, _ in best)
    note = f"ratio {ratio:.2f} (target {TARGET}), scores move by {moved:.1e}"
    print(f"{probe} {size}: {spent}; {note}", flush=True)


if __name__ == "__main__":
    main()
