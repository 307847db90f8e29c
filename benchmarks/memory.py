"""How memory grows with the number of images, as loaded, extracted, and shown by `vlbench data`.

Run: python benchmarks/memory.py [images [SOURCE ...]], sources being shards, hub and table. Prints
the most memory that a process of its own takes for so many images (100,000 by default), PNGs of
64 x 64 random pixels, and for a tenth of them, and by how many bytes per image the two differ.
Whoever holds images holds 12 kB of each, encoded or not; digests, names and features take a
fraction of that. Pages of memory-mapped files, which the system takes back as it likes, are counted
apart.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

CPU = torch.device("cpu")
CLASSES, SHARD, SIDE = 10, 1000, 64
SOURCES = ("shards", "hub", "table")
WAYS = ("extraction", "vlbench data")
TASK = """\
version: 1
probe: clustering
data: {data}
primary: {{metric: accuracy}}
"""
DATA = {
    "shards": {"loader": "vlbench.data.webdataset:images", "splits": {"test": "test"}},
    "hub": {
        "loader": "vlbench.data.hub:images",
        "repository": "a/b",
        "revision": "c",
        "splits": {"test": "test"},
    },
    "table": {"loader": "vlbench.data.table:images", "test": "test.csv"},
}


class MeanColour:
    """Encodes an image as the mean of each colour."""

    fingerprint = "mean colour"

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """Return float32 [3, H, W]."""
        return torch.from_numpy(np.asarray(image).transpose(2, 0, 1) / np.float32(255))

    def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return float32 [N, 3]."""
        return pixels.mean((2, 3))


def encoded(count: int) -> Iterator[bytes]:
    """Yield PNGs."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        stored = io.BytesIO()
        pixels = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
        Image.fromarray(pixels).save(stored, "PNG", compress_level=0)
        yield stored.getvalue()


def put_shards(root: Path, count: int) -> None:
    """Write shards of a thousand images each."""
    (root / "test").mkdir()
    names = "".join(f"class {i}\n" for i in range(CLASSES))
    (root / "classnames.txt").write_text(names)
    (root / "test" / "nshards.txt").write_text(str(-(-count // SHARD)))
    images = enumerate(encoded(count))
    for number in range(-(-count // SHARD)):
        with tarfile.open(root / "test" / f"{number}.tar", "w") as archive:
            for i, image in (next(images) for _ in range(min(SHARD, count - number * SHARD))):
                for suffix, content in (("png", image), ("cls", str(i % CLASSES).encode())):
                    info = tarfile.TarInfo(f"s{i:07}.{suffix}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))


def put_hub(root: Path, count: int) -> None:
    """Write parquet in the hub's layout."""
    import datasets  # noqa: PLC0415 - for this source alone

    names = [f"class {i}" for i in range(CLASSES)]
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}
    datasets.disable_progress_bars()
    images = enumerate(encoded(count))
    parts = -(-count // SHARD)
    for part in range(parts):
        own = [next(images) for _ in range(min(SHARD, count - part * SHARD))]
        cells = [{"bytes": image, "path": None} for _, image in own]
        rows = {"image": cells, "label": [i % CLASSES for i, _ in own]}
        table = datasets.Dataset.from_dict(rows, datasets.Features(features))
        table.to_parquet(root / f"test-{part:05}-of-{parts:05}.parquet")


def put_table(root: Path, count: int) -> None:
    """Write a CSV table and its images."""
    lines = ["image,label"]
    for i, image in enumerate(encoded(count)):
        file = root / f"{i // SHARD}" / f"{i}.png"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(image)
        lines.append(f"{file.parent.name}/{file.name},class {i % CLASSES}")
    (root / "test.csv").write_text("\n".join(lines) + "\n")


@contextmanager
def watched() -> Iterator[list[float]]:
    """Yield a list that gets the most memory, in MB, that is not a file's, at the end."""
    most, found, done = 0, [], threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            status = Path("/proc/self/status").read_text()
            most = max(most, int(status.partition("RssAnon:")[2].split()[0]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
        found.append(most / 1024)


def measure(way: str, folder: Path) -> None:
    """Print what one process takes, in MB, and its seconds."""
    from vlbench.cli import main as vlbench  # noqa: PLC0415 - of the process that measures
    from vlbench.code.functions import load_object  # noqa: PLC0415
    from vlbench.engine import Engine  # noqa: PLC0415
    from vlbench.engine.devices import ComputeSettings  # noqa: PLC0415
    from vlbench.engine.store import Store  # noqa: PLC0415

    start = time.perf_counter()
    with watched() as most:
        if way == "extraction":
            data = json.loads((folder / "data.json").read_text())
            arguments = {k: Path(v) if k == "root" else v for k, v in data.items() if k != "loader"}
            arguments |= {"cache_dir": folder / "cache"} if "repository" in data else {}
            split = load_object(data["loader"], [])(**arguments).splits["test"]
            model, store = MeanColour(), Store(folder / "store")
            engine = Engine(ComputeSettings(CPU), store=store, identities={id(model): "mean"})
            engine.features(model.encode_images, split["image"])
        else:
            vlbench(["data", "clustering_mine", "--include-path", str(folder / "ours"), "--json"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.perf_counter() - start
    print("\n" + json.dumps({"own": most[0], "peak": peak, "seconds": seconds}))


def measured(source: str, count: int, folder: Path) -> dict[str, dict[str, float]]:
    """Write so many images, and return what each way takes of memory, in a process of its own."""
    (folder / "images").mkdir()
    {"shards": put_shards, "hub": put_hub, "table": put_table}[source](folder / "images", count)
    data = DATA[source] | {"root": str(folder / "images")}
    (folder / "data.json").write_text(json.dumps(data))
    task = folder / "ours" / "tasks" / "clustering_mine.yaml"
    task.parent.mkdir(parents=True)
    task.write_text(TASK.format(data=json.dumps(data)))
    found = {}
    for way in WAYS:
        command = ["env", f"XDG_CACHE_HOME={folder / 'cache'}", sys.executable, __file__]
        done = subprocess.run(
            [*command, "measure", way, str(folder)], capture_output=True, text=True, check=True
        )
        found[way] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(count: int, sources: list[str]) -> None:
    """Print the memory of both numbers of images, and bytes per image."""
    for source in sources:
        several = []
        for n in (count // 10, count):
            with tempfile.TemporaryDirectory() as folder:
                several.append(measured(source, n, Path(folder)))
        for way in WAYS:
            few, many = (found[way] for found in several)
            own, peak = (
                (many[kind] - few[kind]) * 2**20 / (count - count // 10) for kind in ("own", "peak")
            )
            print(
                f"{source}, {way}: {count // 10:,} images {few['own']:.0f} MB, {count:,} images"
                f" {many['own']:.0f} MB: {own:,.0f} bytes per image ({peak:,.0f} with files), "
                f"{many['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 100_000, sys.argv[2:] or [*SOURCES])
