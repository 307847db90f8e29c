"""What a plan costs per image file, against one os.stat of each file in a plain walk, as a ratio.

Run: python benchmarks/plans.py [images]. Prints the CPU microseconds per file of the plain walk, of
a loader that meets the files for the first time, and of one that remembers their digests: what each
dry run and each kept row pays. The target is a ratio of at most 5 where they are remembered.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from vlbench.data.image_folder import image_folder
from vlbench.digests import remembered_in

CLASSES, ROUNDS, TARGET = 100, 3, 5

# Only files that were not just changed are remembered.
LONG_AGO = 1_000_000_000


def make_files(root: Path, count: int) -> Path:
    """Write images of 8 x 8 pixels, each of its own, into class folders."""
    for label in range(CLASSES):
        (root / "test" / f"class{label:03d}").mkdir(parents=True)
    for i in range(count):
        file = root / "test" / f"class{i % CLASSES:03d}" / f"{i:07d}.png"
        pixels = np.frombuffer(i.to_bytes(4, "big") * 48, np.uint8)
        Image.fromarray(pixels.reshape(8, 8, 3)).save(file)
        os.utime(file, (LONG_AGO, LONG_AGO))
    return root


def walk(root: Path) -> None:
    """Look at each file once."""
    for folder, _, names in os.walk(root):
        for name in names:
            os.stat(f"{folder}/{name}")  # noqa: PTH116 - the floor


def per_file(job: Callable[[], object], count: int) -> float:
    """Return the CPU microseconds of one call per file."""
    start = time.process_time()
    job()
    return 1e6 * (time.process_time() - start) / count


def main(count: int) -> None:
    """Print the time per file, and the ratio to the plain walk."""
    with tempfile.TemporaryDirectory() as folder:
        root = make_files(Path(folder) / "images", count)
        plain = min(per_file(lambda: walk(root), count) for _ in range(ROUNDS))
        with remembered_in(Path(folder) / "digests.sqlite"):
            first = per_file(lambda: image_folder(root=root).digest(), count)
            known = min(
                per_file(lambda: image_folder(root=root).digest(), count) for _ in range(ROUNDS)
            )
    print(f"{count} files: a plain walk takes {plain:.1f} us per file")
    print(f"first time {first:.1f} us, {first / plain:.0f} times that")
    print(f"remembered {known:.1f} us, {known / plain:.1f} times that; target {TARGET}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 22_000)
