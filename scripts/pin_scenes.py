"""Draw every configuration of the drawn world and pin the digests of its columns.

Run it after raising VERSION, which also draws `objects` and `scenes` without held-out things.

Run: python scripts/pin_scenes.py [FILE]
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from vlbench.data.scenes import table
from vlbench.data.scenes.rows import CONFIGURATIONS, PAIRED, SEEN, places
from vlbench.data.scenes.storage import write_once
from vlbench.data.scenes.world import VERSION

# Configurations that the shipped tasks use.
SEED = 0


def main(file: Path) -> None:
    """Write the digests of the drawn columns, and the versions they were drawn with."""
    with tempfile.TemporaryDirectory() as folder:
        digests = {
            f"{name}-{split}": write_once(
                Path(folder) / f"{name}-{split}", partial(table.draw_rows, name, split, SEED)
            )
            for name in (*CONFIGURATIONS, *(f"{whole}{SEEN}" for whole in CONFIGURATIONS), PAIRED)
            for split in places(name)
        }
    content = {
        "version": VERSION,
        "seed": SEED,
        "drawn_with": table.drawn_with(),
        "digests": digests,
    }
    file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else table.PINNED)
