import pytest
from runs import evaluate
from sources import TASK, make_source, write


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_a_primary_that_is_no_score_fails_and_says_which_there_are(source):
    write(source / "tasks" / "b.yaml", TASK.replace("{shots: 1}", "{shots: 2}"))
    (result,) = evaluate(source, tasks="b")
    assert "is 0 of the scores" in result.reason
