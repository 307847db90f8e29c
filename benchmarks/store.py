"""What the store costs against the passes whose results it keeps, and against numpy's files.

Run: python benchmarks/store.py [images]. Prints the seconds of clip-rn50's passes (random weights)
and, as shares of them, of writing its features and of reading them again. Then the CPU time of
writing and of reading 20,000 features of width 512, in shards, over that of np.save and np.load:
the fastest of ten rounds of each. The targets are 3 and 2.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from extraction import BATCH, CPU, make_images, make_model

from vlbench.data.image_folder import image_folder
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.fingerprints import identified
from vlbench.engine.shards import SHARD
from vlbench.engine.store import Store

KEY = "sha256:" + "0" * 64
ROWS, WIDTH, ROUNDS = 20_000, 512, 10


class Timed(Store):
    """Adds up the time that writing takes."""

    seconds = 0.0

    def save(self, key: str, part: str, value: dict[str, object]) -> None:
        """Write as the store does, and take the time."""
        start = time.perf_counter()
        super().save(key, part, value)
        self.seconds += time.perf_counter() - start


def main(count: int) -> None:
    """Print the shares."""
    model = make_model()
    identity = identified(model, {"weights": "random"}, CPU, torch.float32).identity
    with tempfile.TemporaryDirectory() as folder:
        images = image_folder(root=make_images(Path(folder) / "images", count)).splits["test"]
        store = Timed(Path(folder) / "store")
        engine = Engine(
            ComputeSettings(CPU, batch_size=BATCH), store=store, identities={id(model): identity}
        )
        start = time.perf_counter()
        engine.features(model.encode_images, images["image"])
        passes = time.perf_counter() - start - store.seconds
        start = time.perf_counter()
        engine.features(model.encode_images, images["image"])
        read = time.perf_counter() - start
    print(f"{count} images: forward passes {passes:.1f} s")
    print(f"writing {store.seconds / passes:.5f} of that, reading {read / passes:.5f}")
    against_numpy()


def against_numpy() -> None:
    """Print the ratios of writing and of reading shards."""
    features = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    parts = [part.clone() for part in features.split(SHARD)]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))

        def save(number: int) -> None:
            rows = torch.arange(len(parts[number]))
            store.save(KEY, str(number), {"rows": rows, "values": parts[number]})

        def np_save(number: int) -> None:
            np.save(Path(folder, f"{number}.npy"), parts[number].numpy())

        jobs: dict[str, tuple[Callable[[int], object], Callable[[int], object]]] = {
            "writing": (save, np_save),
            "reading": (
                lambda number: store.load(KEY, str(number)),
                lambda number: np.load(Path(folder, f"{number}.npy")),
            ),
        }
        for what, sides in jobs.items():
            rounds = [[_seconds(job, len(parts)) for job in sides] for _ in range(ROUNDS)]
            own, bare = (min(side) for side in zip(*rounds, strict=True))
            print(f"{what} shards {own:.4f} s, numpy {bare:.4f} s, ratio {own / bare:.2f}")


def _seconds(job: Callable[[int], object], count: int) -> float:
    """Return the CPU seconds of a job for each of so many shards."""
    start = time.process_time()
    for number in range(count):
        job(number)
    return time.process_time() - start


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 128)
