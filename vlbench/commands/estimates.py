"""What a dry run says of the time, memory and disk that its plan will take."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from vlbench.leaderboard.texts import printed
from vlbench.running.estimates import Step, total


def print_estimates(console: Console, steps: Sequence[Step], device: str) -> None:
    """Print what each step took in earlier runs on this machine, and all of them together.

    `device` is the type of the device whose memory was measured.
    """
    for line in _lines(steps, "GPU memory" if device == "cuda" else "memory"):
        console.print(printed(line), markup=False, highlight=False)


def _lines(steps: Sequence[Step], memory: str) -> list[str]:
    if not steps:
        return []
    whole = total(steps)
    if whole is None:
        return ["no estimate of time, memory and disk: no earlier run here did any of this"]
    unknown = sum(step.seen is None for step in steps)
    return [
        "estimated from earlier runs on this machine with the same settings:",
        *(f"{step.model} · {step.what}: {_told(step)}" for step in steps),
        f"time: {between(whole.least_seconds, whole.most_seconds)}",
        f"{memory}: up to {size(whole.most_memory_mb)} per process",
        f"disk: up to {size(whole.most_stored_mb)} in the cache folder",
        *([f"not counted: {unknown} of {len(steps)} steps, without an estimate"] * bool(unknown)),
    ]


def _told(step: Step) -> str:
    if step.seen is None:
        return "no estimate"
    models = f"{step.others} other model" + ("s" if step.others > 1 else "")
    basis = f" (of {models})" if step.others else ""
    return between(step.seen.least_seconds, step.seen.most_seconds) + basis


def between(least: float, most: float) -> str:
    """Return a range of seconds in words, such as `2 to 8 s` or `50 s to 3 min`."""
    low, high = lasting(least), lasting(most)
    if low == high:
        return low
    (number, _, unit), same = low.rpartition(" "), high.rpartition(" ")[2]
    return f"{number if unit == same else low} to {high}"


def lasting(seconds: float) -> str:
    """Return seconds in the unit that one would say them in: s, min or h."""
    unit, length = ("s", 1) if seconds < 59.5 else ("min", 60) if seconds < 3570 else ("h", 3600)
    return f"{_short(seconds / length)} {unit}"


def size(megabytes: float) -> str:
    """Return megabytes as MB or GB."""
    is_large = megabytes >= 999.5
    return f"{_short(megabytes / 1024)} GB" if is_large else f"{_short(megabytes)} MB"


def _short(number: float) -> str:
    """Return a number with two figures, or all before its point."""
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"
