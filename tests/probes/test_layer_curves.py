from planted_boards import board, result, score

from vlbench.drawing.looks import looks
from vlbench.probes.layer_curves import MOST_NAMES, stages

LOOKS = looks(["a", "b"])


def readings(*values, **floors):
    layers = [f"layer{i}" for i in range(len(values) - 1)] + ["output"]
    near = [(value - 0.1, value + 0.1) for value in values]
    read = [
        score(value, "read", at={"layer": layer}, ci95=ends, floors=floors, chance=0.1)
        for value, layer, ends in zip(values, layers, near, strict=True)
    ]
    return [score(0.5, "said", chance=0.1), score(0.6, "said_fitted", ci95=(0.5, 0.7)), *read]


def drawn(panel):
    """Return what is drawn in a panel along the stages or across, by its name."""
    return {line.get_label(): list(line.get_ydata()) for line in panel.get_lines()}


def test_a_model_has_a_panel_of_its_stages_with_the_scores_of_all_classes_last():
    both = [result("b", *readings(0.2, 0.9)), result("a", *readings(0.3, 0.4, raw_pixels=0.25))]
    figure = stages(board(*both), "Known and said", LOOKS)
    first, second = [axes for axes in figure.get_axes() if axes.get_title()]
    assert [first.get_title(), second.get_title()] == ["a", "b"]
    assert drawn(first) == {
        "read": [0.3, 0.4, 0.6],
        "said": [0.5, 0.5],
        "said, fitted": [0.6, 0.6],
        "chance": [0.1, 0.1],
        "raw pixels": [0.25, 0.25],
    }
    assert drawn(second)["read"] == [0.2, 0.9, 0.6]
    assert [one.get_text() for one in second.get_xticklabels()] == ["layer0", "output", "scores"]
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] > 0.9


def test_of_many_stages_some_are_named_the_last_among_them():
    figure = stages(board(result("a", *readings(*[0.5] * 40))), "t", LOOKS)
    (panel,) = figure.get_axes()
    names = [one.get_text() for one in panel.get_xticklabels()]
    assert len(names) <= MOST_NAMES
    assert names[-1] == "scores"
    # Without readings nothing is drawn.
    assert stages(board(result("a", score(0.5, "said"))), "t", LOOKS) is None
