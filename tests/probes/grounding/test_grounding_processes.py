"""Grounding on two real processes: the table of heads is that of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sources import write

TASK = """\
version: 1
probe: entity_grounding
paper: "a paper"
tags: [ours]
data: {loader: "grounding_fakes:many_scenes"}
params: {examples: 2}
primary: {metric: split_half_accuracy}
"""

MODELS = 'planted: {adapter: "grounding_fakes:Noisy"}\n'
LAUNCH = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "vlbench"]


def run(source, output, launch):
    words = ["--model", "planted", "--tasks", "planted_grounding", "--no-cache"]
    where = ["--include-path", str(source), "--output", str(output)]
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [sys.executable, *launch, *where, *words],
        capture_output=True, text=True, env=environment | {"PYTHONPATH": paths}, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((output / "planted_grounding.json").read_text())["rows"]
    return row


@pytest.mark.slow
def test_two_processes_give_the_same_table_as_one(tmp_path):
    source = tmp_path / "ours"
    write(source / "tasks" / "planted_grounding.yaml", TASK)
    write(source / "model_adapters" / "models.yaml", MODELS)
    one = run(source, tmp_path / "one", ["-m", "vlbench"])
    two = run(source, tmp_path / "two", LAUNCH)
    assert (one.pop("run")["processes"], two.pop("run")["processes"]) == (1, 2)
    # The rows have the digests of the table and of the picture.
    assert json.dumps(one) == json.dumps(two)
    assert set(one["artifacts"]) == {"heads", "examples"}
