"""Programs in forks of one process that has imported nothing but what it is asked to begin with.

Each answers with the modules that it ends with, as a process of its own would, but starts at once.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from forks import FORK_PER_LINE

SERVER = """
import json, os, sys, traceback
for name in sys.argv[1:]:
    __import__(name)

def child(asked):
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = 1
    try:
        exec(asked["program"], {"__name__": "program"})
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with open(asked["modules"], "w") as file:
            file.write(" ".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""

COMMANDS = """
from vlbench.cli import main
for words in {commands}:
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    assert code == 0, (words, code)
"""


class Ended(NamedTuple):
    """How a program ended, what it printed, and the modules that were imported then."""

    code: int
    stdout: str
    stderr: str
    modules: set[str]


def commands(*words: list[str]) -> str:
    """Return a program that runs command lines, each of which must end well."""
    return COMMANDS.format(commands=list(words))


@contextmanager
def import_server(folder: Path, *modules: str) -> Iterator[Callable[[str], Ended]]:
    """Yield a function that runs a program in a fork of a process that imported only `modules`."""
    files = {name: folder / name for name in ("stdout", "stderr", "modules")}
    paths = {name: str(file) for name, file in files.items()}
    command = [sys.executable, "-c", SERVER + FORK_PER_LINE, *modules]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:

        def ask(program: str) -> Ended:
            asked = {"program": program, "cwd": str(Path.cwd()), "env": dict(os.environ), **paths}
            server.stdin.write(json.dumps(asked) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            stdout, stderr, names = (file.read_text("utf-8") for file in files.values())
            return Ended(code, stdout, stderr, set(names.split()))

        yield ask
        server.stdin.close()
