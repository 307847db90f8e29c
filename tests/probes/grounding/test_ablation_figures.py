"""vlbench/probes/grounding/ablation_figures.py on planted drops."""

from canvases import beyond
from planted_boards import result

from vlbench.drawing.looks import looks
from vlbench.probes.grounding.ablation_figures import drops

LOOK = looks(["m.1"])["m.1"]
KEPT = {"drops": {"file": "artifacts/ablation/m.1/drops.parquet", "sha256": ""}}


def planted(metric, cut, value, layer=None, head=None, half=0.05):
    """Return a row of the table of drops, whose interval is `half` to both sides."""
    ends = {"low": value - half, "high": value + half}
    return {"metric": metric, "cut": cut, "layer": layer, "head": head, "value": value, **ends}


HEADS = [
    *(planted("drop", "head", 0.1 * layer, layer, head) for layer in (0, 1) for head in (0, 1, 2)),
    planted("drop_beyond_random", "head", 0.2, 1, 2),
    planted("drop_beyond_random", "head", 0.02, 0, 0),
    planted("drop_beyond_random", "head", -0.2, 0, 1),
]
LAYERS = [
    *(planted("drop", "layer", 0.1 * layer, layer) for layer in (0, 1, 2)),
    *(planted("drop_beyond_random", "layer", 0.1 * layer - 0.1, layer) for layer in (0, 1, 2)),
    *(planted("drop", "text to image", 0.3, layer) for layer in (0, 1)),
]


def figures(table, artifacts=KEPT):
    row = result("m.1", task="ablation", artifacts=artifacts)
    return drops(row, "Ablation", lambda *_: table, LOOK)


def test_heads_told_apart_from_random_ones_are_marked():
    (figure,) = figures(HEADS).values()
    panel = figure.axes[0]
    assert panel.images[0].get_array().tolist() == [[0, 0, 0], [0.1, 0.1, 0.1]]
    assert panel.collections[0].get_offsets().tolist() == [[2, 1], [1, 0]]
    assert figure.legends[0].texts[0].get_text().endswith("(95 %): 2 of 6")
    assert not any(beyond(figure))


def test_each_kind_of_window_has_a_panel_with_the_mean_of_random_parts():
    (figure,) = figures([planted("drop", "best heads", 0.4), *LAYERS]).values()
    first, second = figure.axes
    assert [first.get_title(), second.get_title()] == ["layer", "text to image"]
    drop, random = (line.get_ydata() for line in first.lines[:2])
    assert [round(float(one), 9) for one in drop] == [0, 0.1, 0.2]
    assert [round(float(one), 9) for one in random] == [0.1] * 3
    assert [*second.lines[1].get_xdata()] == []
    assert first.collections[-1].get_offsets().tolist() == [[0, 0], [2, 0.2]]
    assert not any(beyond(figure))


def test_a_row_without_a_table_has_no_figure():
    assert figures([]) == figures(HEADS, {}) == {}
    assert {*figures(HEADS + LAYERS)} == {"heads", "layers"}
