import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import kendalltau, pearsonr, spearmanr
from sklearn.manifold import TSNE

from vlbench.boards import save_artifacts
from vlbench.leaderboard.similarities import joined, similarity_rows
from vlbench.leaderboard.similarity_figures import map_figure
from vlbench.leaderboard.summaries import build_summaries

CLASSES = [f"class {i}" for i in range(9)]


def matrix(seed, shared=0):
    """Return a condensed matrix of 9 points, near those of the seed `shared`."""
    points = np.random.default_rng(shared).normal(size=(9, 4))
    noise = np.random.default_rng(100 + seed).normal(size=(9, 4))
    return torch.from_numpy(pdist(points + 0.3 * noise)).float()


def row(output, task, model, distances, *, classes=CLASSES, comparable="a", **changes):
    artifacts = {"rdm": distances, "classes": pa.table({"name": classes})}
    return {
        "model": model,
        "status": "ok",
        "comparable": comparable,
        "scores": [],
        "counts": {"n": 9, "expected": 9},
        "artifacts": save_artifacts(output, task, model, artifacts),
        "provenance": {"weights": "sha256:1"},
    } | changes


def board(output, task, *rows):
    head = {"schema": 1, "task": task, "version": 1, "primary": {"metric": "reliability", "at": {}}}
    content = head | {"rows": list(rows)}
    (output / f"{task}.json").write_text(json.dumps(content))
    return content


def two_boards(output):
    vision = [row(output, "rsa_x", name, matrix(i)) for i, name in enumerate(("clip", "rn50"))]
    texts = [
        row(output, "rsa_x_text", name, matrix(i, shared=1), comparable="b")
        for i, name in enumerate(("bert", "clip"))
    ]
    return [board(output, "rsa_x", *vision), board(output, "rsa_x_text", *texts)]


def build(output):
    return build_summaries(output, {"rsa_x_all": ["rsa_x", "rsa_x_text"]})


def compared(output, boards):
    """Return the rows of what is compared, without drawing it."""
    members, _ = joined(output, boards)
    return similarity_rows(members)


def scores(rows, model):
    (found,) = [r for r in rows if r["model"] == model]
    return {(s["metric"], s["at"].get("with")): s for s in found["scores"]}


def test_all_models_of_a_group_are_compared_with_all_others(tmp_path):
    rows = compared(tmp_path, two_boards(tmp_path))
    assert [r["model"] for r in rows] == ["clip", "rn50", "bert", "clip (text)"]
    found = scores(rows, "clip")
    a, b = matrix(0).numpy(), matrix(0, shared=1).numpy()
    expected = {
        "rdm_correlation": pearsonr(a, b).statistic,
        "rdm_spearman": spearmanr(a, b).statistic,
        "rdm_kendall": kendalltau(a, b).statistic,
    }
    assert {m: found[m, "bert"]["value"] for m in expected} == pytest.approx(expected, abs=1e-6)


def test_each_correlation_says_what_it_takes_to_judge_it(tmp_path):
    rows = compared(tmp_path, two_boards(tmp_path))
    score = scores(rows, "clip")["rdm_correlation", "rn50"]
    low, high = score["ci95"]
    assert low < score["value"] < high
    assert (score["n"], score["chance"]) == (9, 0.0)
    assert 0 < score["floors"]["class_permutations"] < score["value"]


def test_the_primary_score_is_the_mean_over_the_other_models(tmp_path):
    found = scores(compared(tmp_path, two_boards(tmp_path)), "rn50")
    others = [found["rdm_correlation", name]["value"] for name in ("clip", "bert", "clip (text)")]
    assert found["mean_rdm_correlation", None]["value"] == pytest.approx(np.mean(others))


def test_vision_alone_is_compared_where_no_language_model_ran(tmp_path):
    two_boards(tmp_path)
    (tmp_path / "rsa_x_text.json").unlink()
    summary = json.loads(build(tmp_path)[0].read_text())
    assert [r["model"] for r in summary["rows"]] == ["clip", "rn50"]
    assert summary["primary"] == {"metric": "mean_rdm_correlation", "at": {}}


def test_two_builds_write_the_same_bytes(tmp_path):
    two_boards(tmp_path)
    files = build(tmp_path)
    first = [file.read_bytes() for file in files]
    assert {file.suffix for file in files} == {".json", ".svg", ".png"}
    assert [file.read_bytes() for file in build(tmp_path)] == first


def test_a_constant_matrix_correlates_with_nothing(tmp_path):
    vision, texts = two_boards(tmp_path)
    flat = row(tmp_path, "rsa_x", "flat", torch.zeros(36))
    rows = compared(tmp_path, [vision | {"rows": [*vision["rows"], flat]}, texts])
    found = scores(rows, "flat")
    assert {s["value"] for s in found.values()} == {0.0}


def left_out(output, extra):
    """Return why the row of model `odd` is not compared."""
    vision, texts = two_boards(output)
    members, reasons = joined(output, [vision | {"rows": [*vision["rows"], extra]}, texts])
    assert [m.name for m in members] == ["clip", "rn50", "bert", "clip (text)"]
    return reasons["odd"]


def test_a_matrix_over_other_classes_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), classes=[*CLASSES[:-1], "other"])
    assert left_out(tmp_path, odd) == "its matrix is over other classes than that of clip"


def test_a_matrix_of_other_data_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), comparable="other")
    assert left_out(tmp_path, odd) == "not comparable with the most rows of rsa_x"


def test_a_matrix_that_is_gone_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5))
    (tmp_path / "artifacts/rsa_x/odd/rdm.safetensors").unlink()
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is absent; run the task again with --overwrite"
    )


def test_a_matrix_that_is_not_its_rows_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5))
    row(tmp_path, "rsa_x", "odd", matrix(6))
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is not the file that its row was written with; run "
        "the task again with --overwrite"
    )


def test_a_row_without_a_matrix_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), artifacts={})
    assert left_out(tmp_path, odd) == "its row keeps no rdm"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"counts": {"n": 8, "expected": 9}},
        {"provenance": {"weights": "random:0"}},
    ],
)
def test_rows_that_are_not_to_be_published_take_no_part(tmp_path, changes):
    vision, texts = two_boards(tmp_path)
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), **changes)
    members, others = joined(tmp_path, [vision | {"rows": [*vision["rows"], odd]}, texts])
    assert [m.name for m in members] == ["clip", "rn50", "bert", "clip (text)"]
    assert others == {}


def test_one_model_alone_has_nothing_to_be_compared_with(tmp_path):
    board(tmp_path, "rsa_x", row(tmp_path, "rsa_x", "clip", matrix(0)))
    figure = tmp_path / "figures" / "rsa_x_all_map.svg"
    figure.parent.mkdir()
    figure.write_text("of more models")
    summary = json.loads(build(tmp_path)[0].read_text())
    assert [(r["status"], r["reason"]) for r in summary["rows"]] == [
        ("skipped", "no other model to compare it with")
    ]
    assert not figure.exists()


def test_the_map_is_of_distances_that_are_not_squared(monkeypatch):
    fit, taken = TSNE.fit, []

    def squaring(self, given):
        found = fit(self, given)  # squares in place
        taken.append(given)
        return found

    monkeypatch.setattr(TSNE, "fit", squaring)
    distances = np.full((4, 4), 0.5) - np.diag([0.5] * 4)
    map_figure(distances, list("abcd"))
    np.testing.assert_allclose(taken[0], distances)


def test_the_map_puts_near_what_is_alike():
    distances = np.full((6, 6), 1.0)
    distances[:3, :3] = distances[3:, 3:] = 0.05
    np.fill_diagonal(distances, 0)
    places = map_figure(distances, list("abcdef")).axes[0].collections[0].get_offsets()
    first, second = places[:3], places[3:]
    apart = np.linalg.norm(first.mean(0) - second.mean(0))
    assert apart > max(np.ptp(first, axis=0).max(), np.ptp(second, axis=0).max())
