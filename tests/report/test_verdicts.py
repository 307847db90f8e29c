"""Scores that are neither better if higher nor if lower, and their verdicts, in every view."""

from dataclasses import replace
from pkgutil import iter_modules

import pytest
from planted_boards import PRIMARY, board, measured, score, write

from vlbench.api import Results
from vlbench.cli import main
from vlbench.commands.leaderboard.export import PIVOTS
from vlbench.report import export
from vlbench.report.rows import cost
from vlbench.report.table import MOST_OF_KIND, directionless, table_of

# The hub has a file for a model and a task, with the primary score.
OF_PRIMARY = {"hf"}
GAP = score(0.206, "gap", floors={"random_weights": 0.146}, higher_is_better=None)
# Data that have an id on the hub.
MNIST = {"data": "vlbench.data.mnist:mnist sha256:1", "weights": "sha256:1", "adapter": "sha256:2"}
ENDED = {"finished": "2026-11-21T23:31:21+00:00"}


def row(folder, model, right):
    """Return a row whose primary score has no direction and is no finding."""
    credit = [1] * right + [0] * (30 - right)
    given = {"provenance": MNIST, "run": ENDED, "request": f"sha256:{model}"}
    made = measured(folder, model, credit, higher_is_better=None, **given)
    primary = replace(made.scores[0], verdict="no finding", ci95=(-0.125, 0.875))
    return replace(made, scores=[primary, GAP])


@pytest.fixture
def boards(tmp_path):
    folder = tmp_path / "boards"
    return write(folder, board(row(folder, "a", 20), row(folder, "b", 10)))


@pytest.fixture
def printed(boards, tmp_path, capsys, monkeypatch):
    """Return a function that returns what a command prints and the files it writes."""
    monkeypatch.setenv("COLUMNS", "200")

    def ask(*words):
        main(["leaderboard", *words, "--output", str(boards)])
        files = [file for file in (tmp_path / "made").rglob("*") if file.is_file()]
        return capsys.readouterr().out + "".join(file.read_text() for file in files)

    return ask


@pytest.fixture
def made(tmp_path):
    (tmp_path / "made").mkdir()
    return str(tmp_path / "made" / "out")


@pytest.mark.parametrize("words", [["show", "t"], ["show"], ["compare", "a", "b"]])
def test_the_terminal_prints_the_verdict_beside_the_score(printed, words):
    assert printed(*words).count("(no finding)") >= 2


@pytest.mark.parametrize("form", sorted(one.name for one in iter_modules(export.__path__)))
def test_every_export_has_the_verdict_and_the_floor(printed, made, form):
    text = printed("export", "--format", form, "--to", made)
    assert text.count("no finding") >= 2
    assert ("14.6" in text or "0.146" in text) is (form not in OF_PRIMARY)
    assert "↑" not in text
    assert "uparrow" not in text


@pytest.mark.parametrize("form", PIVOTS)
def test_every_format_of_models_by_tasks_has_the_verdict(printed, made, form):
    assert printed("export", "--pivot", "--format", form, "--to", made).count("no finding") == 2


def test_the_page_has_the_verdict_and_the_floor_and_no_bar(printed, boards):
    printed("page")
    text = (boards / "page" / "index.html").read_text()
    assert text.count('<td class="s">66.7 (no finding)') == 1
    assert "<td>20.6 %<td><td>14.6 % random weights" in text
    assert "Neither higher nor lower is better." in text


def test_show_has_the_interval_and_the_floor_of_each_score_without_a_direction(printed):
    lines = [" ".join(line.split()) for line in printed("show", "t").splitlines()]
    assert "a accuracy (shots 5) 66.7 % (no finding) -12.5 to 87.5" in lines
    assert "a gap (shots 5) 20.6 % 14.6 % random weights" in lines


def test_a_comparison_counts_no_items_as_better(printed):
    text = printed("compare", "a", "b")
    assert "accuracy (shots 5), no direction" in text
    assert "better" not in text


def test_python_prints_the_verdict_too(tmp_path):
    found = row(tmp_path, "a", 20)
    assert "accuracy 0.667 (no finding)" in Results([found])._repr_html_()
    assert repr(found).endswith("n 30, no finding>")


def test_nobody_is_first_by_a_score_without_a_direction():
    assert {cost(score(value, higher_is_better=None)) for value in (0.1, 0.9)} == {0.0}


def test_many_scores_of_a_kind_are_counted_and_not_listed(tmp_path):
    drops = [score(0.1, "drop", at={"head": i}, higher_is_better=None) for i in range(99)]
    first = row(tmp_path, "a", 20)
    many = replace(first, scores=[*first.scores, *drops[: MOST_OF_KIND + 1]])
    (_, *rows) = directionless(table_of("t", first.primary, [many]))
    assert rows[2:] == [["a", "drop by head", f"{MOST_OF_KIND + 1} scores", "", ""]]


def test_scores_without_a_direction_are_listed_beside_an_accuracy(tmp_path):
    one = measured(tmp_path, "m", [1, 0])
    table = table_of("t", PRIMARY, [replace(one, scores=[*one.scores, GAP])])
    assert [line[1] for line in directionless(table)] == ["score", "gap (shots 5)"]


def test_a_table_of_scores_with_a_direction_has_no_further_table(tmp_path):
    assert directionless(table_of("t", PRIMARY, [measured(tmp_path, "m", [1, 0])])) == []
