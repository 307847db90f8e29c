"""Kill a merge at each of its steps; print how the target was left, as counts in JSON.

python killed_merges.py FOLDER: merges FOLDER/source into copies of FOLDER/target. A step is a call
that opens, makes, renames, links or removes a file, or that calls a function of the C library.
"""

import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

from planted_splits import snapshot

from vlbench.boards.merging import merge

STEPS = ("open", "os.", "shutil.", "tempfile.", "ctypes.call_function", "ctypes.dlsym")


def killed_at(step, source, target):
    """Merge in a process that kills itself at this step; return whether it came so far."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = step

    def count(event, _):
        nonlocal left
        left -= event.startswith(STEPS)
        if left < 0:
            signal.raise_signal(signal.SIGKILL)

    sys.addaudithook(count)
    try:
        merge([source], target)
    finally:
        os._exit(0)


def main(folder):
    os.fsync = lambda _: None  # what a kill leaves does not depend on the disk
    source, target = folder / "source", folder / "target"
    before = snapshot(target)
    merge([source], shutil.copytree(target, folder / "whole"))
    after = snapshot(folder / "whole")
    found, step, was_killed = Counter(), 0, True
    while was_killed:
        (copies := folder / "copies").mkdir()
        copy = shutil.copytree(target, copies / "boards")
        was_killed = killed_at(step, source, copy)
        left = snapshot(copy)
        found["as it was" if left == before else "merged" if left == after else "broken"] += 1
        merge([source], copy)
        found["never merged"] += snapshot(copy) != after
        found["left beside"] += list(copies.iterdir()) != [copy]
        found["steps"] = step = step + 1
        shutil.rmtree(copies)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
