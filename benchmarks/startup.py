"""What starting costs: commands that need no model against an interpreter that does nothing.

Run: python benchmarks/startup.py. Prints the median seconds over `python -c pass`, in turn.
"""

import statistics
import subprocess
import sys
import time

COMMANDS = (["--help"], ["ls", "tasks"], ["ls", "models"], ["show", "few_shot_digits"])
REPEATS = 9


def seconds(command: list[str]) -> float:
    """Return the wall time of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


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
