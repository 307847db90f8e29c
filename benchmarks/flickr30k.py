"""Measure how long Flickr30k Entities takes to parse: its test split, and all of it on one core.

python benchmarks/flickr30k.py ARCHIVE_OR_FOLDER: the folder with Sentences and Annotations, or an
archive of it, which is unpacked first, unmeasured. The target is a minute for all 31,783 images.
"""

import sys
import tarfile
import tempfile
import time
from pathlib import Path

from vlbench.data.flickr30k import EXPECTED, SCHEMA, read_rows
from vlbench.data.tables import in_memory


def main() -> None:
    """Print seconds, of the wall and of the processor, and the size of what is kept."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        if source.is_file():
            with tarfile.open(source) as packed:
                packed.extractall(folder, filter="data")
            source = next(Path(folder).glob("*/Sentences")).parent
        if not (source / "Sentences").is_dir():
            sys.exit(f"needs Flickr30k Entities: there is no folder {source / 'Sentences'}")
        ids = sorted(file.stem for file in (source / "Sentences").iterdir())
        for names in (ids[: EXPECTED["test"]], ids):
            wall, processor = time.perf_counter(), time.process_time()
            table = in_memory(read_rows(source, names), SCHEMA)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            kept = f"{table.rows.nbytes / 2**20:.0f} MiB kept"
            print(f"{len(names):,} images: {wall:.1f} s, {processor:.1f} s of one core, {kept}")


if __name__ == "__main__":
    main()
