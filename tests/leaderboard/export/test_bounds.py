from pathlib import Path

import pytest

from vlbench.boards import read_board
from vlbench.catalog.catalog import load_catalog
from vlbench.leaderboard.export.bounds import BOUNDS, outside

SHIPPED = Path(__file__).parents[3] / "leaderboards"


def shipped_scores():
    files = [*SHIPPED.glob("*.json"), *SHIPPED.glob("summaries/*.json")]
    return [s for file in files for row in read_board(file).results for s in row.scores]


def test_every_metric_of_the_shipped_boards_has_bounds():
    assert {score.metric for score in shipped_scores()} - set(BOUNDS) == set()


def test_every_metric_that_a_task_names_has_bounds():
    tasks = [task for task in load_catalog().tasks.values() if task.primary]
    named = {one["metric"] for task in tasks for one in (task.primary, *task.reference)}
    assert named - set(BOUNDS) == set()


def test_no_shipped_score_lies_outside_its_bounds():
    strange = [score for score in shipped_scores() if outside(score.metric, score.value)]
    assert strange == []


@pytest.mark.parametrize(
    ("metric", "value", "is_outside"),
    [
        ("accuracy", 1.0, False),
        ("accuracy", 1.01, True),
        ("accuracy", -0.01, True),
        ("template_drop", -0.2, False),
        ("reliability", -1.01, True),
        ("n_classes", 1e9, False),
        ("of_a_stranger", -1e9, False),
    ],
)
def test_a_value_that_the_metric_cannot_have_is_outside(metric, value, is_outside):
    assert outside(metric, value) is is_outside


def test_bounds_are_in_order():
    assert [name for name, (low, high) in BOUNDS.items() if not low < high] == []
