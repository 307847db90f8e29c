import pytest
from planted_boards import board, result, score, write

from vlbench.cli import main
from vlbench.errors import DataError
from vlbench.report.figures.scatter import pair_of, scatter

VALUES = {"a": (0.2, 0.9), "b": (0.3, 0.7), "c": (0.6, 0.8), "d": (0.9, 0.1), "e": (0.95, 0.05)}


def boards(values, **second):
    """Return boards of two tasks with the scores of each model."""
    xs = [result(name, score(x)) for name, (x, _) in values.items()]
    ys = [result(name, score(y, **second)) for name, (_, y) in values.items()]
    return [board(*xs, task="x"), board(*ys, task="y")]


def test_points_are_the_scores_and_the_title_says_how_they_correlate():
    pair = pair_of(boards(VALUES), ["First", "Second"])
    # Ranks 1 2 3 4 5 against 5 3 4 2 1: 1 - 6 (16 + 1 + 1 + 4 + 16) / (5 * 24). Of the 120 orders,
    # the sorted one and its 4 swaps of neighbours are as far from 0, at each end.
    assert pair.correlation == pytest.approx((-0.9, 10 / 120))
    figure = scatter(pair)
    (axes,) = figure.axes
    points = {tuple(map(float, bars.lines[0].get_xydata()[0])) for bars in axes.containers}
    assert points == set(VALUES.values())
    title = figure.get_suptitle().replace("\n", " ")
    assert title == "5 models, Spearman's correlation -0.90, p 0.083 by permutation"
    assert {text.get_text() for text in axes.texts} == set(VALUES)
    assert axes.get_xlabel().startswith("First: ")


def test_better_correlates_with_better_where_lower_is_better():
    pair = pair_of(boards(VALUES, higher_is_better=False), ["First", "Second"])
    assert pair.correlation == pytest.approx((0.9, 10 / 120))


def test_few_models_and_equal_scores_have_no_correlation():
    few = pair_of(boards(dict([*VALUES.items()][:4])), ["x", "y"])
    assert (few.correlation, few.verdict) == (None, "too few for a correlation")
    same = dict.fromkeys(VALUES, (0.5, 0.5))
    assert pair_of(boards(same), ["x", "y"]).correlation is None


def test_with_many_models_p_is_that_of_drawn_orders():
    rising = {chr(97 + i): (i / 20, i / 20) for i in range(12)}
    r, p = pair_of(boards(rising), ["x", "y"]).correlation
    assert r == pytest.approx(1)
    assert 0 < p < 0.001


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
        out = capsys.readouterr().out
        assert "5 models in " in out
        assert "correlation -0.90, p 0.083 by permutation" in out
