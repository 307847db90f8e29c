"""Nothing stale: an edit to code plans the rows that depend on it to run again, and no others.

vlbench is copied, run, edited and planned again; digests are of what lies on disk.
"""

import json
import multiprocessing
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sources import TASK, make_source, write

from vlbench.cli import main
from vlbench.code.plugins import folder_of

MODELS = ["raw-pixels", "tiny-rn"]

# Forked, so that it need not import torch again.
fork = multiprocessing.get_context("fork")


def import_copy(folder):
    """Let this process import vlbench from a folder."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vlbench"]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    import vlbench

    assert Path(vlbench.__file__).is_relative_to(folder)


@contextmanager
def edited(file, old, new):
    before = file.read_text()
    assert old in before, file
    file.write_text(before.replace(old, new))
    yield
    file.write_text(before)


def stored(folder):
    return {f"{file.parent.name}/{file.name}" for file in (folder / "cache").rglob("*.pt")}


def write_report(folder, edits, tasks, runs):
    """Write what a plan does with each row after each edit, and how many values a run then stores.

    Unless it `runs`, nothing is run after an edit.
    """
    import_copy(folder)
    from vlbench.bench import run, set_up
    from vlbench.run.options import Options
    from vlbench.run.plan import plan

    report = {}
    where = {"include_path": [folder / "ours"], "output": folder / "boards"}
    with set_up(Options(cache_dir=folder / "cache", **where)) as (complete, processes):
        again = replace(complete, overwrite=True)
        run(plan(MODELS, tasks, complete), processes)
        for name, edit in edits.items():
            before = stored(folder)
            with edited(folder / edit["file"], edit["old"], edit["new"]):
                jobs = plan(MODELS, tasks, complete).jobs
                if runs:
                    run(plan(MODELS, tasks, again), processes)
            planned = {f"{job.model.name} {job.task.spec.name}": job.status for job in jobs}
            report[name] = {"planned": planned, "new": len(stored(folder) - before)}
            if runs:
                run(plan(MODELS, tasks, again), processes)
    (folder / "report.json").write_text(json.dumps(report))


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
    "page": added("vlbench/report/texts.py"),
    "planning": added("vlbench/run/plan.py"),
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

KEPT = {edit: EVERY - affected for edit, affected in AFFECTED.items()}

# Trained probes for the helper, features for what makes a model.
RECOMPUTED = {"helper of a family", "kit", "adapter"}


def report_edits(*arguments):
    """Return the report of edits, made in a process of its own, which imports the copy."""
    process = fork.Process(target=write_report, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0
    return json.loads((arguments[0] / "report.json").read_text())


@pytest.fixture
def copied(tmp_path):
    for part in ("vlbench", "tasks", "model_adapters"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).resolve().parents[2] / part, tmp_path / part, ignore=ignored)
    make_source(tmp_path / "ours", few_shot_colours=TASK, transfer_colours=TRANSFER_TASK)
    return tmp_path


def test_a_plan_runs_exactly_the_rows_that_an_edit_affects(copied):
    edits = {name: EDITS[name] for name in ("metric", "kit", "comment")}
    report = report_edits(copied, edits, ["few_shot_colours"], False)
    rows = EVERY - TRANSFER
    for status, expected in {"run": AFFECTED, "kept": KEPT}.items():
        found = {edit: set_of(report[edit]["planned"], status) for edit in edits}
        assert found == {edit: expected[edit] & rows for edit in edits}


@pytest.mark.nightly
def test_an_edit_affects_exactly_the_rows_and_stored_values_that_depend_on_it(copied):
    tasks = ["few_shot_colours", "transfer_colours"]
    report = report_edits(copied, EDITS, tasks, True)
    assert {edit: set_of(found["planned"], "run") for edit, found in report.items()} == AFFECTED
    assert {edit: set_of(found["planned"], "kept") for edit, found in report.items()} == KEPT
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


def rerun(source, folder, *options):
    """Run the command line as a process does that has not imported the source; return its code."""
    for name in [name for name in sys.modules if folder_of(name) == source / "model_adapters"]:
        del sys.modules[name]
    words = ["--model", "own", "--tasks", "few_shot_colours", "--include-path", str(source)]
    words += ["--output", str(folder / "boards"), "--cache-dir", str(folder / "cache"), *options]
    return main(words)


def accuracy(folder):
    (row,) = json.loads((folder / "boards" / "few_shot_colours.json").read_text())["rows"]
    return next(s["value"] for s in row["scores"] if s["metric"] == "accuracy")


def test_an_edit_to_a_network_that_a_users_adapter_imports_is_seen(tmp_path, capsys):
    source = make_source(tmp_path / "ours")
    write(source / "model_adapters" / "own.py", OWN)
    write(source / "model_adapters" / "models.yaml", 'own: {adapter: "own:Own"}\n')
    network = write(source / "model_adapters" / "network.py", BLIND)
    assert rerun(source, tmp_path) == 0
    assert accuracy(tmp_path) == pytest.approx(1 / 3)
    write(network, "def features(pixels):\n    return pixels.mean((2, 3))\n")
    assert rerun(source, tmp_path) == 2
    assert "'own' is already on it with other adapter" in capsys.readouterr().err
    assert rerun(source, tmp_path, "--overwrite") == 0
    assert accuracy(tmp_path) == 1.0
