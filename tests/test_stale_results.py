"""Nothing stale: an edit to code plans the rows that depend on it to run again, and no others.

vlbench is copied, run, edited and planned again; digests are of what lies on disk.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sources import TASK, make_source, write

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path

import vlbench
from vlbench.bench import run, set_up
from vlbench.planning.options import Options
from vlbench.planning.plan import plan

folder, edits = Path(sys.argv[1]), json.loads(sys.argv[2])
assert Path(vlbench.__file__).is_relative_to(folder)
where = {"include_path": [folder / "ours"], "output": folder / "boards"}
options = Options(cache_dir=folder / "cache", **where)
models, tasks = ["raw-pixels", "tiny-rn"], ["few_shot_colours", "transfer_colours"]
report = {}


def stored():
    return {f"{file.parent.name}/{file.name}" for file in (folder / "cache").rglob("*.pt")}


with set_up(options) as (complete, processes):
    run(plan(models, tasks, complete), processes)
    first = stored()
    for name, edit in edits.items():
        file = folder / edit["file"]
        before = file.read_text()
        assert edit["old"] in before, name
        file.write_text(before.replace(edit["old"], edit["new"]))
        planned = plan(models, tasks, complete)
        found = {f"{j.model.name} {j.task.spec.name}": j.status for j in planned.jobs}
        again = replace(complete, overwrite=True)
        run(plan(models, tasks, again), processes)
        report[name] = {"planned": found, "new": len(stored() - first)}
        first = stored()
        file.write_text(before)
        run(plan(models, tasks, again), processes)
print(json.dumps(report))
"""

EVERY = {
    f"{model} {task}"
    for model in ("raw-pixels", "tiny-rn")
    for task in ("few_shot_colours", "transfer_colours")
}
TRANSFER = {name for name in EVERY if name.endswith("transfer_colours")}
TINY = {name for name in EVERY if name.startswith("tiny-rn")}

TRANSFER_TASK = TASK.replace("few_shot", "transfer").replace("at: {shots: 1}", "at: {}")
TRANSFER_TASK = TRANSFER_TASK.replace("{shots: [1], trials: 2}", "{training: {epochs: 1}}")

ADDED = "from __future__ import annotations\n\nADDED = 1\n"
IMPORT = "from __future__ import annotations\n"


def added(file):
    """Return an edit that adds a constant to a file."""
    return {"file": file, "old": IMPORT, "new": ADDED}


EDITS = {
    "metric": added("vlbench/metrics/ranking.py"),
    "helper of a family": added("vlbench/probes/generalization/linear.py"),
    "loader": {
        "file": "vlbench/data/image_folder.py",
        "old": "from vlbench.data.records",
        "new": "ADDED = 1\nfrom vlbench.data.records",
    },
    "kit": added("vlbench/adapter_kit/weights.py"),
    "adapter": added("model_adapters/raw_pixels.py"),
    "command line": added("vlbench/cli.py"),
    "page": added("vlbench/leaderboard/texts.py"),
    "planning": added("vlbench/planning/plan.py"),
    "comment": {"file": "vlbench/metrics/ranking.py", "old": IMPORT, "new": IMPORT + "# A word.\n"},
}


AFFECTED = {
    "metric": EVERY,
    "helper of a family": TRANSFER,
    "loader": EVERY,
    "kit": TINY,
    "adapter": EVERY - TINY,
    "command line": set(),
    "page": set(),
    "planning": set(),
    "comment": set(),
}

# Trained probes for the helper, features for what makes a model.
RECOMPUTED = {"helper of a family", "kit", "adapter"}


@pytest.fixture
def copied(tmp_path):
    for part in ("vlbench", "tasks", "model_adapters"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignored)
    make_source(tmp_path / "ours", few_shot_colours=TASK, transfer_colours=TRANSFER_TASK)
    return tmp_path


@pytest.mark.slow
def test_an_edit_affects_exactly_the_rows_and_stored_values_that_depend_on_it(copied):
    environment = {**os.environ, "PYTHONPATH": str(copied)}
    command = [sys.executable, "-c", PROGRAM, str(copied), json.dumps(EDITS)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=copied, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    planned = {edit: set_of(found["planned"], "run") for edit, found in report.items()}
    kept = {edit: set_of(found["planned"], "kept") for edit, found in report.items()}
    assert planned == AFFECTED
    assert kept == {edit: EVERY - affected for edit, affected in AFFECTED.items()}
    recomputed = {edit for edit in report if report[edit]["new"]}
    assert recomputed - {"metric", "loader"} == RECOMPUTED


def set_of(planned, status):
    return {name for name, found in planned.items() if found == status}


OWN = """\
import network
import torch
from torchvision.transforms.functional import to_tensor


class Own:
    def __init__(self, *, device, dtype=torch.float32): ...

    def preprocess(self, image):
        return to_tensor(image)

    def encode_images(self, pixels):
        return network.features(pixels)
"""
BLIND = "def features(pixels):\n    return pixels.mean((1, 2, 3))[:, None] * 0 + 1\n"
SEEING = "def features(pixels):\n    return pixels.mean((2, 3))\n"


def rerun(source, folder, *options):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "vlbench", "--model", "own", "--tasks", "few_shot_colours"]
    command += ["--include-path", source, "--output", folder / "boards"]
    command += ["--cache-dir", folder / "cache", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def accuracy(folder):
    (row,) = json.loads((folder / "boards" / "few_shot_colours.json").read_text())["rows"]
    return next(s["value"] for s in row["scores"] if s["metric"] == "accuracy")


@pytest.mark.slow
def test_an_edit_to_a_network_that_a_users_adapter_imports_is_seen(tmp_path):
    source = make_source(tmp_path / "ours")
    write(source / "model_adapters" / "own.py", OWN)
    write(source / "model_adapters" / "models.yaml", 'own: {adapter: "own:Own"}\n')
    network = write(source / "model_adapters" / "network.py", BLIND)
    assert rerun(source, tmp_path).returncode == 0
    assert accuracy(tmp_path) == pytest.approx(1 / 3)
    write(network, SEEING)
    stopped = rerun(source, tmp_path)
    assert stopped.returncode == 2
    assert "'own' stands there with other adapter" in stopped.stderr
    assert rerun(source, tmp_path, "--overwrite").returncode == 0
    assert accuracy(tmp_path) == 1.0
