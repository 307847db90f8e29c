"""Times two ways to the same numbers in turn, and prints their ratio."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

HEAD = ["| work | beside | vlbench s | other s | ratio | aim |", "|---|---|---|---|---|---|"]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the processes that it waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


class Pair(NamedTuple):
    """Our way and another to the same numbers, and the greatest ratio that is wanted, if any."""

    what: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    target: float | None = None
    rounds: int = 3
    clock: Callable[[], float] = cpu_seconds


def compare(pair: Pair) -> str:
    """Print each round of both ways, and return the line of the least seconds of each.

    The least, because other programs only slow down.
    """
    rounds = []
    for _ in range(pair.rounds):
        rounds.append([seconds(way, pair.clock) for way in (pair.ours, pair.theirs)])
        print("  {:.3g} s, {:.3g} s".format(*rounds[-1]), flush=True)
    ours, theirs = map(min, zip(*rounds, strict=True))
    target = "" if pair.target is None else f"{pair.target:g}"
    cells = [pair.what, pair.peer, f"{ours:.3g}", f"{theirs:.3g}", f"{ours / theirs:.2f}", target]
    return f"| {' | '.join(cells)} |"


def seconds(way: Callable[[], object], clock: Callable[[], float] = cpu_seconds) -> float:
    """Return the seconds of one call."""
    start = clock()
    way()
    return clock() - start


def run_python(*words: object) -> None:
    """Run Python with one thread, and exit if it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{command[:5]} failed:\n{done.stdout}{done.stderr}")
