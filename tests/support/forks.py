"""Programs in forks of one process that has imported what they need, or nothing, once.

A fork is a process of its own, with its own folder, environment and streams, as a user's command
is; it only saves the seconds in which each would import the same libraries.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

# OpenMP's other threads are not in the child, which waits for them for ever.
forks = pytest.mark.skipif(
    torch.get_num_threads() > 1, reason="forks a process that computes on several threads"
)

# Runs the program of each line of the standard input in a fork, and prints its exit code.
SERVER = """
import json, os, sys, traceback
for name in sys.argv[1:]:
    __import__(name)

def child(asked):
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = 1
    try:
        exec(asked["program"], {"__name__": "program"})
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with open(asked["modules"], "w") as file:
            file.write(" ".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    process = os.fork()
    if not process:
        child(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Ended(NamedTuple):
    """How a program ended, what it printed, and the modules that were imported then."""

    returncode: int
    stdout: str
    stderr: str
    modules: set[str]


@contextmanager
def fork_server(folder: Path, *modules: str) -> Iterator[Callable[..., Ended]]:
    """Yield a function that runs a program in a fork of a process that imported only `modules`."""
    files = {name: folder / name for name in ("stdout", "stderr", "modules")}
    paths = {name: str(file) for name, file in files.items()}
    command = [sys.executable, "-c", SERVER, *modules]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:

        def run(program: str, cwd: Path | str = ".", env: Mapping[str, str] = os.environ) -> Ended:
            asked = {"program": program, "cwd": str(Path(cwd).absolute()), "env": dict(env)}
            server.stdin.write(json.dumps(asked | paths) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            stdout, stderr, names = (file.read_text("utf-8") for file in files.values())
            return Ended(code, stdout, stderr, set(names.split()))

        yield run
        server.stdin.close()
