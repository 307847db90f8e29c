"""Speeds of what reads and writes files, against numpy and a plain walk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from measuring import Pair
from PIL import Image

from vlbench.data.image_folder import image_folder
from vlbench.engine.shards import SHARD
from vlbench.engine.store import Store
from vlbench.system.digests import remembered_in

# Only files that did not change lately are remembered.
LONG_AGO = 1_000_000_000


def store(*, rows: int = 20_000, width: int = 512) -> Iterator[Pair]:
    """Compare what the store takes to write and to read features with numpy's own files."""
    key = "sha256:" + "0" * 64
    features = torch.rand(rows, width, generator=torch.Generator().manual_seed(0))
    parts = [part.clone() for part in features.split(SHARD)]
    with tempfile.TemporaryDirectory() as folder:
        kept = Store(Path(folder))

        def save(i: int) -> object:
            return kept.save(key, str(i), {"rows": torch.arange(len(parts[i])), "values": parts[i]})

        def load(i: int) -> object:
            return kept.load(key, str(i))

        def np_save(i: int) -> None:
            np.save(Path(folder, f"{i}.npy"), parts[i].numpy())

        def np_load(i: int) -> object:
            return np.load(Path(folder, f"{i}.npy"))

        def each(job: Callable[[int], object]) -> Callable[[], object]:
            return lambda: [job(i) for i in range(len(parts))]

        yield Pair("writing features", "np.save", each(save), each(np_save), 3, rounds=10)
        yield Pair("reading features", "np.load", each(load), each(np_load), 2, rounds=10)


def plan(*, images: int = 22_000) -> Iterator[Pair]:
    """Compare a plan, which knows the digests of all files, with one os.stat of each file."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "images"
        for i in range(images):
            file = root / "test" / f"class{i % 100:03d}" / f"{i:07d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.frombuffer(i.to_bytes(4, "big") * 48, np.uint8)
            Image.fromarray(pixels.reshape(8, 8, 3)).save(file)
            os.utime(file, (LONG_AGO, LONG_AGO))

        def walk() -> None:
            for place, _, names in os.walk(root):
                for name in names:
                    os.stat(f"{place}/{name}")  # noqa: PTH116 - the floor

        with remembered_in(Path(folder) / "digests.sqlite"):

            def plan_of_known() -> str:
                return image_folder(root=root).digest()

            plan_of_known()
            yield Pair(f"plan of {images:,} known files", "os.stat of each", plan_of_known, walk, 5)
