import pytest
from planted_boards import board, result, score, write

from vlbench.cli import main
from vlbench.errors import DataError
from vlbench.report.figures.scatter import pair_of, scatter

VALUES = {"a": (0.2, 0.9), "b": (0.3, 0.7), "c": (0.6, 0.8), "d": (0.9, 0.1)}


def boards(values, **second):
    """Return boards of two tasks with the scores of each model."""
    xs = [result(name, score(x)) for name, (x, _) in values.items()]
    ys = [result(name, score(y, **second)) for name, (_, y) in values.items()]
    return [board(*xs, task="x"), board(*ys, task="y")]


def test_points_are_the_scores_and_the_title_says_how_they_correlate():
    pair = pair_of(boards(VALUES), ["First", "Second"])
    # Ranks 1 2 3 4 against 4 2 3 1: 1 - 6 (9 + 0 + 0 + 9) / (4 * 15).
    assert pair.correlation == pytest.approx(-0.8)
    figure = scatter(pair)
    (axes,) = figure.axes
    points = {tuple(map(float, bars.lines[0].get_xydata()[0])) for bars in axes.containers}
    assert points == set(VALUES.values())
    assert figure.get_suptitle() == "4 models, Spearman's correlation -0.80"
    assert {text.get_text() for text in axes.texts} == set(VALUES)
    assert axes.get_xlabel().startswith("First: ")


def test_better_correlates_with_better_where_lower_is_better():
    pair = pair_of(boards(VALUES, higher_is_better=False), ["First", "Second"])
    assert pair.correlation == pytest.approx(0.8)


def test_few_models_and_equal_scores_have_no_correlation():
    assert pair_of(boards(dict([*VALUES.items()][:3])), ["x", "y"]).correlation is None
    same = dict.fromkeys(VALUES, (0.5, 0.5))
    assert pair_of(boards(same), ["x", "y"]).correlation is None


def test_controls_and_models_of_one_board_are_left_out():
    known = board(
        result("a", score(0.1)),
        result("b", score(0.2), provenance={"weights": "sha256:1", "control": True}),
        task="x",
    )
    other = board(result("a", score(0.3)), result("b", score(0.2)), task="y")
    assert list(pair_of([known, other], ["x", "y"]).scores) == ["a"]
    with pytest.raises(DataError, match="no model has comparable scores of both x and y"):
        pair_of([known, board(result("z", score(0.3)), task="y")], ["x", "y"])


def test_the_command_writes_the_file_that_its_name_asks_for(tmp_path, capsys):
    write(tmp_path / "boards", *boards(VALUES))
    for name, begins in (("s.png", b"\x89PNG"), ("s.pdf", b"%PDF"), ("s.svg", b"<?xml")):
        file = tmp_path / name
        words = ["leaderboard", "scatter", "x", "y", "-o", str(file)]
        assert main([*words, "--output", str(tmp_path / "boards")]) == 0
        assert file.read_bytes().startswith(begins)
        assert "4 models in " in capsys.readouterr().out
