"""What the benchmarks have in common: jobs in turn, whole processes, and lines for speed.py."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

# What `told` prints.
LINE = re.compile(
    r"(?P<what>\S.*): (?P<ours>[\d.e-]+) s, (?P<against>.+) (?P<theirs>[\d.e-]+) s, "
    r"ratio (?P<ratio>[\d.]+)(?:; target (?P<target>[\d.]+))?"
)


class Against(NamedTuple):
    """What is measured, beside what, and the greatest ratio that is wanted, if any."""

    what: str
    peer: str
    target: float | None = None


def compare(
    named: Against,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> None:
    """Print each round of two jobs in turn, then the ratio of the fastest: others only slow down.

    Times are CPU seconds of this process, unless by another clock.
    """
    times = []
    for _ in range(rounds):
        times.append([seconds(job, clock) for job in (ours, theirs)])
        print("  {:.3g} s, {:.3g} s".format(*times[-1]), flush=True)
    told(named, *zip(*times, strict=True))


def told(named: Against, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Print the least of our seconds and of the peer's, and their ratio."""
    mine, other = min(ours), min(theirs)
    line = f"{named.what}: {mine:.3g} s, {named.peer} {other:.3g} s, ratio {mine / other:.2f}"
    print(line + (f"; target {named.target:g}" if named.target else ""), flush=True)


def seconds(job: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the seconds of one call."""
    start = clock()
    job()
    return clock() - start


def seconds_of_process(*words: str) -> float:
    """Return the CPU seconds of a whole process of Python and of its workers, with one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{words[:4]} failed:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
