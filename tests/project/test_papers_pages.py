"""docs/papers/ and the README's number of measured values, as scripts/papers.py makes them."""

import importlib
import re
from pathlib import Path

import pytest

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.catalog.strict_yaml import load_yaml


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
        yield importlib.import_module("papers")


def test_each_paper_has_its_page_and_it_is_up_to_date(script):
    pages = script.pages()
    assert {f"{name}.md" for name in load_all_findings(load_catalog())} == set(pages)
    for name, text in pages.items():
        assert (script.PAGES / name).read_text("utf-8") == text, "run scripts/papers.py"


def test_a_page_has_each_table_and_figure_of_its_paper(script):
    printed = load_yaml(script.PRINTED).values
    labels = {name: [one["where"] for one in entries] for name, entries in printed.items()}
    for name, tables, figures in (
        ("vsep", 6, 5),
        ("captions", 7, 4),
        ("visualbert", 7, 5),
        ("generalization", 0, 10),
    ):
        numbered = [("Table", tables), ("Figure", figures)]
        assert labels[name] == [f"{kind} {i + 1}" for kind, count in numbered for i in range(count)]
    for entries in printed.values():
        assert all(("tasks" in one) != ("why_not" in one) for one in entries)


def test_a_page_has_the_tables_that_published_values_and_findings_are_of(script):
    catalog = load_catalog()
    for name, paper in load_all_findings(catalog).items():
        cited = {finding.where.partition(";")[0] for finding in paper.findings}
        cited |= {
            one.given["where"].partition(",")[0]
            for one in script.reproduce(paper, catalog, script.BOARDS).references
            if one.source == paper.paper
        }
        text = script.pages()[f"{name}.md"]
        wanted = [one for one in cited if re.match(r"(Table|Figure) ", one)]
        assert [one for one in wanted if f"\n| {one} | " not in text] == []


def test_a_page_says_what_is_run_and_why_a_table_is_not_repeated(script):
    generalization, visualbert = (
        script.pages()[f"{n}.md"] for n in ("generalization", "visualbert")
    )
    run = "run: `few_shot_fashion_mnist`; on other data: `few_shot_scenes` |"
    assert f"| `few_shot_six` | {run}" in generalization
    assert "| Table 3 | accuracy on VQA | - | not repeated: no task fine-tunes" in visualbert
    assert "| not run; 0 of 20 published values measured |" in visualbert


def test_the_readme_says_how_many_published_values_are_measured(script):
    text = script.README.read_text("utf-8")
    assert script.with_number(text) == text, "run scripts/papers.py"
    assert "None of the papers' 180 published values is measured here" in text
    assert ", and 4 of 17 of other sources;" in text
    assert script.measured(load_catalog()) == ((180, 0), (17, 4))


def test_values_of_other_sources_stand_apart_from_those_of_the_paper(script):
    page = script.pages()["generalization.md"]
    assert "## Published and measured\n" not in page
    assert "## Published and measured elsewhere: VNN-COMP 2021\n" in page


def test_a_page_has_the_published_values_ours_and_the_departures(script):
    text = script.pages()["generalization.md"]
    assert "| `robustness_cifar10_200` | `resnet20-cifar10` | clean_accuracy |" in text
    assert "| 91.8 % | 92.5 % |" in text
    assert "- `robustness_imagenet_200`: a fifth of the images, and only in L2." in text
