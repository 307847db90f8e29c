"""A dozen models by their libraries' names see and give what the bare libraries do.

Each release draws another dozen. `DRAWN_FOR=TEXT pytest --nightly -m nightly` with this file draws
by any other text, and `DRAWN_FOR=all` takes every name of the pools.
"""

import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from bare_libraries import POOLS
from PIL import Image
from tiny_joint import CPU, adapter

from vlbench.catalog.library_names import library_model
from vlbench.data.images import read_image

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.nightly


def release():
    """Return the heading of the newest release in CHANGELOG.md, its version and its date.

    CONTRIBUTING.md asks that a release dates its heading. That of 0.1.0 has no date.
    """
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    return next(one for one in headings if "unreleased" not in one)


def drawn(seed):
    """Return the pools and names that a release draws, a dozen."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    dozen = [
        (pool, name)
        for pool, (names, count, _) in POOLS.items()
        for name in (names if seed == "all" else rng.sample(names, count))
    ]
    assert seed == "all" or len(dozen) == 12
    return dozen


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pictures that are not square: in colour, grey, with an alpha channel, and of a palette."""
    folder = tmp_path_factory.mktemp("pictures")
    noise = np.random.default_rng(0)
    smooth = noise.integers(0, 256, (9, 7, 4), np.uint8)
    whole = Image.fromarray(smooth).resize((301, 187), Image.Resampling.BICUBIC)
    grain = Image.fromarray(noise.integers(0, 256, (333, 120, 3), np.uint8))
    palette = whole.resize((61, 70)).convert("RGB").quantize(17)
    for name, image in {
        "colour.png": grain,
        "grey.png": whole.convert("L").rotate(90, expand=True),
        "alpha.png": whole,
        "palette.png": palette,
    }.items():
        image.save(folder / name, **({"transparency": 3} if name == "palette.png" else {}))
    return sorted(folder.iterdir())


@pytest.mark.parametrize(
    ("pool", "name"),
    [pytest.param(*one, id="-".join(one)) for one in drawn(os.environ.get("DRAWN_FOR", release()))],
)
@torch.no_grad()
def test_pixels_and_vectors_are_the_librarys(pool, name, files, tmp_path):
    bare = POOLS[pool][2](name, tmp_path)
    spec = library_model(bare.name, bare.given)
    model = adapter(spec.adapter)(device=CPU, **spec.params | bare.given)
    images = [bare.read(str(file)) for file in files]
    pixels = torch.stack([model.preprocess(read_image(file.parent, file.name)) for file in files])
    expected = torch.stack([bare.pixels(image) for image in images])
    torch.testing.assert_close(pixels, expected, rtol=0, atol=bare.apart)
    vectors = bare.features(images)
    apart = 1e-5 * vectors.abs().max().clamp_min(1).item()
    torch.testing.assert_close(model.encode_images(pixels), vectors, rtol=1e-5, atol=apart)
    # A test on vectors that are all alike would see no fault.
    assert vectors.isfinite().all()
    assert vectors.std(0).max() > 1e-3
