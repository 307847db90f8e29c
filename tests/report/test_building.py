import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from planted_boards import board, counts, result, score, write
from planted_matrices import clip, matrix, row, two_boards
from scipy.stats import pearsonr
from sources import make_source

from vlbench.boards.board import folder_boards, read_board, save_artifacts
from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.drawing.looks import looks
from vlbench.errors import SpecError
from vlbench.metrics.representation_similarity import centred_kernel, cka_debiased
from vlbench.report.building import build, build_summaries, mean_rows, why_no_summary, with_matrices
from vlbench.report.figures import similarity_figures


@pytest.fixture
def output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = str(make_source(tmp_path / "ours"))
    model = ["--model", "mean-colour", "--include-path", source]
    assert main([*model, "--tasks", "few_shot_colours"]) == 0
    return tmp_path / "results"


def test_building_draws_the_boards_of_a_run_and_says_what_it_wrote(output, capsys):
    capsys.readouterr()
    assert main(["leaderboard", "build"]) == 0
    assert capsys.readouterr().out.startswith("wrote 3 files below results: 3 in figures/\n")
    assert (output / "figures" / "few_shot_colours.png").stat().st_size > 1000


def test_a_folder_without_boards_is_an_error_of_the_command(tmp_path, capsys):
    assert main(["leaderboard", "build", "--output", str(tmp_path / "bords")]) == 2
    assert "no boards in" in capsys.readouterr().err


def test_an_empty_folder_builds_nothing(tmp_path):
    assert build(tmp_path, load_catalog([])) == ([], 0)


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


LACKING = [
    result("m", status="failed"),
    result("m", score(0.4), counts=counts(n=100, expected=101)),
    result("m", score(0.4), provenance={"weights": "random:0"}),
    result("other", score(0.4)),
]


@pytest.mark.parametrize("lacking", LACKING)
def test_a_model_without_a_publishable_row_on_every_task_is_left_out(lacking):
    assert mean_rows([board(result("m", score(0.2))), board(lacking)]) == []


def test_a_model_with_rows_that_may_not_be_compared_is_left_out():
    both = [result("m", score(0.4)), result("m", score(0.5), comparable="b")]
    assert mean_rows([board(result("m", score(0.2))), board(*both)]) == []


MATRICES = {"rsa_x_all": ["rsa_x", "rsa_x_text"]}


def test_a_board_of_two_data_sets_makes_no_mean_and_both_are_named(tmp_path):
    made = [{"data": f"x:y sha256:{name}", "data_name": name} for name in ("cars", "dogs")]
    rows = [
        result(model, score(), comparable=one["data_name"], provenance=one)
        for model, one in zip("ab", made, strict=True)
    ]
    boards = [board(*rows), board(*(result(model, score()) for model in "ab"), task="u")]
    assert mean_rows(boards) == []
    why = why_no_summary(write(tmp_path, *boards), ["t", "u"])
    assert why == "no mean: t has several data sets: cars, dogs"
    assert why_no_summary(tmp_path, ["u", "v"]) == "no model has all of u, v"


@pytest.fixture(autouse=True)
def _maps_of_one_start(monkeypatch):
    monkeypatch.setattr(similarity_figures, "STARTS", 1)


def one(task, *scores, **rest):
    return board(result("m", *scores, **rest), task=task)


def summaries(folder, groups):
    return build_summaries(folder, folder_boards(folder), groups, looks(["bert", "clip", "rn50"]))


def test_a_summary_is_written_only_when_every_task_is_there(tmp_path):
    write(tmp_path, one("a", score(0.2)))
    assert summaries(tmp_path, {"both": ["a", "b"]}) == []
    write(tmp_path, one("b", score(0.4)))
    (file,) = summaries(tmp_path, {"both": ["a", "b"]})
    assert json.loads(file.read_text())["versions"] == {"a": 1, "b": 1}


def test_a_mean_of_a_board_that_changed_says_so_until_it_is_built(tmp_path, caplog):
    write(tmp_path, one("a", score(0.2)), one("b", score(0.4)))
    (file,) = summaries(tmp_path, {"both": ["a", "b"]})
    read_board(file)
    assert caplog.text == ""
    write(tmp_path, one("b", score(0.8)))
    read_board(file, is_rebuilt=True)
    assert caplog.text == ""
    read_board(file)
    assert "both is out of date: b changed after it was built; run vlbench" in caplog.text


def test_a_summary_has_the_keys_of_a_board_but_the_paper(tmp_path):
    write(tmp_path, one("a", score(0.2)))
    (file,) = summaries(tmp_path, {"one": ["a"]})
    summary = json.loads(file.read_text())
    assert list(summary) == ["schema", "task", "version", "versions", "boards", "primary", "rows"]
    assert list(summary["rows"][0]) == ["model", "status", "comparable", "scores", "counts"]


def test_a_summary_that_is_read_has_the_mean(tmp_path):
    write(tmp_path, one("a", score(0.25)), one("b", score(0.75)))
    (file,) = summaries(tmp_path, {"both": ["a", "b"]})
    (row,) = read_board(file).results
    assert (row.task, row.model, [s.value for s in row.scores]) == ("both", "m", [0.5])


def test_a_summary_that_no_model_is_left_for_is_removed(tmp_path):
    write(tmp_path, one("a", score(0.2)))
    (file,) = summaries(tmp_path, {"one": ["a"]})
    write(tmp_path, one("a", status="failed"))
    assert summaries(tmp_path, {"one": ["a"]}) == []
    assert not file.exists()


def test_a_group_without_tasks_has_no_summary(tmp_path):
    assert summaries(tmp_path, {"none": []}) == []


def test_tasks_with_different_primary_scores_make_no_group(tmp_path):
    success = {"metric": "success", "at": {}}
    write(tmp_path, one("a", score()), board(result("m", score()), task="b", primary=success))
    with pytest.raises(SpecError, match="both: its tasks have different primary scores"):
        summaries(tmp_path, {"both": ["a", "b"]})


def test_a_board_that_does_not_fit_is_refused_by_name(tmp_path):
    (write(tmp_path, one("a", score())) / "b.json").write_text('{"schema": 1, "task": "b"}')
    with pytest.raises(SpecError, match=r"b\.json: 'version' is missing"):
        summaries(tmp_path, {"both": ["a", "b"]})


def test_vision_alone_is_compared_where_no_language_model_ran(tmp_path, monkeypatch):
    monkeypatch.setattr(similarity_figures, "draw_similarities", lambda *_: [])
    write(tmp_path, two_boards(tmp_path)[0])
    summary = json.loads(summaries(tmp_path, MATRICES)[0].read_text())
    assert [row["model"] for row in summary["rows"]] == ["clip", "rn50"]
    assert summary["primary"] == {"metric": "mean_rdm_correlation", "at": {}}
    assert list(summary["rows"][0])[:4] == ["model", "status", "reason", "comparable"]


def test_a_summary_is_written_as_json_writes_it_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(similarity_figures, "draw_similarities", lambda *_: [])
    write(tmp_path, two_boards(tmp_path)[0])
    (file,) = summaries(tmp_path, MATRICES)
    text = file.read_text()
    assert text == json.dumps(json.loads(text), indent=1) + "\n"


def test_two_builds_write_the_same_bytes(tmp_path):
    write(tmp_path, two_boards(tmp_path)[0])
    files = summaries(tmp_path, MATRICES)
    first = [file.read_bytes() for file in files]
    assert [file.suffix for file in files] == [".json", *[".svg", ".png", ".pdf"] * 2]
    assert [file.read_bytes() for file in summaries(tmp_path, MATRICES)] == first


def test_one_model_alone_has_nothing_to_be_compared_with(tmp_path):
    write(tmp_path, board(clip(tmp_path), task="rsa_x"))
    figure = tmp_path / "figures" / "rsa_x_all_map.svg"
    figure.parent.mkdir()
    figure.write_text("of more models")
    (row,) = json.loads(summaries(tmp_path, MATRICES)[0].read_text())["rows"]
    assert (row["status"], row["reason"]) == ("skipped", "no other model to compare it with")
    assert not figure.exists()


DATA = {"provenance": {"data": "mine:images sha256:a", "weights": "sha256:w"}}


def own_boards(output, *, data="a"):
    """Return boards of two models on a task of a user's own, and of one on its texts."""
    theirs = {"provenance": {"data": f"mine:images sha256:{data}", "weights": "sha256:w"}}
    vision = [row(output, "rsa_mine", m, matrix(i), **DATA) for i, m in enumerate("ab")]
    text = row(output, "rsa_mine_text", "c", matrix(2, shared=1), **theirs)
    return board(*vision, task="rsa_mine"), board(text, task="rsa_mine_text")


def test_matrices_of_one_data_set_make_a_group_without_a_file(tmp_path):
    write(tmp_path, *own_boards(tmp_path), one("few", score(0.2)))
    groups = with_matrices(folder_boards(tmp_path), MATRICES)
    assert groups == {"rsa_mine_similarity": ["rsa_mine", "rsa_mine_text"], **MATRICES}


def test_matrices_of_other_data_stand_apart_and_one_alone_makes_no_group(tmp_path):
    write(tmp_path, *own_boards(tmp_path, data="b"))
    assert with_matrices(folder_boards(tmp_path), {}) == {"rsa_mine_similarity": ["rsa_mine"]}


def test_what_a_group_file_compares_is_not_compared_again(tmp_path):
    write(tmp_path, *own_boards(tmp_path))
    both, first = {"mine": ["rsa_mine", "rsa_mine_text"]}, {"mine": ["rsa_mine"]}
    assert with_matrices(folder_boards(tmp_path), both) == both
    assert with_matrices(folder_boards(tmp_path), first) == first


def test_a_row_that_is_not_published_makes_no_group(tmp_path):
    rows = own_boards(tmp_path)[0].results
    random = replace(rows[1], provenance={**DATA["provenance"], "weights": "random:0"})
    write(tmp_path, board(rows[0], random, task="rsa_mine"))
    assert with_matrices(folder_boards(tmp_path), {}) == {}


def test_the_correlation_of_two_models_is_that_of_their_matrices(tmp_path, monkeypatch):
    monkeypatch.setattr(similarity_figures, "draw_similarities", lambda *_: [])
    write(tmp_path, own_boards(tmp_path)[0])
    (file,) = build_summaries(
        tmp_path, folder_boards(tmp_path), with_matrices(folder_boards(tmp_path), {}), looks("ab")
    )
    assert file == tmp_path / "summaries" / "rsa_mine_similarity.json"
    (a, _) = read_board(file).results
    wanted = pearsonr(matrix(0), matrix(1)).statistic
    (found,) = [s.value for s in a.scores if s.metric == "rdm_correlation"]
    assert found == pytest.approx(wanted, abs=1e-6)


def kernel_row(output, model, seed):
    """Return a row that keeps the kernel of 24 images in 6 blocks, and a score as the probe's."""
    names = [f"image {i}" for i in range(24)]
    table = pa.table({"name": names, "category": [f"block {i % 6}" for i in range(24)]})
    kept = {"kernel": centred_kernel(representation(seed)).float(), "images": table}
    saved = save_artifacts(output, "similarity_x", model, kept)
    own = score(0.5, "cka_debiased", unit="correlation", at={})
    primary = {"metric": "cka_debiased", "at": {}}
    return result(
        model, own, task="similarity_x", artifacts=saved, counts=counts(24, 24), primary=primary
    )


def representation(seed):
    shared, own = (
        torch.from_numpy(np.random.default_rng(s).normal(size=(24, 5))) for s in (9, seed)
    )
    return shared + own


def test_kernels_of_one_data_set_are_compared_by_debiased_cka(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        similarity_figures, "draw_similarities", lambda *given: drawn.append(given) or []
    )
    write(
        tmp_path,
        board(*(kernel_row(tmp_path, m, i) for i, m in enumerate("ab")), task="similarity_x"),
    )
    there = folder_boards(tmp_path)
    (file,) = build_summaries(tmp_path, there, with_matrices(there, {}), looks("ab"))
    summary = read_board(file)
    scores = {(s.metric, s.at.get("with")): s for s in summary.results[0].scores}
    assert set(scores) == {("mean_cka_debiased", None), ("pair_cka_debiased", "b")}
    pair = scores["pair_cka_debiased", "b"]
    assert pair.value == pytest.approx(cka_debiased(representation(0), representation(1)), abs=1e-6)
    assert (pair.n, pair.chance, [*pair.floors]) == (24, 0, ["image_permutations"])
    assert (summary.primary["metric"], drawn[0][-1]) == ("mean_cka_debiased", "debiased CKA")


def test_a_group_that_a_file_takes_the_place_of_is_removed_with_its_figures(tmp_path):
    write(tmp_path, *own_boards(tmp_path))
    own = build_summaries(
        tmp_path, folder_boards(tmp_path), with_matrices(folder_boards(tmp_path), {}), looks("abc")
    )
    assert len(own) == 7
    by_file = {"mine": ["rsa_mine", "rsa_mine_text"]}
    build_summaries(
        tmp_path,
        folder_boards(tmp_path),
        with_matrices(folder_boards(tmp_path), by_file),
        looks("abc"),
    )
    assert [file for file in own if file.exists()] == []
    assert (tmp_path / "summaries" / "mine.json").exists()
