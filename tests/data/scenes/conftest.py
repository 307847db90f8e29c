"""Drawings that the tests of this folder share: a sample, and the whole world where it is slow."""

import pytest
from drawn_sample import sample_table, small_world

from vlbench.data.scenes import loaders

__all__ = ["small_world"]

WHOLE = ["objects", "scenes"]


@pytest.fixture(scope="session")
def sample(scenes_cache):
    return sample_table(scenes_cache / "sample")


@pytest.fixture(scope="session")
def sample_rows(sample):
    """Every row of the sample, columns by name."""
    return {name: column.stored for name, column in loaders._columns(sample).items()}


@pytest.fixture(scope="session")
def world(scenes_cache):
    """All configurations; each is drawn once for all tests when it is read, in half a minute."""
    cache = scenes_cache / "vlbench"
    return {
        "objects": loaders.objects(cache_dir=cache),
        "scenes": loaders.scenes(cache_dir=cache),
        "fine": loaders.objects(fine=True, cache_dir=cache),
        "objects-seen": loaders.objects(things="seen", cache_dir=cache),
        "scenes-seen": loaders.scenes(things="seen", cache_dir=cache),
    }


@pytest.fixture(scope="session", params=["sample", *WHOLE], name="rows")
def rows_of_each(request):
    """Every row of the sample, and of each whole configuration; columns by name."""
    if request.param == "sample":
        return request.getfixturevalue("sample_rows")
    split = request.getfixturevalue("world")[request.param].splits["train"]
    return {name: column.stored for name, column in split.columns.items()}
