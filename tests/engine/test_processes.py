"""Two real processes on one machine, as a launcher starts them."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys

import pytest
import torch
from pair_commands import run_command
from sources import ADAPTER, make_source, write

from vlbench.cli import main
from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.pass_checks import REPEATED
from vlbench.engine.processes import Ended, EndedElsewhere, Processes
from vlbench.engine.store import Store
from vlbench.errors import ProcessLost

# Images that two processes pass again, at most: eight at a time, with batch 1, 2, 4 and so on.
AGAIN = 2 * 8 * 2 * REPEATED

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
        with open(f"{self.file}.{os.environ.get('RANK', 0)}", "a") as file:
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


def run(source, words, launch):
    command = [sys.executable, *launch, "--include-path", str(source), *words]
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": 120}
    return subprocess.run(command, **options, check=False)


def run_on_two_nodes(source, words):
    """Return exit code, standard output and standard error of each of two nodes."""
    port = free_port()
    words = ["--include-path", str(source), *words]
    commands = [[sys.executable, *of_node(node, port), *words] for node in (0, 1)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    nodes = [subprocess.Popen(command, env=ENVIRONMENT, **pipes) for command in commands]
    told = [node.communicate(timeout=240) for node in nodes]
    return [(node.returncode, *texts) for node, texts in zip(nodes, told, strict=True)]


def row(folder, task):
    (found,) = json.loads((folder / f"{task}.json").read_text())["rows"]
    assert found["status"] == "ok", found["reason"]
    return found


@pytest.mark.nightly
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


@pytest.mark.nightly
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
        assert 899 < sum(passed) < 899 + AGAIN
        assert min(passed) > 0.4 * 899


@pytest.mark.nightly
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


WORDS = ["--tasks", "clustering_digits", "--no-cache", "--device", "cpu"]


def test_two_processes_pass_half_of_the_images_each_and_write_the_board_of_one(
    source, tmp_path, pair
):
    line = 'counts: {{adapter: "colours:CountsImages", params: {{file: "{}"}}}}\n'
    write(source / "model_adapters" / "models.yaml", line.format(tmp_path / "passed"))
    words = [*WORDS, "--model", "counts", "--include-path", str(source), "--output"]
    both = pair(run_command, [*words, str(tmp_path / "two")])
    assert [code for code, *_ in both] == [0, 0]
    assert both[0][1].count("clustering_digits: ok in") == 1
    assert both[1][1:] == ("", "")
    passed = [(tmp_path / f"passed.{rank}").read_text().split() for rank in (0, 1)]
    counts = [sum(map(int, some)) for some in passed]
    assert 899 < sum(counts) < 899 + AGAIN + 32
    assert min(counts) > 0.4 * 899
    assert main([*words, str(tmp_path / "one")]) == 0
    one, two = (row(tmp_path / name, "clustering_digits") for name in ("one", "two"))
    assert (one.pop("run")["processes"], two.pop("run")["processes"]) == (1, 2)
    assert json.dumps(one) == json.dumps(two)


def test_what_breaks_on_the_second_process_fails_in_both(source, tmp_path, pair):
    words = [*WORDS, "--model", "breaks,loads-on-the-first", "--include-path", str(source)]
    boards = tmp_path / "boards"
    (code, _, errors), (second_code, *_) = pair(run_command, [*words, "--output", str(boards)])
    assert (code, second_code) == (1, 1)
    (failed,) = json.loads((boards / "clustering_digits.json").read_text())["rows"]
    assert failed["model"] == "breaks"
    assert failed["reason"].startswith("RuntimeError: the second process broke (colours")
    assert errors.count("no weights on the second machine") == 1


class Grows:
    """A training whose every step is spread over the processes."""

    steps = 4

    def __init__(self, engine):
        self.engine, self.weight = engine, torch.linspace(0.1, 1.0, 7)

    def step(self, number):
        rows = self.engine.spread(lambda some: [(self.weight + n).sin() for n in some], range(99))
        self.weight = self.weight + torch.stack(rows).mean(0) / (1 + number)

    def result(self):
        return self.weight


class Waves:
    """Encodes a text as waves of the number in it."""

    def encode_texts(self, texts):
        return torch.stack([torch.linspace(0.0, float(text), 9).sin() for text in texts])


def engine_of(processes, **known):
    return Engine(ComputeSettings(torch.device("cpu")), processes=processes, **known)


def numbered(count):
    """Return texts of the numbers from 0."""
    return value_column([str(n) for n in range(count)], "text")


def computed(processes):
    """Return what each method of an engine computes of the numbers below 600."""
    engine = engine_of(processes)
    numbers = list(range(600))
    return {
        "features": engine.features(Waves().encode_texts, numbered(600)),
        "map": torch.tensor(engine.map(lambda some: [n**0.5 for n in some], value_column(numbers))),
        "spread": torch.tensor(engine.spread(lambda some: [n**0.3 for n in some], numbers)),
        "once": torch.tensor(engine.once({}, lambda: processes.rank)),
        "train": engine.train({}, lambda: Grows(engine), "grows"),
    }


def test_every_method_of_an_engine_gives_in_two_processes_the_bytes_of_one(pair):
    alone = {name: of.numpy().tobytes() for name, of in computed(Processes(cpu=True)).items()}
    for values in pair(computed):
        assert {name: of.numpy().tobytes() for name, of in values.items()} == alone


class CountedWaves(Waves):
    """Waves that count the texts that they encode."""

    texts = 0

    def encode_texts(self, texts):
        self.texts += len(texts)
        return super().encode_texts(texts)


def shared(processes, folder, apart):
    """Return the features of 256 texts, and how many each of two passes encodes here."""
    root = folder / str(processes.rank if apart else 0)
    texts, counts = numbered(256), []
    for _ in range(2):
        model = CountedWaves()
        known = {"store": Store(root), "identities": {id(model): "waves"}}
        engine = engine_of(processes, **known)
        features = engine.features(model.encode_texts, texts)
        counts.append(model.texts)
    return features, counts


class PadsToTheLongest:
    """Rounds a text's vector by the longest text of its batch, as padding does."""

    def encode_texts(self, texts):
        longest = max(map(len, texts))
        return torch.tensor([[1.0 + len(text) / 64, 1.0] for text in texts]) + 1e-6 * longest


def selected(processes):
    """Return the features of every seventh of 2,560 texts of several lengths."""
    texts = value_column(["x" * (n % 50 + 1) for n in range(2560)], "text")
    engine = engine_of(processes)
    return engine.features(PadsToTheLongest().encode_texts, texts.select(range(0, 2560, 7)))


def test_texts_that_are_padded_have_the_same_bytes_on_one_process_and_on_two(pair):
    alone = selected(Processes(cpu=True))
    assert all(torch.equal(features, alone) for features in pair(selected))


@pytest.mark.parametrize("apart", [False, True])
def test_the_batches_of_few_shards_are_shared_and_stored_once(pair, tmp_path, apart):
    alone, _ = shared(Processes(cpu=True), tmp_path / "alone", apart)
    both = pair(shared, tmp_path / "both", apart)
    for features, (first, again) in both:
        assert torch.equal(features, alone)
        # Half of the batches, and examples that are passed again to see whether the batch matters.
        assert 128 <= first < 192
        assert again == 0
    stored = [*(tmp_path / "both").rglob("*.pt")]
    assert [file.name for file in stored] == ["000000.pt"]
    assert stored[0].read_bytes() == next((tmp_path / "alone").rglob("*.pt")).read_bytes()


class BreaksLate(Waves):
    """Waves that break at a text of the third shard."""

    def encode_texts(self, texts):
        if any(int(text) >= 512 for text in texts):
            raise ValueError("the third shard")
        return super().encode_texts(texts)


def broken_late(processes, folder):
    model = BreaksLate()
    known = {"store": Store(folder), "identities": {id(model): "waves"}}
    engine = engine_of(processes, **known)
    return raised(lambda: engine.features(model.encode_texts, numbered(600))).value


def test_few_shards_are_stored_before_a_process_computes_more_than_one(pair, tmp_path):
    assert all(why.startswith("ValueError: the third shard") for why in pair(broken_late, tmp_path))
    assert sorted(file.name for file in tmp_path.rglob("*.pt")) == ["000000.pt", "000001.pt"]


def largest_message(processes):
    """Return the bytes of the largest message for the features of 256 texts."""
    sizes, exchange = [], processes.exchange

    def weighed(message):
        sizes.append(len(pickle.dumps(message)))
        return exchange(message)

    processes.exchange = weighed
    engine = engine_of(processes)
    engine.features(Waves().encode_texts, numbered(256))
    return max(sizes)


def test_the_batches_of_few_shards_are_sent_once_each(pair):
    # Half of the rows, nine numbers of four bytes each, and as much again for what describes them.
    assert max(pair(largest_message)) < 2 * 128 * 9 * 4


def broken(processes):
    """Return what the error says that a method raises where its work breaks in one process."""
    engine = engine_of(processes)

    def breaks(values):
        if processes.rank == 1 or values is None:
            raise ValueError("it broke in one")
        return values

    numbers = list(range(600))
    asked = {
        "map": lambda: engine.map(breaks, value_column(numbers)),
        "spread": lambda: engine.spread(breaks, numbers),
        "once": lambda: engine.once({}, lambda: breaks(None)),
    }
    return {name: raised(work) for name, work in asked.items()}


def raised(work):
    with pytest.raises(EndedElsewhere) as error:
        work()
    return error.value.ended


def test_an_error_of_one_process_is_raised_in_both(pair):
    for errors in pair(broken):
        assert errors.keys() == {"map", "spread", "once"}
        for ended in errors.values():
            assert ended.status == "failed"
            assert ended.value.startswith("ValueError: it broke in one")


def part_ways(processes):
    with pytest.raises(RuntimeError, match="one has finished a step that others are still in"):
        processes.exchange(Ended("ok") if processes.rank else "still at it")


def test_processes_that_go_different_ways_are_an_error_in_both(pair):
    assert pair(part_ways) == [None, None]


def lose_the_second(processes):
    if processes.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    named = rf"one of the 2 processes of this run \(on {socket.gethostname()}\) no longer answers"
    with pytest.raises(ProcessLost, match=rf"{named}; its address was 127\.0\.0\.1\."):
        processes.exchange("is anybody there?")


def test_a_process_that_dies_is_told_by_the_other_and_leaves_the_pair_usable(pair):
    ends = "process 0 ended with exit code 0\nprocess 1 ended with exit code -9"
    with pytest.raises(RuntimeError, match=f"^{ends}$"):
        pair(lose_the_second)
    assert pair(part_ways) == [None, None]
