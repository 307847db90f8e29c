"""Public formulas have an example, and the examples of all docstrings are true."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import vlbench

ROOT = Path(vlbench.__file__).parent


def name_of(file):
    return ".".join(("vlbench", *file.relative_to(ROOT).with_suffix("").parts))


FORMULAS = ["vlbench.api", *map(name_of, sorted((ROOT / "metrics").glob("[!_]*.py")))]
WITH_EXAMPLES = [
    name_of(file) for file in sorted(ROOT.rglob("*.py")) if ">>> " in file.read_text("utf-8")
]

# Public functions of these modules without an example, by the reason.
EXEMPT = {
    "starts Java, or finds the files that it needs": [
        "vlbench.metrics.captions:require_installed",
        "vlbench.metrics.captions:treebank_words",
        "vlbench.metrics.java:coco_caption",
        "vlbench.metrics.java:find_java",
        "vlbench.metrics.java:find_spice",
        "vlbench.metrics.java:jar",
        "vlbench.metrics.java:run_java",
        "vlbench.metrics.java:spice",
    ],
    "filters, renames or joins tables, and computes nothing": [
        "vlbench.metrics.items:has_items",
        "vlbench.metrics.items:items_as",
        "vlbench.metrics.items:join_items",
        "vlbench.metrics.items:of_score",
        "vlbench.metrics.items:options_among",
        "vlbench.metrics.items:outcome_of",
        "vlbench.metrics.items:under",
        "vlbench.metrics.ranking:join_choices",
        "vlbench.metrics.ranking:join_ranks",
        "vlbench.metrics.scores:by_category",
        "vlbench.metrics.scores:measure_items",
        "vlbench.metrics.scores:scored",
        "vlbench.metrics.scores:subset",
    ],
    "needs a model, boards or the catalog; the notebooks of the site show it": [
        "vlbench.api:compare",
        "vlbench.api:evaluate",
        "vlbench.api:extract_features",
        "vlbench.api:extract_rdm",
        "vlbench.api:features",
        "vlbench.api:item_viewer",
        "vlbench.api:list_models",
        "vlbench.api:list_tasks",
        "vlbench.api:load",
        "vlbench.api:load_model",
        "vlbench.api:loaded",
        "vlbench.api:measure_similarity",
        "vlbench.api:rdm",
    ],
}


def public_functions(module):
    """Return whether each public function that a module defines has an example, by its name."""
    members = vars(import_module(module)).items()
    functions = {name: one for name, one in members if inspect.isfunction(one)}
    return {
        f"{module}:{name}": ">>> " in (one.__doc__ or "")
        for name, one in functions.items()
        if one.__module__ == module and not name.startswith("_")
    }


def test_every_public_formula_has_an_example_unless_it_is_exempt():
    functions = [item for module in FORMULAS for item in public_functions(module).items()]
    without = sorted(name for name, has_example in functions if not has_example)
    assert without == sorted(name for names in EXEMPT.values() for name in names)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_are_true(module):
    results = doctest.testmod(import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
