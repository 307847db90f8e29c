"""Run what compares speed, one after another, and write the table of docs/speed.md.

Run, on a quiet machine: python benchmarks/speed.py [SCRIPT ...]. It takes half an hour. With names
of scripts, those run and nothing is written: all lines of the table are of one run. The table needs
the peers that vlbench does not: docs/speed.md says how to install them.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
from measuring import LINE

from vlbench.engine.devices import hardware
from vlbench.errors import require_known

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "speed.md"
MARK = "<!-- benchmarks/speed.py writes what follows -->\n"
HEAD = ["| work | beside | vlbench s | other s | ratio | aim |", "|---|---|---|---|---|---|"]

# What those that vlbench is compared with are imported as, where it does not need them itself.
PEERS = ("clip_benchmark", "thingsvision", "pycocoevalcap", "foolbox")

RUNS = {
    "extraction.py": [["256"], ["2000", "1"]],
    "hf_vision.py": [["256"]],
    "zero_shot.py": [[], ["--images", "5000", "--train", "2000"]],
    "transfer.py": [[]],
    "few_shot_speed.py": [[]],
    "rdm.py": [[]],
    "mutual_knn.py": [[]],
    "retrieval.py": [[]],
    "robustness.py": [[]],
    "grounding.py": [[]],
    "vsep.py": [[]],
    "captioner.py": [[]],
    "captions.py": [["2000"]],
    "bert_gen.py": [[]],
    "store.py": [[]],
}


def lines_of(script: str) -> Iterator[str]:
    """Yield a line of the table for each ratio that a script prints; all else is printed, too."""
    for words in RUNS[script]:
        print(f"{script} {' '.join(words)}", flush=True)
        command = [sys.executable, str(HERE / script), *words]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as run:
            for line in run.stdout or ():
                print(f"  {line}", end="", flush=True)
                if found := LINE.fullmatch(line.strip()):
                    cells = found.group("what", "against", "ours", "theirs", "ratio", "target")
                    yield f"| {' | '.join(cell or '' for cell in cells)} |"
        if run.returncode:
            sys.exit(f"{script} ended with {run.returncode}: nothing is written")


def main() -> None:
    """Write the table, or print those of some scripts."""
    asked = sys.argv[1:]
    require_known("script", asked, RUNS)
    absent = [peer for peer in PEERS if not find_spec(peer)]
    if absent and not asked:
        sys.exit(f"needs {' and '.join(absent)}, whose lines the table would lose: see {PAGE.name}")
    table = [line for script in asked or RUNS for line in lines_of(script)]
    print("\n".join([*HEAD, *table]))
    if not asked:
        machine = f"{hardware(torch.device('cpu'))}, {os.cpu_count()} cores, one thread"
        when = f"{dt.datetime.now(dt.UTC):%d %B %Y}, {machine}, torch {torch.__version__}"
        head = PAGE.read_text("utf-8").partition(MARK)[0]
        PAGE.write_text("\n".join([f"{head}{MARK}{when}:\n", *HEAD, *table, ""]), "utf-8")


if __name__ == "__main__":
    main()
