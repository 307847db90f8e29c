"""Measure what the store takes to write and to read features, as a ratio to numpy's own files.

20,000 features of width 512, in the shards of a run; CPU seconds. The targets are 3 and 2.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from measuring import Against, compare

from vlbench.engine.shards import SHARD
from vlbench.engine.store import Store

KEY = "sha256:" + "0" * 64
ROWS, WIDTH, ROUNDS = 20_000, 512, 10


def main() -> None:
    """Compare writing, then reading."""
    features = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    parts = [part.clone() for part in features.split(SHARD)]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))

        def save(number: int) -> None:
            rows = torch.arange(len(parts[number]))
            store.save(KEY, str(number), {"rows": rows, "values": parts[number]})

        def np_save(number: int) -> None:
            np.save(Path(folder, f"{number}.npy"), parts[number].numpy())

        def each(job: Callable[[int], object]) -> None:
            for number in range(len(parts)):
                job(number)

        sides = {
            Against("writing features", "np.save", 3): (save, np_save),
            Against("reading features", "np.load", 2): (
                lambda number: store.load(KEY, str(number)),
                lambda number: np.load(Path(folder, f"{number}.npy")),
            ),
        }
        for named, (ours, bare) in sides.items():
            compare(named, partial(each, ours), partial(each, bare), ROUNDS)


if __name__ == "__main__":
    main()
