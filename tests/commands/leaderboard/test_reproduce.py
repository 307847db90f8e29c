import io
import re
from argparse import Namespace
from pathlib import Path

import pytest
from planted_boards import board, result, score, write
from rich.console import Console
from sources import make_source
from sources import write as write_text

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.commands.leaderboard.reproduce import answer
from vlbench.errors import counted

SHIPPED = Path(__file__).parents[3] / "leaderboards"
PAPERS = {name: one for name, one in load_all_findings(load_catalog()).items() if one.paper}

FINDINGS = """\
findings:
  - finding: Robust training costs accuracy.
    task: few_shot_digits
    metric: accuracy
    at: {shots: 5}
    greater: [{model: tiny-rn}, {model: tiny-rn-robust}]
"""


def told(paper, output, include=(), width=120, style=None):
    options = {"paper": paper, "output": output, "include_path": list(include), "format": style}
    shown = answer(Namespace(**options)).shown
    console = Console(record=True, width=width, file=io.StringIO())
    for part in shown:
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))
    return console.export_text()


# What the shipped boards have of a paper's tasks: values that other sources published.
ELSEWHERE = [
    "MadryLab/robustness: 0 of 12 published values measured",
    "VNN-COMP 2021: 3 of 3 published values measured",
    "akamaster/pytorch_resnet_cifar10: 1 of 1 published values measured",
    "arXiv:2103.00020, section 3.1: 0 of 1 published values measured",
]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_the_shipped_boards_lack_of_a_paper_is_told(paper):
    text = told(paper, SHIPPED)
    assert f"{counted(len(PAPERS[paper].findings), 'finding')}\n" in text
    measured = [line for line in text.split("\n") if re.search("^measured: | measured$", line)]
    assert measured == {"generalization": ELSEWHERE}.get(paper, [])


def test_without_a_name_each_paper_has_a_line_of_what_was_not_measured():
    assert told("", SHIPPED).count("\nnot measured: ") == len(PAPERS)


@pytest.fixture
def mine(tmp_path):
    """A source with a hypothesis of one's own, and a board of digits to judge it by."""
    source = make_source(tmp_path / "ours")
    write_text(source / "tasks" / "findings" / "mine.yaml", FINDINGS)
    about = {"task": "few_shot_digits", "version": load_catalog().tasks["few_shot_digits"].version}
    rows = [
        result(name, score(value, ci95=(value - 0.01, value + 0.01)), **about)
        for name, value in (("tiny-rn", 0.9), ("tiny-rn-robust", 0.8))
    ]
    write(tmp_path / "boards", board(*rows, **about))
    return source, tmp_path / "boards"


def test_ones_own_hypothesis_is_judged(mine):
    source, boards = mine
    text = told("mine", boards, [source], width=200)
    assert "supported" in text
    assert "tiny-rn 90.0 %, tiny-rn-robust 80.0 %" in text


def test_planted_rows_support_a_paper_and_are_held_against_its_numbers(tmp_path):
    name, at = "patch_retrieval_coco", {"k": 1}
    version = load_catalog().tasks[name].version
    own = [score(0.05, "recall", at={"k": k}, stderr=0.001, chance=0.01) for k in (1, 5)]
    row = result("bert-base-uncased", *own, task=name, version=version)
    primary = {"metric": "recall", "at": at}
    write(tmp_path, board(row, task=name, version=version, primary=primary))
    text = told("vsep", tmp_path, width=250)
    assert "+0.2 points (+1.5 standard errors)" in text
    assert "BERT's words find their own region among others" in text
    assert "supported" in text


FORMATS = [
    ("md", ["| finding | model | verdict | by |", "Robust training costs accuracy."]),
    ("tex", [r"\begin{tabular}{llll}", "tiny-rn-robust"]),
    ("csv", ["paper,finding,where", "Robust training costs accuracy."]),
]


@pytest.mark.parametrize(("style", "parts"), FORMATS)
def test_the_same_table_comes_in_other_formats(mine, style, parts):
    source, boards = mine
    text = told("mine", boards, [source], style=style)
    assert all(part in text for part in parts)
