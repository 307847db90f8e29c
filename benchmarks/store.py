"""What the store costs against the forward passes whose results it keeps, in one run.

Run: python benchmarks/store.py [images]. Prints the seconds of clip-rn50's passes (random weights)
and, as shares of them, of writing its features and of reading them again.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch
from extraction import BATCH, CPU, make_images, make_model

from vlbench.data.image_folder import image_folder
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.fingerprints import identified
from vlbench.engine.store import Store


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


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 128)
