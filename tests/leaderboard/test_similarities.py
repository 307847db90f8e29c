import numpy as np
import pytest
import torch
from planted_matrices import matrix, row, two_boards
from scipy.stats import pearsonr, spearmanr

from vlbench.leaderboard.members import joined
from vlbench.leaderboard.similarities import left_out_rows, similarities, similarity_rows


def compared(output, *odd):
    members, _ = joined(output, two_boards(output, *odd))
    return list(similarity_rows(members, similarities(members)))


def scores(rows, model):
    (found,) = [row for row in rows if row["model"] == model]
    return {(s["metric"], s["at"].get("with")): s for s in found["scores"]}


def test_all_models_of_a_group_are_compared_with_all_others(tmp_path):
    rows = compared(tmp_path)
    assert [row["model"] for row in rows] == ["clip", "rn50", "bert", "clip (text)"]
    found = scores(rows, "clip")
    a, b = matrix(0).numpy(), matrix(0, shared=1).numpy()
    expected = {
        "rdm_correlation": pearsonr(a, b).statistic,
        "rdm_spearman": spearmanr(a, b).statistic,
    }
    assert {m: found[m, "bert"]["value"] for m in expected} == pytest.approx(expected, abs=1e-6)


def test_each_correlation_says_what_it_takes_to_judge_it(tmp_path):
    score = scores(compared(tmp_path), "clip")["rdm_correlation", "rn50"]
    low, high = score["ci95"]
    assert low < score["value"] < high
    assert (score["n"], score["chance"]) == (9, 0.0)
    assert 0 < score["floors"]["class_permutations"] < score["value"]


def test_the_primary_score_is_the_mean_over_the_other_models(tmp_path):
    found = scores(compared(tmp_path), "rn50")
    others = [found["rdm_correlation", name]["value"] for name in ("clip", "bert", "clip (text)")]
    assert found["mean_rdm_correlation", None]["value"] == pytest.approx(np.mean(others))


def test_a_constant_matrix_correlates_with_nothing(tmp_path):
    found = scores(compared(tmp_path, row(tmp_path, "rsa_x", "flat", torch.zeros(36))), "flat")
    assert {score["value"] for score in found.values()} == {0.0}


def test_a_model_that_is_not_compared_has_a_row_that_says_why():
    (found,) = left_out_rows({"odd": "its row keeps no rdm"})
    assert (found["model"], found["status"], found["scores"]) == ("odd", "skipped", [])
    assert (found["reason"], found["counts"]) == ("its row keeps no rdm", {"n": 0, "expected": 0})
