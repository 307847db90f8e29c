"""A dozen models by their libraries' names see and give what the bare libraries do.

Each release draws another dozen. `DRAWN_FOR=0.3.0 pytest --nightly -m nightly` and this file test
those of another release, and `DRAWN_FOR=all` every name of the pools.
"""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from bare_libraries import POOLS
from PIL import Image
from tiny_joint import CPU, adapter

from vlbench.catalog.library_names import library_model
from vlbench.data.images import read_image

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.nightly


def release():
    """Return what CITATION.cff says of the newest release: its date, or its version without one."""
    stated = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    return str(stated.get("date-released", stated["version"]))


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
