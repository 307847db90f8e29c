import pytest
from planted_boards import board, counts, result, score

from vlbench.leaderboard.means import mean_rows

FLOOR = {"majority_class": 0.2}


def test_a_group_is_the_mean_with_the_papers_standard_error():
    first = result("m", score(0.2, chance=0.1, floors=FLOOR), score(0.5, "accuracy_cosine"))
    second = result("m", score(0.4, chance=0.3, floors=FLOOR | {"pixels": 0.1}))
    (mean,) = mean_rows([board(first), board(second)])
    (found,) = mean["scores"]
    assert found["value"] == pytest.approx(0.3)
    assert found["stderr"] == pytest.approx(0.1 / 2**0.5)
    assert found["chance"] == pytest.approx(0.2)
    assert found["floors"] == {"majority_class": pytest.approx(0.2)}
    assert (found["n"], found["draws"], found["ci95"]) == (2, [0.2, 0.4], None)
    assert mean["counts"] == {"n": 2, "expected": 2}


def test_a_chance_that_one_task_lacks_has_no_mean():
    boards = [board(result("m", score(0.2, chance=0.1))), board(result("m", score(0.2)))]
    assert mean_rows(boards)[0]["scores"][0]["chance"] is None


def test_scores_under_other_conditions_are_not_averaged():
    boards = [board(result("m", score(0.2, at={"shots": shots}))) for shots in (1, 5)]
    assert mean_rows(boards)[0]["scores"] == []


def test_means_of_other_rows_are_not_comparable():
    first, same = (mean_rows([board(result("m", score()))])[0]["comparable"] for _ in range(2))
    other = mean_rows([board(result("m", score(), comparable="b"))])[0]["comparable"]
    assert (first == same, first == other) == (True, False)


@pytest.mark.parametrize(
    "lacking",
    [
        result("m", status="failed"),
        result("m", score(0.4), counts=counts(n=100, expected=101)),
        result("m", score(0.4), provenance={"weights": "random:0"}),
        result("other", score(0.4)),
    ],
)
def test_a_model_without_a_publishable_row_on_every_task_is_left_out(lacking):
    assert mean_rows([board(result("m", score(0.2))), board(lacking)]) == []


def test_a_model_with_rows_that_may_not_be_compared_is_left_out():
    both = [result("m", score(0.4)), result("m", score(0.5), comparable="b")]
    assert mean_rows([board(result("m", score(0.2))), board(*both)]) == []
