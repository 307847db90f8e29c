import json
from pathlib import Path

import numpy as np
import pytest
from sources import make_source

from vlbench import evaluate, load
from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.errors import SpecError
from vlbench.run.options import Options
from vlbench.run.task import resolve_task


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run a task as it is written, and with other parameters; return where its board is."""
    folder = tmp_path_factory.mktemp("params")
    source = make_source(folder / "ours")
    where = ["--include-path", str(source), "--output", str(folder / "boards")]
    words = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--no-cache", *where]
    assert main(words) == 0
    assert main([*words, "--param", "trials=4", "--param", "seed=1"]) == 0
    return where


def rows(where):
    """Return the rows of the board by their parameters."""
    board = json.loads(Path(where[-1], "few_shot_colours.json").read_text())
    return {str(row["provenance"].get("task_params")): row for row in board["rows"]}


def test_other_parameters_make_a_row_of_their_own_that_is_not_compared(ran):
    both = rows(ran)
    written, given = both["None"], both["{'trials': 4, 'seed': 1}"]
    assert len(given["scores"][0]["draws"]) == 4
    assert written["comparable"] != given["comparable"]
    assert written["request"] != given["request"]


def test_each_view_names_the_parameters_and_leaves_the_row_out_of_published_tables(ran, capsys):
    assert main(["leaderboard", "show", "few_shot_colours", *ran]) == 0
    shown = capsys.readouterr().out
    assert "mean-colour (trials=4, seed=1)" in shown
    assert shown.index("mean-colour ") < shown.index("mean-colour (trials")
    assert main(["leaderboard", "export", "few_shot_colours", "--format", "csv", *ran]) == 0
    printed = capsys.readouterr()
    assert "trials" not in printed.out
    assert "other parameters than the task's: trials, seed" in printed.err


@pytest.mark.parametrize("params", [[], ["--param", "seed=1", "--param", "trials=4"]])
@pytest.mark.parametrize("door", [["items"], ["rerun", "--no-cache"]])
def test_a_row_is_found_and_run_again_by_its_parameters(ran, door, params, capsys):
    command, *more = door
    assert main([command, "few_shot_colours", "mean-colour", *more, *params, *ran]) == 0
    assert "different" not in capsys.readouterr().out


def test_a_row_that_is_not_there_is_named_with_those_that_are(ran, capsys):
    words = ["items", "few_shot_colours", "mean-colour", "--param", "trials=5", *ran]
    assert main(words) == 2
    assert "trials=4, seed=1; the task's own" in capsys.readouterr().err


def test_a_value_that_is_the_tasks_own_changes_nothing(ran, capsys):
    trials = len(rows(ran)["None"]["scores"][0]["draws"])
    words = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--no-cache", *ran]
    assert main([*words, "--param", f"trials={trials}"]) == 0
    assert "kept" in capsys.readouterr().out


WRONG_PARAMETERS = [
    (["trials=x"], "--param trials of few_shot_colours: 'trials' must be a whole number"),
    (["trils=3"], "'trils' is unknown; did you mean 'trials'?"),
    (["trials"], "--param must be NAME=VALUE; 'trials' is not"),
    (["trials=3", "trials=4"], "--param trials is given twice"),
    (["trials=[1"], "--param trials: not YAML"),
    (["trials.a=1"], "'trials' must be a whole number"),
    (["shots=[2]"], "--param shots of few_shot_colours must have 1, at which the primary"),
]


@pytest.mark.parametrize(("words", "why"), WRONG_PARAMETERS)
def test_a_wrong_parameter_is_named_with_the_task(ran, words, why, capsys):
    given = [word for one in words for word in ("--param", one)]
    run = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--dry-run", *given, *ran]
    assert main(run) == 2
    assert why in capsys.readouterr().err


def test_python_takes_them_as_values(ran):
    options = {"include_path": ran[1], "cache_dir": None}
    (row,) = evaluate("mean-colour", "few_shot_colours", params={"trials": 4}, **options)
    assert len(row.scores[0].draws) == 4
    with pytest.raises(SpecError, match="--param trials of few_shot_colours"):
        evaluate("mean-colour", "few_shot_colours", params={"trials": 0}, **options)
    with pytest.raises(SpecError, match=r"--param floors of few_shot_colours.*must be a mapping"):
        evaluate("mean-colour", "few_shot_colours", params={"floors": np.array([{}])}, **options)


def test_a_parameter_deep_in_a_mapping_leaves_the_others_as_the_file_has_them(tmp_path):
    catalog, name = load_catalog(), "caption_patterns_scenes"
    given = {"self_critical": {"learning_rate": 0.01}, "features": str(tmp_path)}
    own = resolve_task(catalog, name, True, Options()).arguments["captioner"]
    options = Options(params={"captioner": given})
    task = resolve_task(catalog, name, True, options)
    changed = task.arguments["captioner"]
    assert changed.self_critical == own.self_critical._replace(learning_rate=0.01)
    assert changed.weights == own.weights


def test_an_empty_mapping_leaves_nothing_of_the_files():
    catalog, name = load_catalog(), "few_shot_scenes"
    assert resolve_task(catalog, name, True, Options()).arguments["floors"]
    task = resolve_task(catalog, name, True, Options(params={"floors": {}}))
    assert task.arguments["floors"] == {}


def test_a_run_of_many_tasks_prints_its_scores(ran, capsys, monkeypatch):
    monkeypatch.setattr("vlbench.commands.printing.FEW", 0)
    words = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--no-cache", *ran]
    assert main([*words, "--param", "trials=4", "--param", "seed=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith(" mean-colour (trials=4) (seed=1)")]
    assert line.endswith("%")


@pytest.mark.parametrize("door", [["show"], ["export", "--pivot", "--format", "md"]])
def test_models_by_tasks_name_the_rows_that_they_leave_out(ran, door, capsys):
    assert main(["leaderboard", *door, *ran]) == 0
    why = "left out (other parameters than the task's: trials, seed): mean-colour"
    assert f"few_shot_colours: {why}" in capsys.readouterr().err


def test_a_pivot_from_python_has_the_tasks_own_rows_and_a_frame_tells_the_others(ran):
    boards = load(ran[-1])
    (score,) = [s["value"] for s in rows(ran)["None"]["scores"] if s["metric"] == "accuracy"]
    assert boards.pivot().to_dict() == {"few_shot_colours": {"mean-colour": score}}
    assert {*boards.frame()["params"].dropna()} == {'{"trials": 4, "seed": 1}'}


def test_a_notebook_shows_the_parameters_beside_the_models_name(ran):
    assert "<td>mean-colour (trials=4, seed=1)</td>" in load(ran[-1])._repr_html_()
