"""Launching: the process that the user started starts the other processes of its run.

It is the first of them, so that terminal, messages, signals and exit code are those of one process.
The others end when the first ends, however it does: each reads a pipe that the first alone holds
open.
"""

from __future__ import annotations

import _thread
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

import torch

from vlbench.engine.processes import LOST, number_in
from vlbench.errors import INTERRUPTED, STOPPED, ProcessLost, UnknownNameError

LOGGER = logging.getLogger(__name__)

HERE = "127.0.0.1"

# What the launchers of PyTorch and of Accelerate set, for one process too, and the number of
# processes that Slurm's srun starts.
OF_LAUNCHERS = ("WORLD_SIZE", "LOCAL_RANK", "ACCELERATE_MIXED_PRECISION")
OF_SLURM = "SLURM_STEP_NUM_TASKS"

# Set in a process that ends with the one that started it.
FOLLOWS = "VLBENCH_FOLLOWS"

# Seconds in which a process ends by itself when it should, and between two looks at the others.
GRACE, LOOK = 5.0, 0.5

# Lines of the standard error of a process that failed alone.
LAST_LINES = 20


def count_processes(asked: int | None, device: str) -> int:
    """Return how many processes a run on a device has, itself included.

    As many as a launcher started; else as many as asked for, or one for each visible GPU, which are
    those that CUDA_VISIBLE_DEVICES leaves. Raises UnknownNameError for a number that cannot be.
    """
    if any(name in os.environ for name in OF_LAUNCHERS) or number_in(OF_SLURM, 1) > 1:
        started = number_in("WORLD_SIZE", 1)
        if asked not in {None, started}:
            why = f"a launcher has started {started}; leave --processes out"
            raise UnknownNameError(f"--processes is {asked}, but {why}")
        return started
    kind, _, number = device.partition(":")
    # GPUs may be counted and still be unusable, as with a driver that is too old.
    usable = kind in {"auto", "cuda"} and torch.cuda.is_available()
    gpus = torch.cuda.device_count() if usable else 0
    if asked is None:
        return 1 if number else max(1, gpus)
    if asked > 1 and number:
        raise UnknownNameError(f"--processes is {asked}, but --device {device} is one device")
    if asked > gpus > 0:
        raise UnknownNameError(f"--processes is {asked}, but visible GPUs are {gpus}")
    return asked


class Other(NamedTuple):
    """Another process of this run, and the file that holds its standard error."""

    rank: int
    process: subprocess.Popen[str]
    errors: IO[str]

    def has_failed(self) -> bool:
        """Return whether it has ended otherwise than with exit code 0."""
        return bool(self.process.poll())

    def release(self) -> None:
        """Let it end, as if interrupted."""
        assert self.process.stdin
        self.process.stdin.close()

    def wait(self) -> None:
        """Wait until it has ended, but not for long."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)

    def log_failure(self) -> None:
        """Log the last lines of its standard error, but not that it has lost this process."""
        self.errors.seek(0)
        lines = self.errors.read().splitlines()[-LAST_LINES:]
        for line in lines if not any(LOST in line for line in lines) else ():
            LOGGER.error("process %d: %s", self.rank, line)


@contextmanager
def launched(size: int, words: Sequence[str]) -> Iterator[None]:
    """Let this process be the first of `size` in the block; the others run the same command line.

    Their standard output goes nowhere. Where one fails alone, what it wrote to
    standard error is logged.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # noqa: PLC0415 - seldom

    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
    before, threads = dict(os.environ), torch.get_num_threads()
    os.environ.update(_group(size, store.port))
    others: list[Other] = []
    try:
        others.extend(_start(rank, words) for rank in range(1, size))
        os.environ.update(_place(0))
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        with _watched(others):
            yield
        for other in others:
            other.wait()
    except ProcessLost:
        for other in others:
            if other.has_failed():
                other.log_failure()
        raise
    finally:
        for other in others:
            other.release()
        for other in others:
            other.wait()
            other.process.kill()
            other.errors.close()
        torch.set_num_threads(threads)
        os.environ.clear()
        os.environ.update(before)


def _group(size: int, port: int) -> dict[str, str]:
    """Return the variables that all processes of a run share."""
    threads = max(1, len(os.sched_getaffinity(0)) // size)
    return {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": HERE,
        "MASTER_PORT": str(port),
        # They meet at the store of the first process, whose port nobody else can take.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
    }


def _place(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank)}


def _start(rank: int, words: Sequence[str]) -> Other:
    # It finds modules where this process does, and not in the folder where it is started.
    found = {"PYTHONPATH": os.pathsep.join(sys.path), FOLLOWS: "1"}
    errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    process = subprocess.Popen(  # noqa: S603 - this command, with its own words
        [sys.executable, "-P", "-m", "vlbench", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=os.environ | _place(rank) | found,
        text=True,
    )
    return Other(rank, process, errors)


def follow_first() -> None:
    """Let this process end with the one that started it, if another process of its run did."""
    if os.environ.pop(FOLLOWS, ""):
        threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    while os.read(0, 1):
        pass
    _thread.interrupt_main()
    time.sleep(GRACE)
    os._exit(STOPPED)


@contextmanager
def _watched(others: Sequence[Other]) -> Iterator[None]:
    """End this process if it should end inside the block and does not.

    Where it waits for others, inside of gloo or NCCL, no error of Python reaches it.
    """
    reads, writes = socket.socketpair()
    writes.setblocking(False)
    done = threading.Event()
    before = signal.set_wakeup_fd(writes.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_watch, args=(others, reads, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        thread.join()
        reads.close()
        writes.close()


def _watch(others: Sequence[Other], signals: socket.socket, done: threading.Event) -> None:
    while not done.is_set():
        came, _, _ = select.select([signals], [], [], LOOK)
        if came and signal.SIGINT in signals.recv(1024):
            for other in others:
                other.release()
            if not done.wait(GRACE):
                LOGGER.error(INTERRUPTED)
                _exit(STOPPED)
        failed = [other for other in others if other.has_failed()]
        if failed and not done.wait(GRACE):
            for other in failed:
                other.log_failure()
            LOGGER.error(
                "process %d of this run has ended with exit code %d. Finished work is saved; "
                "rerun the command to resume.",
                failed[0].rank,
                failed[0].process.returncode,
            )
            _exit(1)


def _exit(code: int) -> None:
    """End this process at once, with the cursor that bars hide."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[?25h\n")
        sys.stdout.flush()
    os._exit(code)
