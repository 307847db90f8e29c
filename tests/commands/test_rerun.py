import json

import pytest
from sources import make_source

from vlbench import bench, cli


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_source(tmp_path_factory.mktemp("theirs") / "ours")


@pytest.fixture(scope="module")
def boards(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    words = ["--tasks", "few_shot_colours", "--output", str(folder), "--no-cache"]
    words += ["--include-path", str(source)]
    assert cli.main(["--model", "mean-colour", "--model-args", "shift=0.25", *words]) == 0
    assert cli.main(["--model", "mean-colour", "--name", "ours", *words]) == 0
    return folder


def rerun(boards, source, *words):
    board = str(boards / "few_shot_colours.json")
    return cli.main(["rerun", board, *words, "--no-cache", "--include-path", str(source)])


def test_a_row_with_overrides_gives_the_same_scores(boards, source, capsys):
    before = sorted(boards.rglob("*"))
    assert rerun(boards, source, "mean-colour[shift=0.25]") == 0
    out = capsys.readouterr().out
    assert "mean-colour[shift=0.25] on few_shot_colours: 3 of 3 scores are equal" in out
    assert sorted(boards.rglob("*")) == before


def test_a_named_row_is_run_as_the_model_that_is_given(boards, source, capsys):
    assert rerun(boards, source, "ours") == 2
    assert "no model is named 'ours'" in capsys.readouterr().err
    assert rerun(boards, source, "ours", "--as-model", "mean-colour") == 0


def test_a_score_that_is_another_one_is_shown_and_ends_with_1(boards, source, tmp_path, capsys):
    board = json.loads((boards / "few_shot_colours.json").read_text())
    row = next(row for row in board["rows"] if row["model"] == "ours")
    row["scores"][0]["value"] -= 0.125
    row["provenance"]["libraries"]["torch"] = "1.0"
    (tmp_path / "few_shot_colours.json").write_text(json.dumps(board))
    assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 1
    shown = capsys.readouterr()
    assert "2 of 3 scores are equal" in shown.out
    assert "+0.125" in shown.out
    assert "differs: torch: 1.0 on the board" in shown.err


def test_a_row_that_is_not_there_is_an_error_with_the_nearest(boards, source, capsys):
    assert rerun(boards, source, "our") == 2
    assert "no model with scores is named 'our'; did you mean ours?" in capsys.readouterr().err


def changed(boards, folder, change):
    """Put a board into a folder whose rows are changed."""
    board = json.loads((boards / "few_shot_colours.json").read_text())
    for row in board["rows"]:
        change(row)
    (folder / "few_shot_colours.json").write_text(json.dumps(board))
    return folder


@pytest.mark.parametrize(("part", "name"), [("run", "batch_size"), ("provenance", "dtype")])
def test_a_row_that_does_not_say_how_it_was_made_is_an_error_that_names_it(
    boards, source, tmp_path, capsys, part, name
):
    changed(boards, tmp_path, lambda row: row[part].pop(name))
    assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 2
    assert f"the row does not record its {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "name", "values"),
    [
        ("provenance", "dtype", [None, 7, []]),
        ("provenance", "params", [None, "x"]),
        ("provenance", "libraries", [None, 7]),
        ("run", "batch_size", ["x", [1], True]),
    ],
)
def test_a_row_of_other_types_is_refused_before_it_runs(
    boards, source, tmp_path, capsys, monkeypatch, part, name, values
):
    monkeypatch.setattr(bench, "run", None)
    for value in values:
        changed(boards, tmp_path, lambda row, value=value: row[part].update({name: value}))
        assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 2
        assert f"ours on few_shot_colours.{part}.{name}' must be a" in capsys.readouterr().err


def test_a_row_named_like_two_models_is_no_model(boards, source, tmp_path, capsys):
    changed(boards, tmp_path, lambda row: row.update(model=f"raw-pixels,{row['model'][:4]}"))
    assert rerun(tmp_path, source, "raw-pixels,ours") == 2
    assert "no model is named 'raw-pixels,ours'" in capsys.readouterr().err
