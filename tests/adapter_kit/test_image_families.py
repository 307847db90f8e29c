"""Layers of a small network of every family of image models, compared with the tests' hooks.

The ordinary run takes the families whose source mentions special tokens. `-rs` prints why a family
has no small network here.
"""

import inspect
import re

import pytest
import timm
import torch
import transformers
from image_families import NotBuiltError, timm_family, transformers_family, transformers_sources
from tiny_joint import adapter
from token_kinds import IMAGES, expected_vectors
from torchvision.transforms.functional import resize, to_tensor

from vlbench.adapter_kit.layers import HookedLayers
from vlbench.errors import CannotDo

SPECIAL = re.compile(r"(cls|class|dist|reg|register|query)_(token|embedding)")

grid_of, patches_of = adapter("hf_vision:grid_of"), adapter("hf_vision:patches_of")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries


def parameters(sources):
    """Return a parameter per family, nightly if its source mentions no special token."""
    return [
        pytest.param(name, marks=() if SPECIAL.search(source) else pytest.mark.nightly)
        for name, source in sources.items()
    ]


TIMM = parameters(
    {name: inspect.getsource(getattr(timm.models, name)) for name in timm.list_modules()}
)
TRANSFORMERS = parameters(transformers_sources())


def open_layers(family):
    """Return the layers of a network and their names, none if it has no layers."""
    sides = [family.side] * 2
    layers = HookedLayers(family.model, family.encode, lambda one: resize(to_tensor(one), sides))
    try:
        return layers, layers.names[:-1]
    except CannotDo:
        return layers, []


def built(build, name):
    torch.manual_seed(0)
    try:
        return build(name)
    except NotBuiltError as error:
        pytest.skip(f"{name}: {error}")


def check(build, name):
    family = built(build, name)
    layers, names = open_layers(family)
    pixels = torch.rand(IMAGES, 3, family.side, family.side)
    places = [one.rpartition("_")[0] for one in names]
    expected = expected_vectors(family, pixels, [*places, *layers.untold])
    assert not [place for place in layers.untold if expected.pop(place)]
    with torch.no_grad():
        vectors = layers.encode_at(pixels, names) if names else {}
    named = {f"{place}_{kind}": vector for place, (kind, vector) in expected.items()}
    assert {*named} <= {*names}
    for layer, vector in named.items():
        torch.testing.assert_close(vectors[layer], vector.float(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("module", TIMM)
def test_layers_of_timm_are_the_class_token_or_the_mean_of_patches(module):
    check(timm_family, module)


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_layers_of_transformers_are_the_class_token_or_the_mean_of_patches(kind):
    transformers.logging.set_verbosity_error()
    check(transformers_family, kind)


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_a_patch_of_hf_vision_changes_most_if_its_pixels_change(kind):
    transformers.logging.set_verbosity_error()
    family = built(transformers_family, kind)
    side = family.side
    pixels = torch.rand(1, 3, side, side)
    with torch.no_grad():
        states = family.encode(pixels)
        grid = grid_of(states.shape, (side, side), family.model.config)
        if not grid or grid.first is None:
            pytest.skip(f"{kind}: no tokens that form a grid")
        found = 0
        cells = torch.randperm(grid.rows * grid.columns)[:16].tolist()
        for cell in cells:
            row, column = divmod(cell, grid.columns)
            other = pixels.clone()
            tall, wide = side // grid.rows, side // grid.columns
            place = other[..., row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
            place.neg_().add_(1)
            change = patches_of(family.encode(other) - states, grid).norm(dim=1)
            found += int(change.argmax()) == cell
    assert found >= 0.75 * len(cells)
