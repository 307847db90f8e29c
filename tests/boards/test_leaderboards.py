"""The boards that come with the project: of small models on drawings, and of published ones."""

import subprocess
from pathlib import Path

import pytest

from vlbench import compare, evaluate
from vlbench.boards.board import read_board
from vlbench.catalog.catalog import load_catalog

LEADERBOARDS = Path(__file__).resolve().parents[2] / "leaderboards"
BOARDS = {file.stem: read_board(file) for file in sorted(LEADERBOARDS.glob("*.json"))}
TINY = {"tiny-clip", "tiny-rn", "tiny-rn-robust", "tiny-uniter"}

# A processor of another make rounds otherwise: an image or two of a thousand may fall elsewhere.
ROUNDING = 0.005


def row(task, model):
    (found,) = [row for row in BOARDS[task].results if row.model == model]
    return found


def test_boards_of_the_small_models_come_with_the_project():
    assert {row.model for board in BOARDS.values() for row in board.results} >= TINY
    assert "few_shot_scenes" in BOARDS


def test_boards_are_of_their_tasks_versions_and_nothing_in_them_failed():
    tasks = load_catalog([]).tasks
    assert {task: board.version for task, board in BOARDS.items()} == {
        task: tasks[task].version for task in BOARDS
    }
    assert [row for one in BOARDS.values() for row in one.results if row.status == "failed"] == []


def test_the_artifacts_of_boards_lie_beside_them():
    rows = [row for board in BOARDS.values() for row in board.results]
    kept = [artifact["file"] for row in rows for artifact in row.artifacts.values()]
    assert [file for file in kept if not (LEADERBOARDS / file).is_file()] == []


def test_git_has_at_most_11_mb_of_boards_and_artifacts():
    files = subprocess.check_output(["git", "ls-files", "-z", LEADERBOARDS], cwd=LEADERBOARDS)
    sizes = [(LEADERBOARDS / name).stat().st_size for name in files.decode().split("\0") if name]
    assert sizes
    assert sum(sizes) <= 11_000_000


def test_every_score_has_something_to_compare_with_or_says_why_not():
    bare = {
        (task, score.metric)
        for task, board in BOARDS.items()
        for row in board.results
        for score in row.scores
        if score.chance is None and not score.floors and not score.no_chance
    }
    assert bare == set()


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_running_tasks_again_finds_the_scores_of_their_boards():
    for again in evaluate("tiny-rn", "few_shot_scenes,rsa_scenes"):
        require_same_scores(again, row(again.task, "tiny-rn"))


def require_same_scores(again, board):
    assert again.provenance["weights"] == board.provenance["weights"]
    assert again.comparable == board.comparable
    assert [(s.metric, s.at) for s in again.scores] == [(s.metric, s.at) for s in board.scores]
    assert [s.value for s in again.scores] == pytest.approx(
        [s.value for s in board.scores], abs=ROUNDING
    )


def test_no_score_of_a_board_lies_outside_its_range():
    scores = [score for board in BOARDS.values() for row in board.results for score in row.scores]
    assert len(scores) > 1_000
    assert [score for score in scores if not score.is_possible] == []


def test_the_example_of_a_comparison_in_the_guide_is_of_these_boards():
    a, b = "tiny-rn", "tiny-rn-robust"
    (found,) = compare(a, b, "few_shot_scenes", output=LEADERBOARDS).to_dict("records")
    low, high = (f"{100 * found[end]:+.1f}" for end in ("ci95_low", "ci95_high"))
    told = f"| {100 * found[a]:.1f} % | {100 * found[b]:.1f} % | {100 * found['difference']:+.1f} "
    text = (LEADERBOARDS.parent / "docs/comparing.md").read_text("utf-8")
    p = f"{found['p']:.3f}".lstrip("0")
    assert f"{told}| {low} to {high} | {p} ({p}) |" in text
    row = f"| {a} | {100 * found[a]:.1f} % | "
    assert row in (LEADERBOARDS.parent / "docs/statistics.md").read_text("utf-8")
