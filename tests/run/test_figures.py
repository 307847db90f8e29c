import re
import sys

import pytest
from planted_boards import board, result
from planted_boards import write as write_boards
from sources import TASK, make_source, write

from vlbench import evaluate
from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.commands.validate import validate
from vlbench.errors import SpecError
from vlbench.run.figures import find_figures
from vlbench.run.options import Options

DRAWS = """\
from matplotlib.figure import Figure

# Importing this file is seen.
import builtins
builtins.figures_imported = True

TITLE = "no function"

def bars(board):
    figure = Figure()
    figure.subplots().bar([row.model for row in board.results], 1.0)
    figure.suptitle(board.task)
    return figure

def table(row, read_table, look):
    return None

def wrong(board, colour):
    return None
"""


@pytest.fixture
def source(tmp_path):
    write(tmp_path / "ours" / "probes" / "figures.py", DRAWS)
    return make_source(tmp_path / "ours")


def named(source, *figures):
    """Write the task with figures; return its file."""
    text = TASK + f"figures: [{', '.join(figures)}]\n"
    return write(source / "tasks" / "few_shot_colours.yaml", text)


def found(source, *figures):
    named(source, *figures)
    spec = load_catalog([source]).tasks["few_shot_colours"]
    return find_figures(spec, Options(include_path=[source]))


def test_figures_are_found_beside_the_probes_of_a_source(source):
    assert list(found(source, "figures:bars", "figures:table")) == ["bars", "table"]


def test_figures_of_shipped_tasks_are_found_in_the_family_of_their_probe():
    tasks = load_catalog().tasks.values()
    figures = {task.name: find_figures(task, Options()) for task in tasks if task.figures}
    assert figures["entity_grounding_scenes"]["heads"].__module__ == (
        "vlbench.probes.grounding.figures"
    )
    assert list(figures["caption_patterns_coco"]) == ["words", "captions"]
    assert list(figures["entity_grounding_flickr30k_val"]) == ["heads"]  # as what it extends


REFUSED = [
    ("figures:bar", r"yaml:8: 'figures' has no 'bar'; did you mean 'bars'\?"),
    ("figurs:bars", r"yaml:8: no module is named 'vlbench.*figurs'; did you mean 'figures'\?"),
    ("bars", "yaml:8: 'bars' is not of the form module:name"),
    ("figures:TITLE", "yaml:8: 'no function' has no signature to check"),
    ("figures:wrong", "yaml:8: a figure takes board, .*; 'figures:wrong' takes board, colour"),
    ("os.path:join", "yaml:8: 'os.path:join' is not trusted"),
    ("7", r"yaml:8: .figures\[0\]. must be a text, not 7"),
]


@pytest.mark.parametrize(("figure", "message"), REFUSED)
def test_what_is_no_figure_is_told_with_its_line(source, figure, message):
    with pytest.raises(SpecError, match=message):
        found(source, figure)


def test_validate_tells_all_wrong_figures(source):
    file = named(source, "figures:bar", "figures:tabel", "figures:bars", "figures:bars")
    problems = validate([file])[file]
    assert "did you mean 'bars'?" in problems
    assert "did you mean 'table'?" in problems
    assert "two figures are named 'bars'" in problems


def test_a_run_imports_no_figures_and_build_draws_them(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.figures_imported", False, raising=False)
    named(source, "figures:bars")
    words = ["--include-path", str(source)]
    run = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--no-cache", *words]
    assert main(run) == 0
    assert not sys.modules["builtins"].figures_imported
    assert main(["leaderboard", "build", *words]) == 0
    assert re.search(r"wrote \d+ files below results: .*\d in figures/", capsys.readouterr().out)
    assert (
        "few_shot_colours" in (tmp_path / "results/figures/few_shot_colours_bars.svg").read_text()
    )


def test_figures_leave_request_and_comparable_of_a_row_as_they_are(source):
    (plain,) = evaluate("mean-colour", "few_shot_colours", include_path=source)
    named(source, "figures:bars")
    (row,) = evaluate("mean-colour", "few_shot_colours", include_path=source)
    assert (row.request, row.comparable) == (plain.request, plain.comparable)
    assert row.request


def test_build_draws_figures_of_installed_tasks_alone(source, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.figures_imported", False, raising=False)
    task = {"task": "few_shot_colours"}
    output = write_boards(tmp_path / "boards", board(result("m", **task), **task))
    named(source, "figures:bars")
    assert main(["leaderboard", "build", "--output", str(output)]) == 0
    assert not sys.modules["builtins"].figures_imported
