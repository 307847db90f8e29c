"""The Slurm example's own lines, with stand-ins for what Slurm gives a job."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vlbench.catalog.catalog import load_catalog

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "slurm.sbatch"

# What Slurm sets, and commands of its own: one node, this one.
JOB = {"SLURM_JOB_ID": "41987", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "localhost"}
COMMANDS = {
    "srun": 'exec "$@"',
    "scontrol": "echo localhost",
    "python": f'exec {sys.executable} "$@"',
}
MODELS = ["raw-pixels", "constant"]


def test_the_models_that_the_example_names_are_there():
    named = re.search(r'MODELS="([^"]+)"', SCRIPT.read_text())[1].split()
    assert set(named) <= load_catalog().models.keys()


@pytest.mark.nightly
def test_an_array_of_models_makes_one_folder_of_boards_that_merge(tmp_path):
    for name, line in COMMANDS.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    given = {"MODELS": " ".join(MODELS), "TASKS": "few_shot_digits", "OMP_NUM_THREADS": "1"}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | JOB | given | {"PATH": path, "ACCELERATE_USE_CPU": "true"}
    for number in range(len(MODELS)):
        task = environment | {"SLURM_ARRAY_TASK_ID": str(number)}
        subprocess.run(["bash", str(SCRIPT)], cwd=tmp_path, env=task, check=True)
    merge = "python -m vlbench leaderboard merge boards/* --output leaderboards"
    subprocess.run(["bash", "-c", merge], cwd=tmp_path, env=environment, check=True)
    board = json.loads((tmp_path / "leaderboards" / "few_shot_digits.json").read_text())
    assert {row["model"] for row in board["rows"] if row["status"] == "ok"} == set(MODELS)
