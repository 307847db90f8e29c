from dataclasses import replace

import numpy as np
import pytest
import torch
from planted_boards import board, counts, score
from planted_matrices import CLASSES, matrix, row, two_boards
from scipy.spatial.distance import squareform
from scipy.stats import pearsonr, spearmanr

from vlbench.report.similarities import joined, left_out_rows, similarities, similarity_rows


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


def reliable(output, model, seed, value):
    """Return a row whose matrix has a reliability."""
    own = score(value, "reliability", unit="correlation", at={})
    primary = {"metric": "reliability", "at": {}}
    return replace(row(output, "rsa_x", model, matrix(seed)), scores=[own], primary=primary)


def test_beside_each_correlation_stands_how_far_noise_lets_it_go(tmp_path):
    rows = [reliable(tmp_path, name, i, r) for i, (name, r) in enumerate((("a", 0.8), ("b", 0.5)))]
    members, _ = joined(tmp_path, [board(*rows, task="rsa_x")])
    found = scores(similarity_rows(members, similarities(members)), "a")
    # Nili's upper bounds of two measurements: sqrt(.9) and sqrt(.75).
    for other in ("b", None):
        assert found["noise_ceiling_lower", other]["value"] == pytest.approx(0.8 * 0.5)
        assert found["noise_ceiling_upper", other]["value"] == pytest.approx((0.9 * 0.75) ** 0.5)


def test_a_matrix_without_a_reliability_has_no_ceiling(tmp_path):
    metrics = {metric for metric, _ in scores(compared(tmp_path), "clip")}
    assert metrics == {"mean_rdm_correlation", "rdm_correlation", "rdm_spearman"}


def test_the_primary_score_is_the_mean_over_the_other_models(tmp_path):
    found = scores(compared(tmp_path), "rn50")
    others = [found["rdm_correlation", name]["value"] for name in ("clip", "bert", "clip (text)")]
    assert found["mean_rdm_correlation", None]["value"] == pytest.approx(np.mean(others))


def test_controls_that_were_run_too_do_not_change_the_mean_of_a_model(tmp_path):
    without = scores(compared(tmp_path), "rn50")["mean_rdm_correlation", None]
    blind = {"provenance": {"control": True}}
    control = row(tmp_path, "rsa_x", "noise", matrix(7, shared=9), **blind)
    rows = compared(tmp_path, control)
    found = scores(rows, "rn50")
    assert found["mean_rdm_correlation", None]["value"] == pytest.approx(without["value"])
    assert found["mean_rdm_correlation", None]["ci95"] == pytest.approx(without["ci95"])
    assert ("rdm_correlation", "noise") in found
    pairs = [scores(rows, "noise")["rdm_correlation", name]["value"] for name in COMPARED]
    mean = scores(rows, "noise")["mean_rdm_correlation", None]["value"]
    assert mean == pytest.approx(np.mean(pairs))


def test_a_constant_matrix_correlates_with_nothing(tmp_path):
    found = scores(compared(tmp_path, row(tmp_path, "rsa_x", "flat", torch.zeros(36))), "flat")
    assert {score["value"] for score in found.values()} == {0.0}


def test_a_model_that_is_not_compared_has_a_row_that_says_why():
    (found,) = left_out_rows({"odd": "its row has no rdm"})
    assert (found["model"], found["status"], found["scores"]) == ("odd", "skipped", [])
    assert (found["reason"], found["counts"]) == ("its row has no rdm", {"n": 0, "expected": 0})


COMPARED = ["clip", "rn50", "bert", "clip (text)"]


def left_out(output, odd):
    """Return why the row of model `odd` is not compared."""
    members, reasons = joined(output, two_boards(output, odd))
    assert [member.name for member in members] == COMPARED
    return reasons["odd"]


def test_a_member_has_its_rows_matrix_and_classes(tmp_path):
    members, reasons = joined(tmp_path, two_boards(tmp_path))
    assert ([member.name for member in members], reasons) == (COMPARED, {})
    assert [member.model for member in members] == ["clip", "rn50", "bert", "clip"]
    assert (members[1].classes, members[1].comparable) == (CLASSES, "a")
    np.testing.assert_array_equal(members[1].read_matrix(), matrix(1).numpy())


def test_a_task_with_no_words_of_its_own_is_named_whole(tmp_path):
    first, second = (
        board(row(tmp_path, task, "clip", matrix(0)), task=task) for task in ("rsa_x", "x_rsa")
    )
    members, _ = joined(tmp_path, [first, second])
    assert [member.name for member in members] == ["clip", "clip (x_rsa)"]


def test_a_matrix_over_other_classes_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), classes=[*CLASSES[:-1], "other"])
    assert left_out(tmp_path, odd) == "its matrix is over its classes differ from those of clip"


def test_classes_of_other_categories_are_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), categories=["a", "b", "c"] * 3)
    assert left_out(tmp_path, odd) == "its matrix is over its classes differ from those of clip"


def test_intervals_are_over_the_categories_of_classes(tmp_path):
    nested = {"categories": ["a", "b", "c"] * 3}
    rows = [row(tmp_path, "rsa_x", name, matrix(i), **nested) for i, name in enumerate("pq")]
    members, _ = joined(tmp_path, [board(*rows, task="rsa_x")])
    pair = [squareform(member.read_matrix()) for member in members]
    kept = [np.flatnonzero(np.arange(9) % 3 != g) for g in range(3)]
    less = [pearsonr(*(squareform(m[np.ix_(k, k)]) for m in pair)).statistic for k in kept]
    value = scores(similarity_rows(members, similarities(members)), "p")["rdm_correlation", "q"]
    half = 2.776445 * (2 * np.var(np.arctanh(less))) ** 0.5  # Student's quantile, 4 degrees
    assert value["ci95"][1] == pytest.approx(np.tanh(np.arctanh(value["value"]) + half), abs=1e-5)


def test_a_matrix_of_other_data_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), comparable="other")
    assert left_out(tmp_path, odd) == "not comparable with most rows of rsa_x"


def test_a_model_with_two_data_sets_is_compared_on_the_one_with_most_rows(tmp_path):
    first, second = two_boards(tmp_path)
    clip = next(one for one in first.results if one.model == "clip")
    twice = replace(clip, comparable="other", provenance={"data": "x sha256:2"})
    members, reasons = joined(tmp_path, [replace(first, results=[*first.results, twice]), second])
    assert [member.name for member in members] == COMPARED
    assert [*reasons.values()] == ["not comparable with most rows of rsa_x"]


def test_a_matrix_that_is_gone_or_not_its_rows_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5))
    (tmp_path / "artifacts/rsa_x/odd/rdm.safetensors").unlink()
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is missing; run the task again with --overwrite"
    )
    row(tmp_path, "rsa_x", "odd", matrix(6))
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is not the file that was written "
        "with its row; run the task again with --overwrite"
    )


def test_a_row_without_a_matrix_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), artifacts={})
    assert left_out(tmp_path, odd) == "its row has no rdm"


LEFT_OUT = [{"status": "failed"}, {"counts": counts(8, 9)}, {"provenance": {"weights": "random:0"}}]


@pytest.mark.parametrize("changes", LEFT_OUT)
def test_rows_that_are_not_publishable_take_no_part(tmp_path, changes):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), **changes)
    members, reasons = joined(tmp_path, two_boards(tmp_path, odd))
    assert ([member.name for member in members], reasons) == (COMPARED, {})
