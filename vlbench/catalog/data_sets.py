"""The data sets of the shipped loaders: size, licence, and access."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from vlbench.catalog.sources import PACKAGE
from vlbench.catalog.strict_yaml import load_yaml
from vlbench.schema import read


class DataSet(NamedTuple):
    """A data set: gigabytes to download, images, licence, who has access and how, and BibTeX."""

    name: str
    gigabytes: float
    images: int
    licence: str
    access: str
    bibtex: str


def is_drawn_by(loader: str) -> bool:
    """Return whether a loader's data are drawn by vlbench."""
    return loader.startswith("vlbench.data.scenes")


@cache
def data_sets() -> Mapping[str, DataSet]:
    """Return the data sets by the names of their loaders. Raises SpecError for a broken file."""
    values = load_yaml(PACKAGE / "data" / "data_sets.yaml").values
    return {str(name): read(DataSet, entry) for name, entry in values.items()}
