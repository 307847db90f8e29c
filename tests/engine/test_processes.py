"""Two real processes on one machine, as a launcher starts them."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from sources import ADAPTER, make_source, write

from vlbench.check.passes import REPEATED

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


class DiesOnTheSecond(MeanColour):
    def encode_images(self, pixels):
        import os, signal
        if os.environ.get("RANK") == "1":
            for process in (os.getppid(), os.getpid()):  # the node, as far as this run sees it
                os.kill(process, signal.SIGKILL)
        return super().encode_images(pixels)


class CountsImages(MeanColour):
    def __init__(self, *, device, file: str):
        super().__init__(device=device)
        self.file = file

    def encode_images(self, pixels):
        import os
        with open(f"{self.file}.{os.environ['RANK']}", "a") as file:
            print(len(pixels), file=file)
        return super().encode_images(pixels)


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
dies-on-the-second: {adapter: "colours:DiesOnTheSecond"}
"""

LAUNCH = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "vlbench"]


def of_node(number, port):
    """Return the launcher of one of two nodes that meet on the loopback."""
    place = ["--nnodes", "2", "--node_rank", str(number), "--nproc_per_node", "1"]
    meet = ["--master_addr", "127.0.0.1", "--master_port", str(port)]
    return ["-m", "torch.distributed.run", *place, *meet, "-m", "vlbench"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def source(tmp_path):
    folder = make_source(tmp_path / "ours")
    write(folder / "model_adapters" / "colours.py", ADAPTER + BREAKS)
    write(folder / "model_adapters" / "models.yaml", MODELS)
    return folder


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}


def run(source, words, launch, *, timeout=120):
    command = [sys.executable, *launch, "--include-path", str(source), *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=timeout, check=False
    )


def run_on_two_nodes(source, words):
    """Return exit code, standard output and standard error of each of two nodes."""
    port = free_port()
    commands = [
        [sys.executable, *of_node(node, port), "--include-path", str(source), *words]
        for node in (0, 1)
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    nodes = [subprocess.Popen(command, env=ENVIRONMENT, **pipes) for command in commands]
    told = [node.communicate(timeout=240) for node in nodes]
    return [(node.returncode, *texts) for node, texts in zip(nodes, told, strict=True)]


def row(folder, task):
    (found,) = json.loads((folder / f"{task}.json").read_text())["rows"]
    assert found["status"] == "ok", found["reason"]
    return found


@pytest.mark.slow
def test_one_process_and_two_nodes_give_the_same_boards_but_for_run_and_one_prints(
    source, tmp_path
):
    tasks = ["few_shot_digits", "clustering_digits", "robustness_digits"]
    words = ["--model", "noisy", "--tasks", ",".join(tasks), "--no-cache", "--output"]
    alone = run(source, [*words, str(tmp_path / "one")], ["-m", "vlbench"])
    first, second = run_on_two_nodes(source, [*words, str(tmp_path / "two")])
    assert (alone.returncode, first[0], second[0]) == (0, 0, 0), first[2] + second[2]
    for task in tasks:
        one, two = row(tmp_path / "one", task), row(tmp_path / "two", task)
        assert (one.pop("run")["processes"], two.pop("run")["processes"]) == (1, 2)
        assert json.dumps(one) == json.dumps(two)
        assert first[1].count(f"{task}: ok in") == 1
    assert second[1] == ""


@pytest.mark.slow
def test_each_of_several_models_is_spread_over_all_processes(source, tmp_path):
    line = '{name}: {{adapter: "colours:CountsImages", params: {{file: "{at}/{name}"}}}}\n'
    lines = [line.format(name=name, at=tmp_path) for name in ("first", "second")]
    write(source / "model_adapters" / "models.yaml", "".join(lines))
    words = ["--model", "first,second", "--tasks", "clustering_digits", "--no-cache", "--output"]
    done = run(source, [*words, str(tmp_path / "boards")], LAUNCH)
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        parts = [tmp_path / f"{name}.{rank}" for rank in (0, 1)]
        passed = [sum(map(int, part.read_text().split())) for part in parts]
        assert sum(passed) == 899 + 2 * REPEATED  # the test images, and those of each process
        assert min(passed) > 0.4 * 899


@pytest.mark.slow
def test_what_fails_on_one_process_ends_in_both_with_its_message(source, tmp_path):
    words = ["--model", "breaks,loads-on-the-first", "--tasks", "few_shot_digits", "--output"]
    done = run(source, [*words, str(tmp_path / "boards")], LAUNCH)
    assert done.returncode == 1
    (row,) = json.loads((tmp_path / "boards" / "few_shot_digits.json").read_text())["rows"]
    assert row["model"] == "breaks"
    assert row["reason"].startswith("RuntimeError: the second process broke (colours")
    assert "no weights on the second machine" in done.stderr


STOPS = """
import os, signal
from vlbench.engine.processes import Processes

processes = Processes(cpu=True, silence=3.0)
assert processes.exchange(processes.rank) == [0, 1]
if processes.rank == int(os.environ["STOPPED"]):
    os.kill(os.getpid(), signal.SIGSTOP)
processes.exchange("one waits for the other")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_process_that_is_stopped_ends_the_others_which_say_so(stopped):
    meet = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    code, own = [sys.executable, "-c", STOPS], {"STOPPED": str(stopped)}
    environments = [ENVIRONMENT | meet | own | {"RANK": str(rank)} for rank in (0, 1)]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(code, env=one, stderr=pipe, text=True) for one in environments]
    _, told = both[1 - stopped].communicate(timeout=120)
    both[stopped].kill()
    both[stopped].communicate()
    assert both[1 - stopped].returncode == 1
    assert f"process {stopped} of this run (on {socket.gethostname()}) has given no sign" in told


@pytest.mark.slow
def test_where_a_node_dies_the_rest_ends_and_says_so_and_the_rerun_goes_on(source, tmp_path):
    boards = tmp_path / "boards"
    words = ["--tasks", "few_shot_digits", "--output", str(boards), "--no-cache"]
    rest, dead = run_on_two_nodes(source, ["--model", "noisy,dies-on-the-second", *words])
    assert dead[0] == -signal.SIGKILL
    assert rest[0] == 1
    named = f"one of the 2 processes of this run (on {socket.gethostname()}) no longer answers; "
    assert f"{named}its address was 127.0.0.1." in rest[2]
    (kept,) = json.loads((boards / "few_shot_digits.json").read_text())["rows"]
    assert (kept["model"], kept["status"]) == ("noisy", "ok")
    again = run(source, ["--model", "noisy", *words], ["-m", "vlbench"])
    assert again.returncode == 0
    assert "kept" in again.stdout
