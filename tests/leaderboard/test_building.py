import pytest
from sources import make_source

from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.leaderboard.building import build
from vlbench.leaderboard.comparison.leaders import read_leaders


@pytest.fixture
def output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = str(make_source(tmp_path / "ours"))
    model = ["--model", "mean-colour", "--include-path", source]
    assert main([*model, "--tasks", "few_shot_colours"]) == 0
    return tmp_path / "leaderboards"


def test_building_draws_the_boards_of_a_run_and_says_what_it_wrote(output, capsys):
    capsys.readouterr()
    assert main(["leaderboard", "build"]) == 0
    printed = capsys.readouterr().out
    assert "wrote leaderboards/figures/few_shot_colours.svg" in printed
    assert (output / "figures" / "few_shot_colours.png").stat().st_size > 1000


def test_a_folder_without_boards_is_an_error_of_the_command(tmp_path, capsys):
    assert main(["leaderboard", "build", "--output", str(tmp_path / "bords")]) == 2
    assert "no board at all in" in capsys.readouterr().err


def test_building_compares_with_the_leader(output):
    written = build(output, load_catalog([]))
    assert output / "comparisons" / "few_shot_colours.json" in written
    (found,) = read_leaders(output, "few_shot_colours").values()
    assert found.leader == "mean-colour"


def test_an_empty_folder_builds_nothing(tmp_path):
    assert build(tmp_path, load_catalog([])) == []
