"""Measure the judging of findings that range over many models, as a ratio to reading the boards.

Synthetic boards as in boards.py, without items, and a paper whose findings each compare every model
with its floor, or its scores under two conditions, on one task. Printed are the CPU seconds and the
peak memory of `leaderboard reproduce` as a whole process, as CSV and as the table of a terminal.
The target for 500 models x 70 findings is 10 s.

Run: python benchmarks/findings.py [--models 500] [--tasks 14] [--findings 70]
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from boards import measure, task_board, write

TASK = {
    "version": 1,
    "probe": "few_shot",
    "paper": "arXiv:2104.08313, section 4",
    "data": {"loader": "vlbench.data.image_folder:image_folder", "root": "images"},
}


def make_source(folder: Path, tasks: int, findings: int) -> Path:
    """Write tasks of the names of the boards, and one file of findings about them."""
    (folder / "tasks" / "findings").mkdir(parents=True)
    for i in range(tasks):
        primary = {"metric": "accuracy", "at": {"shots": 10} if i % 2 else {}}
        task = TASK | {"primary": primary, "params": {"shots": [1, 5, 10]}}
        (folder / "tasks" / f"task_{i:03}.yaml").write_text(json.dumps(task))
    told = [finding(i, f"task_{i % tasks:03}") for i in range(findings)]
    paper = {"title": "Synthetic findings", "findings": told}
    (folder / "tasks" / "findings" / "synthetic.yaml").write_text(json.dumps(paper))
    return folder


def finding(number: int, task: str) -> dict[str, object]:
    """Return a finding about every model with a row of a task."""
    odd = int(task[-3:]) % 2
    sides = [{"at": {"shots": 10}}, {"at": {"shots": 1}}] if odd else [{}, {"floor": "chance"}]
    return {
        "finding": f"Finding {number}",
        "for_each": {"capability": "ImageEncoder", "task": [task]},
        "metric": "accuracy" if number % 4 < 2 else "cosine",
        "greater": sides,
    }


def main() -> None:
    """Print the table of one folder of boards."""
    parser = argparse.ArgumentParser()
    for name, size in {"models": 500, "tasks": 14, "findings": 70}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "boards"
        for i in range(given.tasks):
            write(output, task_board(output, i, given.models, 0, rng))
        source = make_source(Path(folder) / "source", given.tasks, given.findings)
        start = time.process_time()
        for file in output.glob("*.json"):
            json.loads(file.read_text("utf-8"))
        parsing = time.process_time() - start
        print(f"parsing the JSON of all boards: {parsing:.2f} s")
        where = ["--output", str(output), "--include-path", str(source)]
        for command in (["reproduce", "--format", "csv"], ["reproduce"]):
            measure([*command, "synthetic"], where, f"{folder}/cache", parsing)


if __name__ == "__main__":
    main()
