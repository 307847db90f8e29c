"""Compare the rows of an earlier revision with those of this tree: nothing may move.

Both run the same tasks and models, each in its own process with its own code, from an empty folder.
Scores, intervals, chance, floors, draws and counts must agree within 1e-9, tables of items in all
cells; notes may have another order.

Run: python benchmarks/same_rows.py REVISION [--tasks a,b] [--models x,y] [--limit N]
It prints what differs, and exits with 1 if anything does.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
TASKS = (
    "few_shot_scenes,layers_few_shot_scenes,classification_scenes,transfer_scenes,zero_shot_scenes,"
    "robustness_digits"
)
MODELS = "raw-pixels,tiny-rn,tiny-clip,constant,random-scores"
NEAR = 1e-9


def rows_of(tree: Path, given: argparse.Namespace, folder: Path) -> dict[tuple[str, str], Any]:
    """Run the tasks with the code of a tree, and return its rows by task and model."""
    words = ["--model", given.models, "--tasks", given.tasks, "--output", str(folder / "out")]
    words += ["--cache-dir", str(folder / "cache")]
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "vlbench", *words]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    rows = {}
    for file in sorted((folder / "out").glob("*.json")):
        board = json.loads(file.read_text("utf-8"))
        for row in board["rows"]:
            items = row["artifacts"].get("items")
            row["items"] = pq.read_table(folder / "out" / items["file"]) if items else None
            rows[board["task"], row["model"]] = row
    return rows


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield where two values differ; numbers may differ by NEAR."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=NEAR, abs_tol=NEAR):
            yield f"{where}: {old} -> {new}"
    elif old != new:
        yield f"{where}: {old!s:.80} -> {new!s:.80}"


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same in two rows."""
    scores = {f"{one['metric']} {sorted(one['at'].items())}": one for one in row["scores"]}
    fixed = {key: row[key] for key in ("status", "reason", "counts", "comparable")}
    return fixed | {"scores": scores, "notes": sorted(row["notes"])}


def main() -> None:
    """Run both trees, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--models", default=MODELS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        before, folders = Path(place) / "before", [Path(place) / name for name in ("old", "new")]
        add = ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(before), given.revision]
        subprocess.run(add, check=True, capture_output=True)
        for folder in folders:
            folder.mkdir()
        try:
            old = rows_of(before, given, folders[0])
            new = rows_of(ROOT, given, folders[1])
        finally:
            remove = ["git", "-C", str(ROOT), "worktree", "remove", "--force", str(before)]
            subprocess.run(remove, check=True, capture_output=True)
    found = [f"only in one tree: {key}" for key in sorted(old.keys() ^ new.keys())]
    for key in sorted(old.keys() & new.keys()):
        found += [f"{key}: {one}" for one in differences(compared(old[key]), compared(new[key]))]
        tables = old[key]["items"], new[key]["items"]
        if (tables[0] is None) != (tables[1] is None) or (tables[0] and tables[0] != tables[1]):
            found.append(f"{key}: the items differ")
    print("\n".join(found) or "nothing differs")
    print(f"{len(old)} and {len(new)} rows of {given.tasks}")
    sys.exit(bool(found) or not old)


if __name__ == "__main__":
    main()
