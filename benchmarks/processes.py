"""Two processes of one thread each against one process of two threads, side by side.

Run: python benchmarks/processes.py [images]. Prints the wall time of whole runs of clip-rn50 with
random weights on one task, in turn, their ratio, and the scores that both wrote.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from extraction import make_images

TASK = """\
version: 1
probe: clustering
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
primary: {metric: accuracy}
"""
LAUNCHES = {
    "one": (["-m", "vlbench"], "2"),
    "two": (["-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "vlbench"], "1"),
}


def run(folder: Path, name: str) -> tuple[float, float]:
    """Return the wall time of one run, and the score that it wrote."""
    launch, threads = LAUNCHES[name]
    words = [
        "--model",
        "clip-rn50",
        "--model-args",
        "weights=random",
        "--tasks",
        "clustering_noise",
    ]
    places = ["--include-path", str(folder), "--output", str(folder / name), "--no-cache"]
    environment = os.environ | {"OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    start = time.perf_counter()
    command = [sys.executable, *launch, *words, *places]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    seconds = time.perf_counter() - start
    (row,) = json.loads((folder / name / "clustering_noise.json").read_text())["rows"]
    return seconds, row["scores"][0]["value"]


def main(count: int) -> None:
    """Print both times, their ratio, and both scores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder / "images", count)
        (folder / "tasks").mkdir()
        (folder / "tasks" / "clustering_noise.yaml").write_text(TASK)
        (one, first), (two, second) = run(folder, "one"), run(folder, "two")
    print(f"{count} images: one process {one:.1f} s, two {two:.1f} s, ratio {two / one:.2f}")
    print(f"scores {first} and {second}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 512)
