"""Efficiency of several processes, simulated by a stand-in that sleeps a known time per batch.

Sleeping costs nothing, so there may be more processes than cores. Extraction, scoring and trainings
of so many seconds on one process run on 1, 2, 4 and 8, and so does an extraction of five shards.
Efficiency is the time that each process should take, divided by the time that it took. The other
columns are fractions of the first process's time: in exchanges, waiting for others included, in the
store, and of computing.

Run: python benchmarks/processes.py [--seconds 120] [--work extraction,scoring]
"""

from __future__ import annotations

import argparse
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

# Of the stand-in: seconds per row, rows per batch, and numbers per row.
PER_ROW, BATCH, FEATURES = 0.1 / 32, 32, 512

# Seconds of five shards, whose batches are dealt out to two processes or more.
FEW_SHARDS = 4.0

# Of the stand-in's training: examples per batch, weights, and seconds per step by kind of work.
EXAMPLES, WEIGHTS = 128, 1_000_000
STEPS = {"training in steps of 0.5 s": 0.5, "training in steps of 4 s": 4.0}

SIZES = (1, 2, 4, 8)


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
        examples = range(EXAMPLES)[self.sharing.part(EXAMPLES)]

        def loss() -> Tensor:
            time.sleep(self.of_example * len(examples))
            return self.weight.sum()

        self.sharing.backward([self.weight], loss, len(examples) / EXAMPLES)

    def state(self) -> Mapping[str, Any]:
        """Return the weights."""
        return {"weight": self.weight.detach()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the weights back."""
        self.weight.data.copy_(state["weight"])

    def result(self) -> Tensor:
        """Return the first weight."""
        return self.weight.detach()[:1].clone()


@contextmanager
def timed(owner: type, *names: str) -> Iterator[list[float]]:
    """Yield a list that gets the seconds of each call of methods."""
    spent: list[float] = []
    methods = {name: getattr(owner, name) for name in names}

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **words: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*values, **words)
            finally:
                spent.append(time.perf_counter() - start)

        return call

    for name, method in methods.items():
        setattr(owner, name, watched(method))
    yield spent
    for name, method in methods.items():
        setattr(owner, name, method)


def work(kind: str, seconds: float, file: Path) -> None:
    """Take part in the work of so many seconds; the first process writes what it measured.

    Written are the wall time, and that in the core, in exchanges and in the store.
    """
    model, rows = StandIn(), round(seconds / PER_ROW)
    with tempfile.TemporaryDirectory() as folder:
        settings = ComputeSettings(torch.device("cpu"), batch_size=BATCH)
        engine = Engine(settings, store=Store(Path(folder)), identities={id(model): "stand-in"})
        column = Column("stand-in", "text", [f"text {i}" for i in range(rows)], range(rows))
        # Code is digested once in a process: eight on two cores would wait for each other.
        engine.features(model.encode_texts, column.select(range(0)))
        engine.map(model.score, column.select(range(0)), key={"what": "scores"})

        def train(of_step: float) -> Any:
            start = partial(StandInTraining, engine, seconds, of_step)
            return engine.train({}, start, "stand-in")

        jobs: dict[str, Callable[[], Any]] = {
            "extraction": lambda: engine.features(model.encode_texts, column),
            "scoring": lambda: engine.map(model.score, column, key={"what": "scores"}),
            **{name: partial(train, of_step) for name, of_step in STEPS.items()},
        }
        processes = engine._processes  # noqa: SLF001 - what is measured
        processes.exchange(None)  # so that all start at once
        with timed(Processes, "_gather", "sum") as exchange, timed(Store, "save", "load") as store:
            start, computed = time.perf_counter(), time.process_time()
            jobs[kind]()
            wall, cpu = time.perf_counter() - start, time.process_time() - computed
    # The sum of gradients waits for this process's part too.
    in_sum = seconds / processes.size if kind in STEPS and processes.size > 1 else 0
    spent = {"wall": wall, "exchange": sum(exchange) - in_sum, "store": sum(store), "cpu": cpu}
    if engine.is_main:
        torch.save(spent, file)
    processes.leave()


def together(size: int, kind: str, seconds: float) -> dict[str, float]:
    """Return what the first of several processes of one thread each measured."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        meet = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared = os.environ | meet | {"OMP_NUM_THREADS": "1"}
        file = Path(folder, "spent.pt")
        command = [sys.executable, __file__, "--work", kind, "--seconds", str(seconds)]
        places = [{"RANK": str(n), "LOCAL_RANK": str(n)} for n in range(size)]
        started = [
            subprocess.Popen([*command, "--into", str(file)], env=shared | place)
            for place in places
        ]
        codes = [process.wait() for process in started]
        if any(codes):
            raise SystemExit(1)
        spent: dict[str, float] = torch.load(file)
    return spent


def main(kinds: Sequence[str], seconds: float) -> None:
    """Print the efficiency of each kind of work, and what it is lost to."""
    print("| work | processes | s | efficiency | exchange | store | core |")
    print("|---|---|---|---|---|---|---|")
    jobs = [(kind, seconds) for kind in kinds or ("extraction", "scoring", *STEPS)]
    jobs += [] if kinds else [("extraction", FEW_SHARDS)]
    for kind, long in jobs:
        for size in SIZES:
            spent = together(size, kind, long)
            wall = spent["wall"]
            parts = [f"{spent[name] / wall:.1%}" for name in ("exchange", "store", "cpu")]
            what = f"{kind}, {long:g} s | {size} | {wall:.1f} | {long / size / wall:.3f}"
            print(f"| {' | '.join([what, *parts])} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--work", default="", help="kinds of work, with commas between them")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into:
        work(given.work, given.seconds, given.into)
    else:
        main([kind for kind in given.work.split(",") if kind], given.seconds)
