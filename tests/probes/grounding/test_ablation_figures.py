"""vlbench/probes/grounding/ablation_figures.py on planted drops."""

import pytest
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


HEADS = [planted("drop", "head", 0.1 * layer, layer, head) for layer in (0, 1) for head in (0, 1)]
LAYERS = [
    *(planted("drop", "layer", value, layer) for layer, value in enumerate((0.1, 0.3, 0.2))),
    *(planted("drop", "text to image", 0.3, layer) for layer in (0, 1)),
]


def figures(table, artifacts=KEPT):
    row = result("m.1", task="ablation", artifacts=artifacts)
    return drops(row, "Ablation", lambda *_: table, LOOK)


def test_each_head_is_a_cell_without_a_mark():
    (figure,) = figures([*HEADS, planted("p_of_drop", "best heads", 0.01)]).values()
    panel = figure.axes[0]
    assert panel.images[0].get_array().tolist() == [[0, 0], [0.1, 0.1]]
    assert not panel.collections
    assert not any(beyond(figure))


@pytest.mark.parametrize(("p", "marked"), [(0.05, [[1, 0.3]]), (0.06, []), (None, [])])
def test_the_largest_layer_is_marked_if_p_says_so(p, marked):
    tests = [] if p is None else [planted("p_of_drop", "largest layer", p)]
    (figure,) = figures([planted("drop", "best heads", 0.4), *LAYERS, *tests]).values()
    first, second = figure.axes
    assert [first.get_title(), second.get_title()] == ["layer", "text to image"]
    assert first.lines[0].get_ydata().tolist() == [0.1, 0.3, 0.2]
    assert [dot for one in first.collections[1:] for dot in one.get_offsets().tolist()] == marked
    assert len(second.collections) == 1  # the interval
    assert not any(beyond(figure))


def test_a_row_without_a_table_has_no_figure():
    assert figures([]) == figures(HEADS, {}) == {}
    assert {*figures(HEADS + LAYERS)} == {"heads", "layers"}
