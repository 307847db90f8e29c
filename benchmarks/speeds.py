"""Compare the speed of vlbench with other ways to the same numbers, as ratios in one run.

Run, on a quiet machine: python benchmarks/speeds.py [NAME ...] [--small]. With no name, all run,
which takes an hour, and the table of docs/speed.md is written: all its lines are of one run. That
needs the peers that vlbench does not: docs/speed.md says how to install them. With --small, sizes
are small, and there is one round: it shows only that a comparison works.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import commands
import files
import in_memory
import passes
import torch
import trainings
from measuring import HEAD, Pair, compare
from threadpoolctl import threadpool_limits

from vlbench.engine.devices import hardware
from vlbench.errors import require_known

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"
MARK = "<!-- benchmarks/speeds.py writes what follows -->\n"


class Speed(NamedTuple):
    """What yields both ways, its sizes, small sizes, and a package that it needs, if any."""

    pairs: Callable[..., Iterator[Pair]]
    small: Mapping[str, Any]
    sizes: Mapping[str, Any] = MappingProxyType({})
    needs: str = "vlbench"


# Rounds by numbers of images.
EXTRACTION = {"counts": {256: 3, 2_000: 1}}
FEW = {"counts": {4: 1}, "batch": 2}

SPEEDS = {
    "extraction": Speed(commands.bare_loop, FEW, EXTRACTION),
    "thingsvision": Speed(commands.thingsvision, FEW, EXTRACTION, "thingsvision"),
    "hf_vision": Speed(passes.hf_vision, {"images": 4, "batch": 2}),
    "zero_shot": Speed(
        commands.zero_shot,
        {"sizes": [(60, 60)]},
        {"sizes": [(300, 300), (5_000, 2_000)]},
        "clip_benchmark",
    ),
    "transfer": Speed(in_memory.transfer, {"images": 200, "width": 8}),
    "few_shot": Speed(in_memory.few_shot, {"images": 200, "width": 8, "classes": 4}),
    "rdm": Speed(in_memory.rdm, {"classes": 10, "images": 3, "width": 8}),
    "mutual_knn": Speed(in_memory.mutual_knn, {"examples": 60, "width": 8}),
    "retrieval": Speed(in_memory.retrieval, {"images": 20, "width": 8}),
    "robustness": Speed(passes.robustness, {"images": 2, "steps": 2}, needs="foolbox"),
    "grounding": Speed(passes.grounding, {"images": 2, "batch": 5}),
    "vsep": Speed(trainings.vsep, {"pairs": 600, "epochs": 1}),
    "captioner": Speed(trainings.captioner, {"steps": 2}),
    "captions": Speed(in_memory.captions, {"count": 5}, needs="pycocoevalcap"),
    "bert_gen": Speed(trainings.bert_gen, {"batch": 4, "epochs": 1}),
    "store": Speed(files.store, {"rows": 600}),
    "plan": Speed(files.plan, {"images": 200}),
    "layers": Speed(passes.layers, {"batch": 1}),
    "startup": Speed(commands.startup, {"dry_run": commands.KEPT}),
}


def lines_of(name: str, *, is_small: bool) -> Iterator[str]:
    """Yield a line of the table for each pair."""
    print(name, flush=True)
    speed = SPEEDS[name]
    for pair in speed.pairs(**speed.small if is_small else speed.sizes):
        line = compare(pair._replace(rounds=1) if is_small else pair)
        print(line, flush=True)
        yield line


def main(names: Sequence[str], *, is_small: bool) -> None:
    """Write the table, or print the lines of some comparisons."""
    require_known("speed", names, SPEEDS)
    absent = [SPEEDS[name].needs for name in names or SPEEDS if not find_spec(SPEEDS[name].needs)]
    if absent:
        sys.exit(f"needs {' and '.join(absent)}: see docs/{PAGE.name}")
    os.environ["OMP_NUM_THREADS"] = "1"  # of libraries that are loaded later
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of foolbox
        lines = [line for name in names or SPEEDS for line in lines_of(name, is_small=is_small)]
    table = "\n".join([*HEAD, *lines])
    print(table)
    if not names and not is_small:
        machine = f"{hardware(torch.device('cpu'))}, {os.cpu_count()} cores, one thread"
        when = f"{dt.datetime.now(dt.UTC):%d %B %Y}, {machine}, torch {torch.__version__}"
        head = PAGE.read_text("utf-8").partition(MARK)[0]
        PAGE.write_text(f"{head}{MARK}{when}:\n\n{table}\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SPEEDS))
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    main(given.names, is_small=given.small)
