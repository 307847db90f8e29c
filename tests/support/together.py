"""Code that two real processes run together, connected by gloo."""

import os
import socket
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent


def run_together(code, folder, *, size=2, timeout=250):
    """Run a script in `size` processes in a folder; each is told its rank by `RANK`."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    meet = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    paths = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    shared = os.environ | meet | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    started = [
        subprocess.Popen(command, cwd=folder, env=shared | {"RANK": str(n), "LOCAL_RANK": str(n)})
        for n in range(size)
    ]
    codes = [one.wait(timeout) for one in started]
    assert codes == [0] * size
