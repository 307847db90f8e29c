from dataclasses import replace

import pyarrow as pa
import pytest
from canvases import beyond
from matplotlib.colors import to_hex
from planted_boards import board, result, score, write

from vlbench.boards.board import folder_boards, save_artifacts
from vlbench.drawing.looks import looks
from vlbench.probes.grounding import figures
from vlbench.probes.grounding.figures import head_figure
from vlbench.report.figures.task_figures import draw_task_figures

LOOKS = looks(["m.1"])
FLOORS = {"random_region": 0.25, "largest_region": 0.2, "most_confident_region": 0.3}
GONE = {"file": "artifacts/grounding/m.1/heads.parquet", "sha256": ""}
LOOKING = ["head that does not look at the image", "head that looks at the image"]
SIX = ("det", "nsubj", "dobj", "prep", "pobj", "num")


def drawn(output):
    given = {"grounding": {"heads": figures.heads}}
    return draw_task_figures(output, folder_boards(output), given, LOOKS, {})[0]


def row(*relations, **floors):
    scores = [
        score(0.5, "best_head_accuracy", at={"relation": name} if name else {}, floors=floors)
        for name in relations or [""]
    ]
    return result("m.1", *scores, task="grounding", artifacts={"heads": GONE})


def heads(*relations, active=(True, False)):
    """Return a head in each of two layers, for each relation."""
    return [
        {"layer": layer, "head": 0, "accuracy": 0.5, "active": active[layer]}
        | ({"relation": name} if name else {})
        for name in relations or [""]
        for layer in (0, 1)
    ]


def planted(folder, table=None):
    """Write a board of one row and its table of heads."""
    tables = {"heads": pa.Table.from_pylist(heads()) if table is None else table}
    saved = save_artifacts(folder, "grounding", "m.1", tables)
    return write(folder, board(replace(row(**FLOORS), artifacts=saved), task="grounding"))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].texts]


def test_a_row_with_a_table_of_heads_has_a_figure_of_the_same_bytes_as_svg_and_png(tmp_path):
    files = drawn(planted(tmp_path))
    names = [file.relative_to(tmp_path).as_posix() for file in files]
    assert names == [f"figures/grounding/m.1.{kind}" for kind in ("svg", "png", "pdf")]
    first = [file.read_bytes() for file in files]
    assert b"<svg" in first[0]
    assert first[1][:4] == b"\x89PNG"
    assert [file.read_bytes() for file in drawn(tmp_path)] == first


@pytest.mark.parametrize("active", [(True, True), (None, None)])
def test_each_relation_has_a_panel(active):
    figure = head_figure(row(*SIX, **FLOORS), heads(*SIX, active=active), "title", LOOKS["m.1"])
    assert [axes.get_title() for axes in figure.axes if axes.axison] == list(SIX)


def test_the_legend_knows_heads_that_the_first_panel_lacks():
    table = [head | {"active": head["relation"] == "det"} for head in heads("det", "nsubj")]
    figure = head_figure(row("det", "nsubj", **FLOORS), table, "title", LOOKS["m.1"])
    assert {*LOOKING} < set(legend(figure))


@pytest.mark.parametrize(
    ("floors", "drawn"),
    [
        (FLOORS, ["most confident region", "random region"]),
        ({"largest_region": 0.2}, ["largest region"]),
        ({}, []),
    ],
)
def test_the_floors_of_a_row_are_drawn(floors, drawn):
    assert legend(head_figure(row(**floors), heads(), "title", LOOKS["m.1"])) == [*LOOKING, *drawn]


@pytest.mark.parametrize("relations", [[""], SIX[:5], SIX])
def test_nothing_of_a_figure_is_cut_and_its_title_may_be_long(relations):
    figure = head_figure(row(*relations, **FLOORS), heads(*relations), "long " * 60, LOOKS["m.1"])
    assert beyond(figure) == [0, 0, 0, 0]


def test_heads_that_look_at_the_image_are_in_the_colour_of_their_model():
    look = looks(["a", "m.1"])["m.1"]
    panel = head_figure(row(**FLOORS), heads(), "title", look).axes[0]
    others, active = [to_hex(found.get_facecolor()[0]) for found in panel.collections]
    assert (active, others) == (look.colour, "#aaaaaa")


def test_a_table_without_heads_or_their_columns_or_elsewhere_has_no_figure(tmp_path, caplog):
    assert drawn(planted(tmp_path, pa.Table.from_pylist(heads()).slice(0, 0))) == []
    assert drawn(planted(tmp_path, pa.table({"layer": [1]}))) == []
    assert "has no column accuracy, active, head" in caplog.text
    assert drawn(write(tmp_path, board(row(**FLOORS), task="grounding"))) == []
