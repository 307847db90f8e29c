"""Two real processes on one machine, as a launcher starts them."""

import json
import os
import subprocess
import sys

import pytest
from sources import ADAPTER, make_source, write

BREAKS = """

class BreaksOnTheSecond(MeanColour):
    def encode_images(self, pixels):
        import os
        if os.environ.get("RANK") == "1":
            raise RuntimeError("the second process broke")
        return super().encode_images(pixels)


class LoadsOnTheFirst(MeanColour):
    def __init__(self, *, device, dtype=torch.float32):
        import os
        super().__init__(device=device)
        if os.environ.get("RANK") == "1":
            raise OSError("no weights on the second machine")


class Noisy(MeanColour):
    def encode_images(self, pixels):
        wide = torch.nn.functional.interpolate(pixels, 64).flatten(1)
        weight = torch.randn(wide.shape[1], 32, generator=torch.Generator().manual_seed(0))
        return wide @ weight
"""

MODELS = """\
breaks: {adapter: "colours:BreaksOnTheSecond"}
loads-on-the-first: {adapter: "colours:LoadsOnTheFirst"}
noisy: {adapter: "colours:Noisy"}
"""

LAUNCH = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "vlbench"]


@pytest.fixture
def source(tmp_path):
    folder = make_source(tmp_path / "ours")
    write(folder / "model_adapters" / "colours.py", ADAPTER + BREAKS)
    write(folder / "model_adapters" / "models.yaml", MODELS)
    return folder


def run(source, words, launch, *, timeout=120):
    command = [sys.executable, *launch, "--include-path", str(source), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=timeout, check=False
    )


def row(folder, task):
    (found,) = json.loads((folder / f"{task}.json").read_text())["rows"]
    assert found["status"] == "ok", found["reason"]
    return found


@pytest.mark.slow
def test_one_process_and_two_give_the_same_boards_but_for_run_and_one_prints(source, tmp_path):
    tasks = ["few_shot_digits", "clustering_digits", "robustness_digits"]
    words = ["--model", "noisy", "--tasks", ",".join(tasks), "--no-cache", "--output"]
    alone = run(source, [*words, str(tmp_path / "one")], ["-m", "vlbench"])
    together = run(source, [*words, str(tmp_path / "two")], LAUNCH)
    assert (alone.returncode, together.returncode) == (0, 0), together.stderr
    for task in tasks:
        one, two = row(tmp_path / "one", task), row(tmp_path / "two", task)
        assert (one.pop("run")["processes"], two.pop("run")["processes"]) == (1, 2)
        assert json.dumps(one) == json.dumps(two)
        assert together.stdout.count(f"{task}: ok in") == 1


@pytest.mark.slow
def test_what_fails_on_one_process_ends_in_both_with_its_message(source, tmp_path):
    words = ["--model", "breaks,loads-on-the-first", "--tasks", "few_shot_digits", "--output"]
    done = run(source, [*words, str(tmp_path / "boards")], LAUNCH)
    assert done.returncode == 1
    (row,) = json.loads((tmp_path / "boards" / "few_shot_digits.json").read_text())["rows"]
    assert row["model"] == "breaks"
    assert row["reason"].startswith("RuntimeError: the second process broke (colours")
    assert "no weights on the second machine" in done.stderr
