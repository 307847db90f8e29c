"""A catalog with planted tasks, models and findings, for the tests of what judges findings."""

from pathlib import Path

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import load_findings
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.strict_yaml import Document

NOWHERE = Document(Path("a.yaml"), {}, {})


def task(name="t", **rest):
    return TaskSpec(name, Path(), NOWHERE, **rest)


def model(name, **rest):
    return ModelSpec(name, Path(), NOWHERE, **rest)


def catalog(*tasks, models=()):
    return Catalog({one.name: one for one in tasks}, {one.name: one for one in models})


def findings(folder, text, name="ours"):
    """Return the findings of a YAML text, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(text)
    (spec,) = load_findings(file, folder)
    return spec


def finding(folder, entry):
    """Return one finding about `accuracy` of the task `t` at five shots."""
    base = "finding: It is so., task: t, metric: accuracy, at: {shots: 5}"
    (only,) = findings(folder, f"findings: [{{{base}, {entry}}}]\n").findings
    return only
