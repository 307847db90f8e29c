"""How models and their data are called elsewhere.

A model's id is `organisation/name`. Where models.yaml says that the weights are those of a
repository on the hub, it is that repository. Otherwise the organisation is `vlbench`, for a name
that vlbench ships, or `local`, for any other name: then nobody else knows what the name means.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import ModelSpec
from vlbench.data import hub_sets
from vlbench.data.hub_sets import HubSet
from vlbench.results import Result

# "OpenAI's RN50, from timm/resnet50_clip.openai on the hub; MIT"
ON_THE_HUB = re.compile(r"(?:^|\s)([^\W_][\w.-]*/[^\W_][\w.-]*) on the hub\b", re.ASCII)

# The loaders whose rows equal those of a data set on the hub, wherever they read them.
HUB_DATA: Mapping[str, HubSet] = {
    "vlbench.data.cifar:cifar10": hub_sets.CIFAR10,
    "vlbench.data.cifar:cifar100": hub_sets.CIFAR100,
    "vlbench.data.mnist:mnist": hub_sets.MNIST,
    "vlbench.data.mnist:fashion_mnist": hub_sets.FASHION_MNIST,
    "vlbench.data.svhn:svhn": hub_sets.SVHN,
}


def model_id(name: str, models: Mapping[str, ModelSpec]) -> str:
    """Return the id of a row's model: `organisation/name`, which is also a path of two folders."""
    spec = models.get(name)
    found = ON_THE_HUB.search(spec.weights) if spec else None
    if found:
        return found[1]
    shipped = spec is not None and spec.source == shipped_source()
    return f"{'vlbench' if shipped else 'local'}/{_plain(name)}"


def loader_of(row: Result) -> str:
    """Return the name of the loader that read a row's data; `unknown` where the row lacks it."""
    return next(iter(str(row.provenance.get("data", "")).split()), "unknown")


def hub_set(row: Result) -> HubSet | None:
    """Return the data set of a row on the hub; None where it has none."""
    return HUB_DATA.get(loader_of(row))


def _plain(name: str) -> str:
    """Return a name in the letters of ids; a changed one ends in a digest of the original."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
