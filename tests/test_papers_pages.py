"""docs/papers/ and the README's number of measured values, as scripts/papers.py makes them."""

import importlib
from pathlib import Path

import pytest

from vlbench.catalog.catalog import load_all_findings, load_catalog

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("papers")


def test_each_paper_has_its_page_and_it_is_up_to_date(script):
    pages = script.pages()
    assert {f"{name}.md" for name in load_all_findings(load_catalog())} == set(pages)
    for name, text in pages.items():
        assert (script.PAGES / name).read_text("utf-8") == text, "run scripts/papers.py"


def test_the_readme_says_how_many_published_values_are_measured(script):
    text = script.README.read_text("utf-8")
    assert script.with_number(text) == text, "run scripts/papers.py"
    assert "Of the papers' 180 published values, none is measured" in text
    assert "; of 17 of other sources, 4 are" in text
    assert script.measured(load_catalog()) == ((180, 0), (17, 4))


def test_values_of_other_sources_stand_apart_from_those_of_the_paper(script):
    page = script.pages()["generalization.md"]
    assert "## Published and measured\n" not in page
    assert "## Published and measured elsewhere: VNN-COMP 2021\n" in page


def test_a_page_has_the_published_values_ours_and_the_departures(script):
    text = script.pages()["generalization.md"]
    assert "| `robustness_cifar10_200` | `resnet20-cifar10` | clean_accuracy |" in text
    assert "| 91.8 % | 92.5 % |" in text
    assert "- `robustness_imagenet_200`: a fifth of the images, and in L2 alone." in text
