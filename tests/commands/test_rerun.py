import json

import pytest
from sources import make_source

from vlbench import bench, cli
from vlbench.commands.parser import parser_of
from vlbench.commands.rerun import DIFFERENT, EQUAL, WITHIN, read_rerun, score_changes
from vlbench.results import Result, Score


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
    told = capsys.readouterr().err
    assert "no model is named 'ours'" in told
    assert "if the row has a --name, pass --as-model" in told
    assert rerun(boards, source, "ours", "--as-model", "mean-colour") == 0


def test_a_score_that_is_another_one_is_shown_and_ends_with_1(boards, source, tmp_path, capsys):
    board = json.loads((boards / "few_shot_colours.json").read_text())
    row = next(row for row in board["rows"] if row["model"] == "ours")
    row["scores"][0]["value"] -= 0.75
    row["provenance"]["libraries"]["torch"] = "1.0"
    (tmp_path / "few_shot_colours.json").write_text(json.dumps(board))
    assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 1
    shown = capsys.readouterr()
    assert "2 of 3 scores are equal" in shown.out
    assert "largest difference +0.75, accuracy" in shown.out
    assert "differs: torch: 1.0 on the board" in shown.err


def test_a_file_of_a_board_that_is_not_there_is_an_error_with_the_nearest(boards, capsys):
    assert cli.main(["rerun", str(boards / "few_shot_colour.json"), "ours"]) == 2
    told = f"no board in {boards} is named 'few_shot_colour'; did you mean few_shot_colours?"
    assert told in capsys.readouterr().err


def test_a_row_that_was_skipped_is_an_error_that_says_why(boards, source, tmp_path, capsys):
    def skip(row):
        row.update(status="skipped", scores=[], counts={}, artifacts={}, reason="no Classifier")

    folder = changed(boards, tmp_path, skip)
    assert rerun(folder, source, "ours") == 2
    said = "ours has no scores on few_shot_colours: skipped (no Classifier)"
    assert said in capsys.readouterr().err


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


OTHER_TYPES = [
    ("provenance", "dtype", [None, 7, []]),
    ("provenance", "params", [None, "x"]),
    ("provenance", "libraries", [None, 7]),
    ("run", "batch_size", ["x", [1], True]),
]


@pytest.mark.parametrize(("part", "name", "values"), OTHER_TYPES)
def test_a_row_of_other_types_is_refused_before_it_runs(
    boards, source, tmp_path, capsys, monkeypatch, part, name, values
):
    monkeypatch.setattr(bench, "plan", None)
    for value in values:
        changed(boards, tmp_path, lambda row, value=value: row[part].update({name: value}))
        assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 2
        assert f"ours on few_shot_colours.{part}.{name}' must be a" in capsys.readouterr().err


def test_a_row_named_like_two_models_is_no_model(boards, source, tmp_path, capsys):
    changed(boards, tmp_path, lambda row: row.update(model=f"raw-pixels,{row['model'][:4]}"))
    assert rerun(tmp_path, source, "raw-pixels,ours") == 2
    assert "no model is named 'raw-pixels,ours'" in capsys.readouterr().err


def row(*scores, trained):
    named = {"task": "t", "version": 1, "paper": "", "primary": {}, "model": "m", "status": "ok"}
    return Result(**named, scores=scores, run={"trained": trained})


def answers(board, now, *, trained=False):
    (change,) = score_changes(row(board, trained=trained), row(now, trained=trained))
    return change.answer


MOVES = [
    (0.5, 0.5 + 4e-7, 1000, EQUAL),
    (0.0, -1.1e-16, 1000, EQUAL),  # a rounding, as on the board of rsa_scenes
    (0.5, 0.503, 1000, WITHIN),  # three items of 1,000
    (0.5, 0.504, 1000, DIFFERENT),
    (0.5, 0.50009, 10**6, WITHIN),
    (0.5, 0.50011, 10**6, DIFFERENT),
]


@pytest.mark.parametrize(("board", "now", "n", "answer"), MOVES)
def test_scores_without_training_move_by_items_at_a_boundary(board, now, n, answer):
    assert answers(Score("accuracy", board, n), Score("accuracy", now, n)) == answer


def test_a_score_without_limits_moves_by_that_fraction_of_its_value():
    def perplexity(value):
        return Score("perplexity", value, 100, unit="perplexity")

    assert answers(perplexity(200.0), perplexity(205.9)) == WITHIN
    assert answers(perplexity(200.0), perplexity(206.1)) == DIFFERENT


def test_scores_of_trainings_move_by_twice_the_error_over_their_seeds():
    # The deviation of 0.4, 0.5, 0.6 is 0.1; its error over three seeds 0.0577.
    now = Score("accuracy", 0.5, 10000, draws=[0.4, 0.5, 0.6])
    for value, answer in [(0.61, WITHIN), (0.62, DIFFERENT)]:
        board = Score("accuracy", value, 10000)
        assert answers(board, now, trained=True) == answer
        assert answers(board, now) == DIFFERENT


def test_only_scores_of_the_board_have_to_be_there_again(boards, source, tmp_path, capsys):
    changed(boards, tmp_path, lambda row: row.update(scores=row["scores"][:1]))
    assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 0
    assert "1 of 1 scores are equal, 2 not on the board" in capsys.readouterr().out
    changed(boards, tmp_path, lambda row: row["scores"][1].update(metric="precision"))
    assert rerun(tmp_path, source, "ours", "--as-model", "mean-colour") == 1
    assert "absent now" in capsys.readouterr().out


def test_a_row_that_the_output_lacks_is_one_of_the_shipped_boards(tmp_path):
    words = ["rerun", "few_shot_scenes", "tiny-rn", "--output", str(tmp_path)]
    rerun = read_rerun(parser_of().parse_args(words))
    assert rerun.row.model == "tiny-rn"
    assert rerun.notes == ["tiny-rn: from the boards shipped with vlbench"]
