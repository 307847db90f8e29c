from pathlib import Path

import pytest
from planted_boards import score

from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.leaderboard.references import published

FIVE_SHOTS = {"model": "m", "metric": "accuracy", "value": 0.5, "where": "Table 1"}
FIVE_SHOTS |= {"at": {"shots": 5}}
BARE = {"model": "m", "metric": "clean_accuracy", "value": 0.76, "where": "section 2"}


def spec(*references):
    return TaskSpec("t", Path(), Document(Path("t.yaml"), {}, {}), reference=references)


def test_the_difference_is_ours_less_the_papers_in_our_standard_errors():
    found = published(spec(FIVE_SHOTS), "m", score(0.44, stderr=0.02))
    assert (found.value, found.where) == (0.5, "Table 1")
    assert (found.difference, found.in_stderr) == (pytest.approx(-0.06), pytest.approx(-3.0))


def test_a_reference_without_conditions_is_of_the_score_without_conditions():
    found = published(spec(FIVE_SHOTS, BARE), "m", score(0.5, "clean_accuracy", at={}))
    assert (found.value, found.where) == (0.76, "section 2")


@pytest.mark.parametrize("stderr", [None, 0.0])
def test_without_a_standard_error_the_difference_is_counted_in_none(stderr):
    found = published(spec(FIVE_SHOTS), "m", score(0.75, stderr=stderr))
    assert (found.difference, found.in_stderr) == (0.25, None)


@pytest.mark.parametrize(
    ("model", "other"),
    [
        ("n", score()),
        ("m", score(metric="accuracy_cosine")),
        ("m", score(at={"shots": 1})),
        ("m", score(at={})),
        ("m", score(at={"shots": 5, "trial": 1})),
    ],
)
def test_another_model_metric_or_condition_has_no_published_value(model, other):
    assert published(spec(FIVE_SHOTS), model, other) is None


def test_a_task_without_references_has_no_published_value():
    assert published(spec(), "m", score()) is None
