"""Kill a merge at each of its steps; print how the target was left, as counts in JSON.

python killed_merges.py FOLDER: merges FOLDER/source into copies of FOLDER/target. A step is a call
that opens, makes, renames or removes a file.
"""

import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

from planted_splits import snapshot

from vlbench.boards.merging import merge, read_folder
from vlbench.system.files import PART

STEPS = ("open", "os.", "tempfile.")


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
        copy = shutil.copytree(target, folder / "copy")
        was_killed = killed_at(step, source, copy)
        found += judged(snapshot(copy), before, after)
        found["lost"] += not rows(target) <= rows(copy)
        merge([source], copy)
        found["not completed"] += snapshot(copy) != after
        found["steps"] = step = step + 1
        shutil.rmtree(copy)
    sys.stdout.write(json.dumps({"torn": 0, "lost": 0, "not completed": 0} | found))


def judged(left, before, after):
    """Count what a killed merge left: parts, and files that are neither as before nor as after."""
    whole = {name: content for name, content in left.items() if PART not in name}
    torn = any(content not in (before.get(n), after.get(n)) for n, content in whole.items())
    torn |= not before.keys() <= whole.keys() | (before.keys() - after.keys())
    is_between = whole not in (before, after)
    return Counter({"torn": torn, "between": is_between, "left parts": whole != left})


def rows(folder):
    """Return the rows of a folder's boards, all of which parse."""
    boards = [source.board for source in read_folder(folder)]
    return {(b.task, b.version, json.dumps(row.row())) for b in boards for row in b.results}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
