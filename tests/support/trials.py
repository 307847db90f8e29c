"""Loads broken files in a forked process, with a limit of time and of memory for each."""

import json
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from vlbench.errors import VlbenchError

# Seconds of computing, and six times as many of waiting, since others may be computing.
SECONDS, BYTES = 10, 1 << 30


def failures(count: int, trial: Callable[[int], str], report: Path) -> list[str]:
    """Return what went wrong in the trials 0..count-1: `trial` returns it, or "" where nothing did.

    A trial that ends its process (a crash, or 10 seconds of computing) is a failure, and the next
    goes on.
    """
    found: list[str] = []
    first = 0
    while first < count:
        report.write_text("")
        child = os.fork()
        if child == 0:
            _run(first, count, trial, report)
        _, status = os.waitpid(child, 0)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        found += [f"{number}: {what}" for number, what in lines if what]
        done = lines[-1][0] if lines else first - 1
        if done < count - 1:
            found.append(f"{done + 1}: ended its process (wait status {status})")
        first = done + 2
    return found


def growth(action: Callable[[], object]) -> int:
    """Return how many bytes of memory a forked process took for an action, at most at a time."""
    before = _pages()[1] * resource.getpagesize()
    child = os.fork()
    if child == 0:
        try:
            _limit(SECONDS)
            action()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        finally:
            os._exit(1)
    _, status, used = os.wait4(child, 0)
    assert status == 0
    return (used.ru_maxrss << 10) - before


def loaded(load: Callable[[], None], names: list[str]) -> str:
    """Return what is wrong with how a set loads: nothing where it does, or where an error tells.

    It tells if it is a VlbenchError that has the name of one of its files.
    """
    try:
        load()
    except VlbenchError as error:
        if isinstance(error.__cause__, MemoryError):
            return f"takes over a gigabyte: {error}"
        named = any(name in str(error) for name in names)
        return "" if named else f"names no file: {error}"
    except MemoryError:
        return "takes over a gigabyte"
    except BaseException:  # noqa: BLE001 - the point of the trial
        return "".join(traceback.format_exc()[-1500:])
    return ""


def _limit(seconds: int) -> None:
    """End this process after so many seconds of computing; 0: no more."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.alarm(6 * seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _pages() -> list[int]:
    """Return the pages that this process has: those it may use, and those in memory."""
    return [int(count) for count in Path("/proc/self/statm").read_text().split()]


def _run(first: int, count: int, trial: Callable[[int], str], report: Path) -> None:
    """Run the trials from `first` on in this forked process, and end it."""
    try:
        warnings.simplefilter("ignore")
        most = _pages()[0] * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        with report.open("a") as lines:
            for number in range(first, count):
                _limit(SECONDS)
                what = trial(number)
                _limit(0)
                lines.write(json.dumps([number, what]) + "\n")
                lines.flush()
    except BaseException:  # noqa: BLE001 - pytest must not go on in this process
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def rng_of(name: str, number: int) -> random.Random:
    """Return the generator of a trial."""
    return random.Random(f"{name} {number}")  # noqa: S311 - no secret
