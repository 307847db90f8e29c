"""Commands in forks of one process that has imported the slow libraries once.

A fork is a process of its own, with its own folder, environment and streams, as a user's command
is; it only saves the seconds in which each would import the same libraries.
"""

import json
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager

SERVER = """
import json, os, sys, warnings
import torch, torchvision, transformers, datasets, accelerate, pyarrow.parquet, matplotlib.pyplot
import vlbench.bench

def child(asked):
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number, stream in enumerate(("stdin", "stdout", "stderr")):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(asked[stream], mode), number)
    from vlbench.cli import main
    sys.argv = ["vlbench", *asked["words"]]
    code = 1
    try:
        code = main()
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""

# Runs `child` in a fork for each line of the standard input, and prints its exit code.
FORK_PER_LINE = """
for line in sys.stdin:
    process = os.fork()
    if not process:
        child(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@contextmanager
def command_server(folder):
    """Give a function that runs a line `vlbench ...` in a folder and returns how it ended."""
    names = {name: str(folder / name) for name in ("stdout", "stderr")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER + FORK_PER_LINE], text=True, **pipes
    ) as server:

        def run(line, cwd, environment):
            words = shlex.split(line)[1:]
            asked = {"words": words, "cwd": str(cwd), "env": dict(environment)} | names
            server.stdin.write(json.dumps(asked | {"stdin": os.devnull}) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            texts = [(folder / name).read_text("utf-8") for name in names]
            return subprocess.CompletedProcess(line, code, *texts)

        yield run
        server.stdin.close()
