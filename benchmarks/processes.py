"""Several processes against one: whole runs, trainings that share gradients, and simulated scale.

Run: python benchmarks/processes.py runs [images] | trainings | scale [seconds [kind ...]].

`runs`: two processes of one thread each against one of two, whole runs of clip-rn50 with random
weights on one task. `trainings`: two processes of one thread against one of one thread: time, and
the largest difference of losses and of weights. `scale`: a stand-in that sleeps a known time per
batch, so that more processes than cores cost nothing: efficiency of extraction, of scoring and of a
training of so many seconds on one process, and of an extraction of five shards, at 1, 2, 4 and 8;
and the share of the first process's time that is spent in exchanges, waiting for others included,
and in the store, and of which the core computes, which others wait for where there are more
processes than cores.
"""

# ruff: noqa: PLC0415 - what is slow to import is imported by what needs it, as processes start often

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store

CPU = torch.device("cpu")

TASK = """\
version: 1
probe: clustering
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
primary: {metric: accuracy}
"""

# Processes and threads of each.
ONE, TWO = (1, 2), (2, 1)

# Of the stand-in: seconds per row, rows per batch, and numbers per row.
QUESTIONS, PICTURES, PER_CAPTION = 640, 200, 0.01
PER_ROW, BATCH, FEATURES = 0.1 / 32, 32, 512

# Seconds of five shards, whose batches are dealt out to two processes or more.
FEW_SHARDS = 4.0

# Of the stand-in's training: examples per batch, weights, and seconds per step by kind of work.
EXAMPLES, WEIGHTS = 128, 1_000_000
STEPS = {"training in steps of 0.5 s": 0.5, "training in steps of 4 s": 4.0}

SIZES = (1, 2, 4, 8)


def run(folder: Path, size: int, threads: int) -> tuple[float, float]:
    """Return the wall time of one run, and the score that it wrote."""
    output = folder / str(size)
    words = ["--model", "clip-rn50", "--model-args", "weights=random", "--device", "cpu"]
    words += ["--tasks", "clustering_noise", "--processes", str(size), "--no-cache"]
    places = ["--include-path", str(folder), "--output", str(output)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    start = time.perf_counter()
    command = [sys.executable, "-m", "vlbench", *words, *places]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    seconds = time.perf_counter() - start
    (row,) = json.loads((output / "clustering_noise.json").read_text())["rows"]
    return seconds, row["scores"][0]["value"]


def measure_runs(count: int) -> None:
    """Print both times, their ratio, and both scores."""
    from extraction import make_images

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder / "images", count)
        (folder / "tasks").mkdir()
        (folder / "tasks" / "clustering_noise.yaml").write_text(TASK)
        (one, first), (two, second) = run(folder, *ONE), run(folder, *TWO)
    print(f"{count} images: one process {one:.1f} s, two {two:.1f} s, ratio {two / one:.2f}")
    print(f"scores {first} and {second}")


def bert_gen(engine: Engine) -> Any:
    """Return a training of BERT-gen of the size of tiny-bert."""
    from bert_gen import LEARNS, examples, network

    from vlbench.probes.question_generation.training import BertGenTraining, StepTraining

    plan = BertGenTraining(epochs=2, batch_size=64, learning_rate=1e-4)
    return StepTraining(network(), examples(QUESTIONS), LEARNS, plan, 0, engine.sharing)


def self_critical(engine: Engine) -> Any:
    """Return a training of the captioner on rewards that take PER_CAPTION seconds each, spread."""
    from captioner import WIDTH, Sleeps, made_up

    from vlbench.probes.captioning.captioner_files import StoredCaptioner, draw_captioner
    from vlbench.probes.captioning.captioner_network import Sizes
    from vlbench.probes.captioning.captioner_training import SelfCritical, SelfCriticalTraining

    lesson, slow = made_up(torch.Generator().manual_seed(0)), Sleeps(PER_CAPTION)
    sizes = Sizes(lesson.features.shape[1], len(lesson.vocabulary), WIDTH, WIDTH)
    drawn = draw_captioner(sizes, torch.Generator().manual_seed(0))
    taught = StoredCaptioner(drawn, lesson.vocabulary, {})

    def reward(_: Sequence[int], texts: Sequence[str]) -> Tensor:
        return torch.tensor(engine.spread(lambda some: slow([], [*some]).tolist(), texts))

    plan, seen = SelfCritical(epochs=1), lesson.features[:PICTURES]
    return SelfCriticalTraining(taught, seen, reward, plan, CPU, seed=0)


TRAININGS: dict[str, Callable[[Engine], Any]] = {
    "BERT-gen": bert_gen,
    "captioner, SCST": self_critical,
}


def train(name: str) -> dict[str, Any]:
    """Train, and return the time of a step and the weights at the end."""
    engine = Engine.for_tests()
    training = TRAININGS[name](engine)
    training.step(0)
    engine._processes.exchange(None)  # noqa: SLF001 - so that all start at once
    start = time.perf_counter()
    for number in range(1, training.steps):
        training.step(number)
    seconds = (time.perf_counter() - start) / (training.steps - 1)
    net = getattr(training, "network", None) or training._network  # noqa: SLF001 - to compare
    weights = torch.cat([w.detach().flatten() for w in net.parameters()])
    return {"seconds": seconds, "steps": training.steps, "weights": weights, "processes": engine}


def measure_trainings() -> None:
    """Print the time of a step of each training with one process and with two, and differences."""
    for name in TRAININGS:
        one, two = (together(size, "train", name) for size in (1, 2))
        gap = (one["weights"] - two["weights"]).abs()
        moved = one["weights"].abs().mean()
        print(
            f"{name}, {one['steps']} steps: one process {one['seconds']:.3f} s a step, two "
            f"{two['seconds']:.3f} s, ratio {two['seconds'] / one['seconds']:.2f}; weights differ "
            f"by {gap.max():.1e} at most, {gap.mean():.1e} on average of {moved:.1e}",
            flush=True,
        )


class StandIn:
    """A model that takes a known time per row."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return numbers, late."""
        time.sleep(PER_ROW * len(texts))
        return torch.ones(len(texts), FEATURES)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return scores, late."""
        time.sleep(PER_ROW * len(texts))
        return [1.0] * len(texts)


class StandInTraining:
    """A training that takes a known time per example."""

    def __init__(self, engine: Engine, seconds: float, of_step: float) -> None:
        self.steps, self.sharing = round(seconds / of_step), engine.sharing
        self.of_example = of_step / EXAMPLES
        self.weight = torch.zeros(WEIGHTS, requires_grad=True)

    def step(self, _: int) -> None:
        """Do a step that changes nothing."""
        own = range(EXAMPLES)[self.sharing.part(EXAMPLES)]

        def loss() -> Tensor:
            time.sleep(self.of_example * len(own))
            return self.weight.sum()

        self.sharing.backward([self.weight], loss, len(own) / EXAMPLES)

    def state(self) -> Mapping[str, Any]:
        """Return the weights."""
        return {"weight": self.weight.detach()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the weights back."""
        self.weight.data.copy_(state["weight"])

    def result(self) -> Tensor:
        """Return the first weight."""
        return self.weight.detach()[:1].clone()


def train_stand_in(engine: Engine, seconds: float, of_step: float) -> Any:
    """Train for so many seconds."""
    return engine.train({}, lambda: StandInTraining(engine, seconds, of_step), "stand-in")


@contextmanager
def timed(owner: type, *names: str) -> Iterator[list[float]]:
    """Yield a list that gets the seconds of each call of methods."""
    spent: list[float] = []
    kept = {name: getattr(owner, name) for name in names}

    def watched(name: str) -> Callable[..., Any]:
        def call(*values: Any, **words: Any) -> Any:
            start = time.perf_counter()
            try:
                return kept[name](*values, **words)
            finally:
                spent.append(time.perf_counter() - start)

        return call

    for name in names:
        setattr(owner, name, watched(name))
    yield spent
    for name in names:
        setattr(owner, name, kept[name])


def work(kind: str, seconds: float) -> dict[str, Any]:
    """Do the work of so many seconds; return wall time, and that in exchanges and in the store."""
    model, rows = StandIn(), round(seconds / PER_ROW)
    texts = [f"text {i}" for i in range(rows)]
    with tempfile.TemporaryDirectory() as folder:
        settings = ComputeSettings(CPU, batch_size=BATCH)
        engine = Engine(settings, store=Store(Path(folder)), identities={id(model): "stand-in"})
        column = Column("stand-in", "text", texts, range(rows))
        # Code is digested once in a process: eight on two cores would wait for each other.
        engine.features(model.encode_texts, column.select(range(0)))
        engine.map(model.score, column.select(range(0)), key={"what": "scores"})
        jobs: dict[str, Callable[[], Any]] = {
            "extraction": lambda: engine.features(model.encode_texts, column),
            "scoring": lambda: engine.map(model.score, column, key={"what": "scores"}),
            **{name: partial(train_stand_in, engine, seconds, s) for name, s in STEPS.items()},
        }
        engine._processes.exchange(None)  # noqa: SLF001 - so that all start at once
        with timed(Processes, "_gather", "sum") as exchange, timed(Store, "save", "load") as store:
            start, computed = time.perf_counter(), time.process_time()
            jobs[kind]()
            wall, cpu = time.perf_counter() - start, time.process_time() - computed
    # The sum of gradients waits for this process's own part too.
    size = engine._processes.size  # noqa: SLF001
    own = seconds / size if kind in STEPS and size > 1 else 0
    spent = {"wall": wall, "cpu": cpu, "exchange": sum(exchange) - own, "store": sum(store)}
    return spent | {"processes": engine}


def measure_scale(seconds: float, *kinds: str) -> None:
    """Print the efficiency of each kind of work, and what it is lost to."""
    print("| work | processes | s | efficiency | exchange | store | core |")
    print("|---|---|---|---|---|---|---|")
    jobs = [(kind, seconds) for kind in kinds or ("extraction", "scoring", *STEPS)]
    jobs += [] if kinds else [("extraction", FEW_SHARDS)]
    for kind, long in jobs:
        what = f"{kind}, {long:g} s"
        for size in SIZES:
            told = together(size, "work", kind, str(long))
            efficiency = long / size / told["wall"]
            shares = " | ".join(
                f"{told[one] / told['wall']:.1%}" for one in ("exchange", "store", "cpu")
            )
            print(
                f"| {what} | {size} | {told['wall']:.1f} | {efficiency:.3f} | {shares} |",
                flush=True,
            )


def together(size: int, *words: str) -> dict[str, Any]:
    """Return what the first of several processes of one thread each returned."""
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
        meet = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared = os.environ | meet | {"OMP_NUM_THREADS": "1"}
        found.close()
        file = Path(folder, "told.pt")
        command = [sys.executable, __file__, *words, str(file)]
        places = [{"RANK": str(n), "LOCAL_RANK": str(n)} for n in range(size)]
        started = [subprocess.Popen(command, env=shared | place) for place in places]
        codes = [one.wait() for one in started]
        if any(codes):
            raise SystemExit(1)
        told: dict[str, Any] = torch.load(file)
    return told


def take_part(what: str, *words: str) -> None:
    """Be one of several processes; the first writes what it measured."""
    *values, file = words
    told = train(values[0]) if what == "train" else work(values[0], float(values[1]))
    engine = told.pop("processes")
    if engine.is_main:
        torch.save(told, file)
    engine._processes.leave()  # noqa: SLF001 - as a run does


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["runs", *count]:
            measure_runs(int(count[0]) if count else 512)
        case ["trainings"]:
            measure_trainings()
        case ["scale", *rest]:
            measure_scale(float(rest[0]) if rest else 120.0, *rest[1:])
        case [("train" | "work") as part, *rest]:
            take_part(part, *rest)
        case _:
            sys.exit(__doc__)
