"""The table of a split: its digests are known at once, its rows are drawn when first read.

pinned.json contains the digest of each column for seed 0 of this VERSION, and the versions of the
libraries that drew it. `scripts/pin_scenes.py` writes it.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from vlbench.data.presence import begin_reading
from vlbench.data.scenes.rows import places, row
from vlbench.data.scenes.storage import damaged, open_rows, read_digests, write_once
from vlbench.data.scenes.world import VERSION
from vlbench.data.tables import Row, Table
from vlbench.errors import DataError
from vlbench.system.files import default_cache

LOGGER = logging.getLogger(__name__)

PINNED = Path(__file__).with_name("pinned.json")

# Seconds between two progress messages.
REPORT_EVERY = 15.0

# The most processes that draw at the same time; the rows that each sends together; and the number
# of such parts that it may be ahead, so that none waits while rows are stored.
MOST_PROCESSES, TOGETHER, AHEAD = 8, 16, 16

Draw = Callable[[], Iterable[tuple[Row, str]]]


def world_table(configuration: str, split: str, seed: int, cache_dir: Path | None = None) -> Table:
    """Return a split of `objects` or `scenes`, stored in a cache folder (None: the default).

    The digests are those of the stored table. If nothing is stored, they are the pinned digests,
    and the rows are drawn when the first value is read; rows without pinned digests are drawn now.
    """
    begin_reading()
    name = f"{configuration}-{split}"
    folder = (cache_dir or default_cache()) / "scenes" / f"{VERSION}-{seed}-{name}"
    draw = partial(draw_rows, configuration, split, seed)
    digests = read_digests(folder) or pinned_digests(name, seed)
    digests = digests or write_once(folder, draw)
    length = len(places(configuration)[split])
    return Table(partial(_draw_once, folder, draw, digests, length), length, digests)


def draw_rows(configuration: str, split: str, seed: int) -> Iterator[tuple[Row, str]]:
    """Yield every row of a split with the digest of its image, and log the progress."""
    numbers, start = places(configuration)[split], time.monotonic()
    count, reported = len(numbers), -math.inf
    for done, drawn in enumerate(_side_by_side(partial(row, configuration, seed), numbers)):
        if (now := time.monotonic()) - reported >= REPORT_EVERY:
            left = f", {(now - start) / done * (count - done):.0f} s left" if done else ""
            of = f"{done} of {count} images{left}"
            LOGGER.info("drawing %s, %s, once: %s", configuration, split, of)
            reported = now
        yield drawn


def _side_by_side(
    draw: Callable[[int], tuple[Row, str]], numbers: Sequence[int]
) -> Iterator[tuple[Row, str]]:
    """Yield the results of `draw` for each number, in order, with one process per core."""
    # If processes are not forked, as on macOS, each would import the user's program again.
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    # A loader's process, which loads images for another process, may not start any.
    if cores == 1 or multiprocessing.current_process().daemon:
        yield from map(draw, numbers)
        return
    import torch  # noqa: PLC0415 - takes a second
    from torch.utils.data import DataLoader  # noqa: PLC0415 - as above

    parts = [numbers[first : first + TOGETHER] for first in range(0, len(numbers), TOGETHER)]
    drawings: Any = _Drawings(draw, parts)
    for drawn in DataLoader(
        drawings,
        batch_size=None,
        collate_fn=tuple,  # unchanged; the default function makes lists
        num_workers=min(MOST_PROCESSES, cores),
        prefetch_factor=AHEAD,
        multiprocessing_context="fork",
        generator=torch.Generator(),  # separate: torch's global generator must not change
    ):
        yield from drawn


@dataclass(frozen=True)
class _Drawings:
    """A data set of drawings, some at a time, for torch's DataLoader."""

    draw: Callable[[int], tuple[Row, str]]
    parts: Sequence[Sequence[int]]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, place: int) -> list[tuple[Row, str]]:
        return [self.draw(i) for i in self.parts[place]]


def _draw_once(folder: Path, draw: Draw, promised: Mapping[str, str], length: int) -> Any:
    """Return the rows of a folder, drawn first if absent.

    Raises DataError if their digests are not the promised digests. The rows stay in the cache, so
    the next run takes their digests.
    """
    digests = write_once(folder, draw)
    different = [name for name, promise in promised.items() if digests.get(name) != promise]
    if different:
        versions = ", ".join(f"{name} {version}" for name, version in drawn_with().items())
        raise DataError(
            f"scenes/{folder.name}: {', '.join(different)} drawn with {versions} differ from the "
            "pinned digests; run the command again to use the new digests"
        )
    rows = open_rows(folder)
    if rows.num_rows != length:
        # Arrow does not notice a file that is cut between two batches.
        raise damaged(folder, IndexError(length))
    return rows


def pinned_digests(name: str, seed: int) -> dict[str, str] | None:
    """Return the digest of each column of a split, such as `objects-test`.

    None for another version or seed, or if other versions of libraries are installed: their
    drawings may differ.
    """
    pinned = json.loads(PINNED.read_text("utf-8"))
    if (pinned["version"], pinned["seed"], pinned["drawn_with"]) != (VERSION, seed, drawn_with()):
        return None
    digests: dict[str, str] | None = pinned["digests"].get(name)
    return digests


def drawn_with() -> dict[str, str]:
    """Return the installed versions of what determines the content of a drawing."""
    return {
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        # Sines and cosines are rounded otherwise on other processors.
        "machine": platform.machine(),
    }
