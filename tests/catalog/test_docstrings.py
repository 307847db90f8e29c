"""Every parameter that YAML or --model-args fills has a line in the docstring, in its order."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from vlbench.catalog.docstrings import split_args
from vlbench.commands.ls import list_things
from vlbench.schema import parameters

BY_THE_RUN = {"model", "data", "engine", "device", "dtype"}
BY_THE_RUN |= {"cache_dir", "download", "wanted_splits"}


def functions():
    """Yield each shipped probe and loader, with its docstring and its parameters."""
    for row in [*list_things("probes", []), *list_things("data", [])]:
        module, _, name = row["name"].partition(":")
        yield row["name"], row["docstring"], parameters(getattr(import_module(module), name))


def adapters():
    """Yield each class of model_adapters whose `__init__` takes keywords only, as adapters do."""
    for file in sorted((Path(__file__).resolve().parents[2] / "model_adapters").glob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for made in node.body if isinstance(node, ast.ClassDef) else ():
                if getattr(made, "name", "") == "__init__" and len(made.args.args) == 1:
                    names = [one.arg for one in made.args.kwonlyargs]
                    yield f"{file.stem}:{node.name}", ast.get_docstring(node), names


def test_every_parameter_has_its_line_in_its_order():
    documented = [*functions(), *adapters()]
    assert len(documented) > 90
    for name, docstring, names in documented:
        wanted = [one for one in names if one not in BY_THE_RUN]
        assert [*split_args(docstring)[1]] == wanted, name


TEXT = """Return scores.

    Raises ValueError.

    Args:
        shots: examples of each class,
            1 or more.
        seed: draws them.

    Returns:
        float: the mean.
    """


def test_a_docstring_is_split_into_prose_and_parameters():
    prose, texts = split_args(TEXT)
    assert prose == "Return scores.\n\nRaises ValueError.\n\nReturns:\n    float: the mean."
    assert texts == {"shots": "examples of each class, 1 or more.", "seed": "draws them."}


@pytest.mark.parametrize("docstring", [None, "", "Return scores."])
def test_a_docstring_without_parameters_is_prose(docstring):
    assert split_args(docstring) == (docstring or "", {})
