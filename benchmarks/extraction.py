"""Extraction through the engine against a bare loop: the same model, batches, pixels and threads.

Run: python benchmarks/extraction.py [images]. Prints ratios of wall time, pair by pair, the growth
of peak memory with the number of images, and images passed for two probes over distinct images.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import vlbench
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.fingerprints import identified
from vlbench.engine.store import Store
from vlbench.run.functions import load_object

CPU = torch.device("cpu")
BATCH = 32
REPEATS, MEMORY_IMAGES = 3, 64


def make_images(folder: Path, count: int) -> Path:
    """Write `count` test JPEGs of 500 x 375 in 10 classes, and 2 train images a class."""
    rng = np.random.default_rng(0)
    for i in range(count + 20):
        split = "test" if i < count else "train"
        file = folder / split / f"class {i % 10}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        small.resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return folder


def make_model() -> object:
    """Return clip-rn50 with seeded random weights."""
    adapters = Path(__file__).resolve().parents[1] / "model_adapters"
    return load_object("open_clip:OpenClip", [adapters])(device=CPU, weights="random")


@torch.no_grad()
def bare_loop(model: object, images: Column) -> torch.Tensor:
    """Return the features as ten lines without a harness would get them."""
    out = []
    for start in range(0, len(images), BATCH):
        rows = range(start, min(start + BATCH, len(images)))
        pixels = torch.stack([model.preprocess(images[row]) for row in rows])
        out.append(model.encode_images(pixels))
    return torch.cat(out)


def through_engine(model: object, images: Column, folder: Path) -> torch.Tensor:
    """Return the features as a run gets them, written to an empty store."""
    identity = identified(model, {"weights": "random"}, CPU, torch.float32).identity
    engine = Engine(
        ComputeSettings(CPU, batch_size=BATCH),
        store=Store(folder),
        identities={id(model): identity},
    )
    return engine.features(model.encode_images, images)


def compare_speed(count: int) -> None:
    """Print the engine's time over the bare loop's, in turn, over the same images."""
    model, ratios = make_model(), []
    with tempfile.TemporaryDirectory() as folder:
        images = image_folder(root=make_images(Path(folder) / "images", count)).splits["test"]
        bare_loop(model, images["image"].select(range(min(BATCH, count))))
        for turn in range(REPEATS):
            times = []
            for work in (bare_loop, through_engine):
                place = (Path(folder) / f"store {turn}",) if work is through_engine else ()
                start = time.perf_counter()
                work(model, images["image"], *place)
                times.append(time.perf_counter() - start)
            ratios.append(times[1] / times[0])
            print(f"bare {times[0]:.2f} s, engine {times[1]:.2f} s, ratio {ratios[-1]:.3f}")
    print(f"extraction, {count} images, engine / bare: median {statistics.median(ratios):.3f}")


def peak_memory(count: int) -> None:
    """Print this process's peak memory in MB after extracting `count` images."""
    with tempfile.TemporaryDirectory() as folder:
        images = image_folder(root=make_images(Path(folder) / "images", count)).splits["test"]
        through_engine(make_model(), images["image"], Path(folder) / "store")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare_memory(count: int) -> None:
    """Print the peak memory of a process for some images and for four times as many."""
    peaks = []
    for n in (count, 4 * count):
        command = [sys.executable, __file__, "memory", str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
    print(f"peak memory: {count} images {peaks[0]:.0f} MB, {4 * count} images {peaks[1]:.0f} MB")


def count_passes(count: int) -> None:
    """Print how many images two probes passed through the model, and how many there are."""

    class Counting:
        """Counts what passes through it."""

        fingerprint = "counting"
        passed = 0

        def preprocess(self, image: Image.Image) -> torch.Tensor:
            return torch.from_numpy(np.array(image.resize((8, 8)))).permute(2, 0, 1) / 255

        def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
            Counting.passed += len(pixels)
            return pixels.flatten(1)

    with tempfile.TemporaryDirectory() as folder:
        root = make_images(Path(folder) / "images", count)
        for probe, params, at in (
            ("few_shot", "{shots: [1], trials: 2}", "{metric: accuracy, at: {shots: 1}}"),
            ("clustering", "{}", "{metric: accuracy}"),
        ):
            task = Path(folder) / "tasks" / f"{probe}.yaml"
            task.parent.mkdir(exist_ok=True)
            task.write_text(
                f"version: 1\nprobe: {probe}\nparams: {params}\nprimary: {at}\ndata:\n"
                f"  loader: 'vlbench.data.image_folder:image_folder'\n  root: {root}\n"
            )
        vlbench.evaluate(Counting(), ["few_shot", "clustering"], include_path=[Path(folder)])
    print(f"two probes: {Counting.passed} images passed, {count + 20} distinct images")


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        peak_memory(int(sys.argv[2]))
    else:
        images = int(sys.argv[1]) if sys.argv[1:] else 96
        compare_speed(images)
        compare_memory(MEMORY_IMAGES)
        count_passes(images)
