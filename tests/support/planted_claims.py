"""A catalog with planted tasks, models and claims, for the tests of what judges claims."""

from pathlib import Path

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.claims import load_claims
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.strict_yaml import Document

NOWHERE = Document(Path("a.yaml"), {}, {})


def task(name="t", **rest):
    return TaskSpec(name, Path(), NOWHERE, **rest)


def model(name, **rest):
    return ModelSpec(name, Path(), NOWHERE, **rest)


def catalog(*tasks, models=()):
    return Catalog({one.name: one for one in tasks}, {one.name: one for one in models})


def claims(folder, text, name="ours"):
    """Return the claims of a YAML text, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(text)
    (spec,) = load_claims(file, folder)
    return spec


def claim(folder, entry):
    """Return one claim about `accuracy` of the task `t` at five shots."""
    base = "claim: It is so., task: t, metric: accuracy, at: {shots: 5}"
    (only,) = claims(folder, f"claims: [{{{base}, {entry}}}]\n").claims
    return only
