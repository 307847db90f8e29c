import csv
from argparse import Namespace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from planted_boards import board, result, score, write
from sources import make_source
from sources import write as write_text

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.leaderboard.findings import answer

SHIPPED = Path(__file__).parents[3] / "leaderboards"

CLAIMS = """\
claims:
  - claim: Five images a class beat guessing.
    for_each: {capability: ImageEncoder, task: [few_shot_digits]}
    metric: accuracy
    at: {shots: 5}
    greater: [{}, {floor: chance}]
"""


@pytest.fixture
def told(tmp_path):
    about = {"task": "few_shot_digits", "version": load_catalog().tasks["few_shot_digits"].version}
    row = result("tiny-rn", score(0.9, ci95=(0.8, 0.95), chance=0.1), **about)
    output = write(tmp_path / "boards", board(row, **about))
    source = make_source(tmp_path / "ours")
    write_text(source / "tasks" / "claims" / "mine.yaml", CLAIMS)

    def tell(form=None, output=output):
        return answer(Namespace(format=form, output=output, include_path=[source]))

    return tell


def test_a_terminal_shows_what_was_judged_and_says_what_was_not(told):
    found = told()
    claim, counts, *more = found.shown[0].split("\n")
    assert claim == "Five images a class beat guessing. [few_shot_digits]"
    assert counts.startswith("  1 supported, ")
    assert more[-1] == "  tiny-rn  supported     +80.0 points (+70.0 to +85.0)"
    assert found.problems[0].startswith("not run of any model: ")
    assert found.code == 0


def test_markdown_is_a_table_that_a_reader_of_it_takes_as_one(told):
    (text,) = told("md").shown
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert [one.type for one in tokens].count("td_open") == 3
    assert text.startswith("**Findings by model**")


def test_latex_has_a_column_for_each(told):
    (text,) = told("tex").shown
    assert r"\begin{tabular}{lll}" in text
    assert "80.0 points" in text


def test_csv_has_a_line_for_each_finding_and_model(told):
    (text,) = told("csv").shown
    rows = list(csv.DictReader(text.splitlines()))
    (ours,) = [row for row in rows if row["source"] == "mine" and row["model"] == "tiny-rn"]
    assert (ours["verdict"], float(ours["value"])) == ("supported", pytest.approx(0.8))
    assert {row["verdict"] for row in rows if row["source"] == "vsep"} == {"not run"}


def test_a_folder_without_boards_has_no_verdict(told, tmp_path):
    found = told(output=tmp_path / "nowhere")
    assert (found.shown, found.code) == ([], 1)


def test_findings_of_each_paper_have_a_verdict_on_the_small_models(told):
    (text,) = told("csv", SHIPPED).shown
    rows = list(csv.DictReader(text.splitlines()))
    judged = {(row["paper"], row["claim"]) for row in rows if row["verdict"] != "not run"}
    papers = [paper for paper, _ in judged if paper]
    assert len(papers) >= 12
    assert len(set(papers)) == 5
    assert len(judged) > len(papers)
