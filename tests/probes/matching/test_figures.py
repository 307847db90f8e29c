from planted_boards import board, result, score

from vlbench.drawing.looks import looks
from vlbench.probes.matching.figures import above_response_bias, replies

LOOKS = looks(["a", "b"])
GAIN = "accuracy_gain_over_response_bias"


def row(model, value, bias, verdict):
    own = score(value, at={}, chance=0.5, floors={"response_bias": bias}, ci95=(0.3, 0.9))
    gain = score(value - bias, GAIN, at={}, verdict=verdict, range=(-1, 1))
    return result(model, own, gain)


def test_models_are_drawn_by_their_gain_and_filled_if_it_is_above_the_bias():
    rows = [row("a", 0.7, 0.69, "no finding, p 0.4"), row("b", 0.6, 0.5, "finding, p 0.001")]
    planted = board(*rows, primary={"metric": "accuracy", "at": {}})
    figure = above_response_bias(planted, "Planted", LOOKS)
    (panel,) = [axes for axes in figure.get_axes() if axes.get_xlabel()]
    assert [one.get_text() for one in panel.get_yticklabels()] == ["a", "b"]
    dots = [line for line in panel.get_lines() if line.get_marker() == "o"]
    marks = [line for line in dots if len(line.get_xdata())]
    assert [(line.get_xdata()[0], line.get_markerfacecolor()) for line in marks] == [
        (0.7, "white"), (0.6, LOOKS["b"].colour),
    ]  # fmt: skip
    assert above_response_bias(board(result("a", score(0.5))), "Planted", LOOKS) is None


def test_replies_are_drawn_against_right_answers_by_category():
    columns = ("category", "options", "said", "right", "replies")
    lines = [("x", 2, 1, 1, 3.0), ("x", 2, 1, 2, 1.0), ("y", 2, 0, 2, 2.0)]
    table = [dict(zip(columns, line, strict=True)) for line in lines]
    kept = result("a", score(0.5), artifacts={"replies": {"file": "r", "digest": "d"}})
    figure = replies(kept, "Planted", LOOKS["a"], lambda *_: table)
    first, second = [axes for axes in figure.get_axes() if axes.get_title()]
    assert [first.get_title(), second.get_title()] == ["x", "y"]
    assert [bar.get_height() for bar in first.patches][:3] == [1, 0, 0]
    assert [*first.get_lines()[0].get_ydata()] == [0.75, 0.25]
    assert [bar.get_height() for bar in second.patches][:3] == [0, 0, 1]
    assert replies(result("a", score(0.5)), "Planted", LOOKS["a"], lambda *_: table) is None
