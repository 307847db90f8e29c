"""Functions that two real processes run together, connected by gloo.

One server without threads imports what is slow. It forks processes for each function, so that none
finds what another has left, whether that failed, was killed or never ended.
"""

import gc
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

# Processes that take longer are killed.
SECONDS = 100


@contextmanager
def pair_server(folder):
    """Give a function that lets processes run a function and returns each one's result, by rank.

    The function stands in a test's file. It gets the processes, of which it is one, and arguments
    that can be pickled, as can its result. Raises RuntimeError with the errors of those that fail.
    """
    numbers, pipe = count(), subprocess.PIPE
    # It finds modules where this process does.
    options = {"text": True, "env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}}
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, **options) as server:

        def run(function, *arguments, size=2):
            own = folder / str(next(numbers))
            own.mkdir()
            (own / "arguments").write_bytes(pickle.dumps(arguments))
            named = {"file": function.__code__.co_filename, "function": function.__name__}
            asked = named | {"folder": str(own), "size": size, "env": dict(os.environ)}
            server.stdin.write(json.dumps(asked) + "\n")
            server.stdin.flush()
            codes = json.loads(server.stdout.readline())
            if any(codes):
                raise RuntimeError("\n".join(_why(own, rank, codes[rank]) for rank in range(size)))
            return [pickle.loads((own / str(rank)).read_bytes()) for rank in range(size)]  # noqa: S301

        yield run
        server.kill()  # it may wait for what a test has left


def _why(folder, rank, code):
    error = folder / f"{rank}.error"
    told = f":\n{error.read_text()}" if error.exists() else ""
    return f"process {rank} ended with exit code {code}{told}"


def serve():
    """Run what each line of the standard input names, and print the exit codes."""
    import torch._dynamo  # noqa: F401 - slow, and an optimizer's first step imports it
    from accelerate import PartialState, utils  # noqa: F401 - likewise, for each process

    import vlbench.bench  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        module = load(asked["file"])
        gc.freeze()  # so that no process collects, and copies, what all share
        numbers = [_forked(module, asked, rank) for rank in range(asked["size"])]
        codes = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in numbers]
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()
    os._exit(0)  # tearing torch down takes a second


@cache
def load(file):
    """Return the module in a test's file."""
    spec = importlib.util.spec_from_file_location(file, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _forked(module, asked, rank):
    """Return the number of a new process, which runs the function and ends."""
    number = os.fork()
    if number:
        return number
    code, folder = 1, Path(asked["folder"])
    try:
        signal.alarm(SECONDS)
        os.dup2(2, 1)  # the server alone answers
        os.environ.clear()
        os.environ.update(asked["env"])
        warnings.simplefilter("error")
        arguments = pickle.loads((folder / "arguments").read_bytes())  # noqa: S301
        with joined(folder / "meeting", rank, asked["size"]) as processes:
            result = getattr(module, asked["function"])(processes, *arguments)
        (folder / str(rank)).write_bytes(pickle.dumps(result))
        code = 0
    except BaseException:  # noqa: BLE001 - told by the server's client
        (folder / f"{rank}.error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


@contextmanager
def joined(meeting, rank, size):
    """Yield the processes, which meet at a file, so that no two groups take one port.

    One process is alone, as if no launcher had started it.
    """
    from vlbench.engine.processes import Processes

    if size > 1:
        meet_at(meeting, rank, size)
    processes = Processes(cpu=True)
    yield processes
    processes.leave()


def meet_at(meeting, rank, size):
    from torch import distributed

    os.environ |= {"WORLD_SIZE": str(size), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
    meet = {"init_method": f"file://{meeting}", "rank": rank, "world_size": size}
    distributed.init_process_group("gloo", **meet)


if __name__ == "__main__":
    serve()
