"""What starting costs: commands that load no model against an interpreter that does nothing.

Run: python benchmarks/startup.py. Prints the median seconds over `python -c pass`, in turn. The dry
run of all embedded tasks is tried on an empty cache, and on one that remembers digests.
"""

import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = (["--help"], ["ls", "tasks"], ["ls", "models"], ["show", "few_shot_digits"])
DRY_RUN = ["--model", "tiny-clip", "--tasks", "embedded", "--dry-run", "--cache-dir"]
REPEATS = 9


def seconds(command: list[str]) -> float:
    """Return the wall time of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def compare_dry_runs() -> None:
    """Print the seconds of a dry run on an empty cache, and on the cache that it leaves."""
    empty, kept = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "vlbench", *DRY_RUN, cache]
            empty.append(seconds(command))
            kept.append(seconds(command))
    print(f"dry run of all embedded tasks: {statistics.median(empty):.2f} s on an empty cache")
    print(f"dry run of all embedded tasks: {statistics.median(kept):.2f} s on the second time")


if __name__ == "__main__":
    for words in COMMANDS:
        pairs = [
            (
                seconds([sys.executable, "-m", "vlbench", *words]),
                seconds([sys.executable, "-c", "pass"]),
            )
            for _ in range(REPEATS)
        ]
        extra = statistics.median(ours - bare for ours, bare in pairs)
        print(f"vlbench {' '.join(words)}: {extra:.2f} s more than python -c pass")
    compare_dry_runs()
