"""Launching: a run of several processes on this machine, started and ended by PyTorch's launcher.

The process that the user started only waits for them; their first process writes to its terminal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from vlbench.engine.processes import number_in
from vlbench.errors import STOPPED, ProcessLost, UnknownNameError
from vlbench.system.files import temporary_folder

LOGGER = logging.getLogger(__name__)

HERE = "127.0.0.1"

# Variables that the launchers of PyTorch and Accelerate set, also for one process, and the number
# of processes that Slurm's srun starts.
OF_LAUNCHERS = ("WORLD_SIZE", "LOCAL_RANK", "ACCELERATE_MIXED_PRECISION")
OF_SLURM = "SLURM_STEP_NUM_TASKS"

# Signals that end a run.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# Seconds that a process gets to end, and seconds between two checks of another process.
GRACE, LOOK = 5, 0.2

# Logged lines of the standard error of a process that ended before the others.
LAST_LINES = 20


def count_processes(count: int | None, device: str) -> int:
    """Return the number of processes of a run on a device, including this process.

    It is the number that a launcher started; else `count`, or one for each GPU visible under
    CUDA_VISIBLE_DEVICES. Raises UnknownNameError for an impossible number.
    """
    if any(name in os.environ for name in OF_LAUNCHERS) or number_in(OF_SLURM, 1) > 1:
        started = number_in("WORLD_SIZE", 1)
        if count not in {None, started}:
            why = f"a launcher has started {started}; leave out --processes"
            raise UnknownNameError(f"--processes is {count}, but {why}")
        return started
    kind, _, number = device.partition(":")
    # GPUs may be listed but unusable, for example if the driver is too old.
    usable = kind in {"auto", "cuda"} and torch.cuda.is_available()
    gpus = torch.cuda.device_count() if usable else 0
    if count is None:
        return 1 if number else max(1, gpus)
    if count > 1 and number:
        raise UnknownNameError(f"--processes is {count}, but --device {device} is one device")
    if count > gpus > 0:
        raise UnknownNameError(f"--processes is {count}, but the number of visible GPUs is {gpus}")
    return count


def launch(size: int, words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command line in `size` processes with these variables; return the first's exit code.

    The other processes print nothing. If one ends early, all end, and its standard error is
    logged. Raises KeyboardInterrupt if a signal ends the run.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # noqa: PLC0415 - seldom
    from torch.distributed.elastic.multiprocessing import SignalException  # noqa: PLC0415

    # They meet at this process's store, whose port no other program can take.
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
    places = _places(size, store.port, variables)
    before = {stop: signal.getsignal(stop) for stop in STOPS}
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        with temporary_folder() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # PyTorch leaves the logs open
            return _run(words, places, folder)
    except SignalException as error:
        raise KeyboardInterrupt from error
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)


def _run(words: Sequence[str], places: Mapping[int, dict[str, str]], folder: Path) -> int:
    """Start a process for each of the places, wait for them, and return the exit code."""
    from torch.distributed.elastic.multiprocessing import (  # noqa: PLC0415 - as above
        DefaultLogsSpecs,
        Std,
        SubprocessContext,
        start_processes,
    )

    arguments = dict.fromkeys(places, ("-P", "-m", "vlbench", *words))
    # Their temporary files are deleted with the folder, even if they are killed.
    environments = {rank: {**place, "TMPDIR": str(folder)} for rank, place in places.items()}
    logs = DefaultLogsSpecs(str(folder), {rank: Std.ALL for rank in places if rank})
    ignored = [stop for stop in STOPS if signal.getsignal(stop) == signal.SIG_IGN]
    started = start_processes("vlbench", sys.executable, arguments, environments, logs)
    for stop in ignored:  # as under nohup
        signal.signal(stop, signal.SIG_IGN)
    assert isinstance(started, SubprocessContext)
    first = started.subprocess_handlers[0].proc
    try:
        ended = started.wait(period=LOOK)
    finally:
        started.close(timeout=GRACE)
        if first.returncode and first.returncode < 0 and sys.stdout.isatty():
            sys.stdout.write("\x1b[?25h\n")  # the cursor, which bars hide
            sys.stdout.flush()
    assert ended
    if first.returncode >= 0:  # it has ended by itself, and has printed why
        return int(first.returncode)
    failure = next(iter(ended.failures.values()))
    _log_failure(failure.local_rank, failure.exitcode, ended.stderrs[failure.local_rank])
    return 1


def _places(size: int, port: int, variables: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Return the variables of each process, by rank."""
    threads = max(1, len(os.sched_getaffinity(0)) // size)
    shared = {
        **variables,
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": HERE,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
        # They import modules from this process's path, not from the folder where they start.
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return {r: {**shared, "RANK": str(r), "LOCAL_RANK": str(r)} for r in range(size)}


def _log_failure(rank: int, code: int, errors: str) -> None:
    """Log how a process ended, after the last lines of its standard error."""
    lines = Path(errors).read_text("utf-8", "backslashreplace").splitlines() if errors else []
    for line in lines[-LAST_LINES:]:
        LOGGER.error("process %d: %s", rank, line)
    LOGGER.error(
        "process %d of this run has ended with exit code %d. Finished work is saved; rerun the "
        "command to resume.",
        *(rank, code),
    )


@contextmanager
def end_with_launcher(launcher: int) -> Iterator[None]:
    """End this process if its launcher, process number `launcher`, ends; 0 means no launcher.

    The launcher reports an error of one process, and the first process an error of all.
    """
    if launcher:
        threading.Thread(target=_wait_for_end, args=(launcher,), daemon=True).start()
    try:
        yield
    except Exception as error:
        if launcher and (isinstance(error, ProcessLost) or os.environ["RANK"] != "0"):
            time.sleep(GRACE)  # which the launcher cuts short if another process has ended
        raise


def _wait_for_end(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(LOOK)
    os._exit(STOPPED)
