"""What starting costs: commands that load no model against interpreters that do no more than they.

Run: python benchmarks/startup.py. Prints the median CPU seconds of each command, and their ratio to
`python -c pass` or, where a command needs torch, to `python -c "import torch"`, in turn. The dry
run of all embedded tasks is tried on an empty cache, and on one that remembers digests; a run
whose row is there already, on the cache that the first run leaves.
"""

import statistics
import tempfile

from measuring import seconds_of_process as seconds

LISTINGS = (["--help"], ["ls", "tasks"], ["ls", "models"], ["show", "few_shot_digits"])
MODELS = ["--model", "tiny-clip,tiny-bert,tiny-rn,tiny-vlm,tiny-uniter"]
EMBEDDED = [*MODELS, "--tasks", "embedded", "--dry-run"]
ONE = ["--model", "raw-pixels", "--tasks", "few_shot_digits"]
REPEATS = 9


def compare(name: str, words: list[str], bare: str) -> None:
    """Print the CPU seconds of a command, and the ratio to a bare program."""
    pairs = [(seconds("-m", "vlbench", *words), seconds("-c", bare)) for _ in range(REPEATS)]
    ours = statistics.median(one for one, _ in pairs)
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{name}: {ours:.2f} s, {ratio:.1f} times `{bare}`")


def compare_empty_caches() -> None:
    """Print the CPU seconds of the dry run where no digest is remembered."""
    found = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            found.append(seconds("-m", "vlbench", *EMBEDDED, "--cache-dir", cache))
    print(f"dry run of all embedded tasks, empty cache: {statistics.median(found):.2f} s")


if __name__ == "__main__":
    for listing in LISTINGS:
        compare(" ".join(listing), listing, "pass")
    compare("data few_shot_digits", ["data", "few_shot_digits"], "import torch")
    compare_empty_caches()
    with tempfile.TemporaryDirectory() as folder:
        where = ["--cache-dir", f"{folder}/cache", "--output", f"{folder}/boards"]
        seconds("-m", "vlbench", *EMBEDDED, *where)
        seconds("-m", "vlbench", *ONE, *where)
        compare("dry run of all embedded tasks", [*EMBEDDED, *where], "import torch")
        compare("a run whose row is there", [*ONE, *where], "import torch")
