import json

import pytest

from vlbench.errors import SpecError
from vlbench.leaderboard.summaries import build_summaries, summarise


def score(value, metric="accuracy", chance=0.1):
    return {
        "metric": metric,
        "value": value,
        "n": 100,
        "at": {"shots": 5},
        "stderr": 0.01,
        "ci95": None,
        "chance": chance,
        "floors": {"majority_class": 0.2},
        "draws": [],
        "unit": "fraction",
        "higher_is_better": True,
    }


def row(model, *scores, weights="sha256:1", expected=100, status="ok", comparable="a"):
    return {
        "model": model,
        "status": status,
        "comparable": comparable,
        "scores": list(scores),
        "counts": {"n": 100, "expected": expected},
        "provenance": {"weights": weights},
    }


def board(task, *rows, primary="accuracy"):
    head = {"schema": 1, "task": task, "version": 1, "paper": ""}
    return head | {"primary": {"metric": primary, "at": {"shots": 5}}, "rows": list(rows)}


def test_a_group_is_the_mean_with_the_papers_standard_error():
    first = board("a", row("m", score(0.2), score(0.5, "accuracy_cosine")))
    second = board("b", row("m", score(0.4, chance=0.3)))
    (mean,) = summarise([first, second])
    (found,) = mean["scores"]
    assert found["value"] == pytest.approx(0.3)
    assert found["stderr"] == pytest.approx(0.1 / 2**0.5)
    assert found["chance"] == pytest.approx(0.2)
    assert found["floors"] == {"majority_class": pytest.approx(0.2)}
    assert (found["n"], found["draws"]) == (2, [0.2, 0.4])


@pytest.mark.parametrize(
    "lacking",
    [
        row("m", status="failed"),
        row("m", score(0.4), expected=101),
        row("m", score(0.4), weights="random:0"),
        row("other", score(0.4)),
    ],
)
def test_a_model_without_a_publishable_row_on_every_task_is_left_out(lacking):
    assert summarise([board("a", row("m", score(0.2))), board("b", lacking)]) == []


def test_a_model_with_rows_that_may_not_be_compared_is_left_out():
    both = [row("m", score(0.4)), row("m", score(0.5), comparable="b")]
    assert summarise([board("a", row("m", score(0.2))), board("b", *both)]) == []


def write(folder, *boards):
    for content in boards:
        (folder / f"{content['task']}.json").write_text(json.dumps(content))


def test_a_summary_is_written_only_when_every_task_is_there(tmp_path):
    write(tmp_path, board("a", row("m", score(0.2))))
    assert build_summaries(tmp_path, {"both": ["a", "b"]}) == []
    write(tmp_path, board("b", row("m", score(0.4))))
    (file,) = build_summaries(tmp_path, {"both": ["a", "b"]})
    assert json.loads(file.read_text())["versions"] == {"a": 1, "b": 1}


def test_a_summary_that_no_model_is_left_for_is_removed(tmp_path):
    write(tmp_path, board("a", row("m", score(0.2))))
    (file,) = build_summaries(tmp_path, {"one": ["a"]})
    write(tmp_path, board("a", row("m", status="failed")))
    assert build_summaries(tmp_path, {"one": ["a"]}) == []
    assert not file.exists()


def test_tasks_with_different_primary_scores_make_no_group(tmp_path):
    first, second = row("m", score(0.2)), row("m", score(0.2))
    write(tmp_path, board("a", first), board("b", second, primary="success"))
    with pytest.raises(SpecError, match="both: its tasks have different primary scores"):
        build_summaries(tmp_path, {"both": ["a", "b"]})
