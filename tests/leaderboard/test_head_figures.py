import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vlbench.cli import main
from vlbench.leaderboard.head_figures import draw_heads

FLOORS = {"random_region": 0.25, "largest_region": 0.2, "most_confident_region": 0.3}


def board(folder, *, relations=("",), active=(True, False), file=True):
    """Write a board of one row, and the table of two heads for each relation."""
    rows = [
        {"layer": layer, "head": 0, "accuracy": 0.5, "active": active[layer]}
        | ({"relation": relation} if relation else {})
        for relation in relations
        for layer in (0, 1)
    ]
    table = folder / "artifacts" / "grounding" / "m.1" / "heads.parquet"
    table.parent.mkdir(parents=True)
    if file:
        pq.write_table(pa.Table.from_pylist(rows), table)
    scores = [
        {"metric": "best_head_accuracy", "value": 0.5, "floors": FLOORS}
        | {"at": {"relation": relation} if relation else {}}
        for relation in relations
    ]
    row = {"model": "m.1", "status": "ok", "comparable": "", "scores": scores}
    row |= {"counts": {"n": 9, "expected": 9}, "provenance": {"weights": "sha256:1"}}
    row["artifacts"] = {"heads": {"file": str(table.relative_to(folder)), "sha256": ""}}
    whole = {"schema": 1, "task": "grounding", "version": 1, "rows": [row]}
    whole["primary"] = {"metric": "split_half_accuracy", "at": {}}
    (folder / "grounding.json").write_text(json.dumps(whole))
    return folder


def test_a_row_with_a_table_of_heads_has_a_figure_as_svg_and_png(tmp_path):
    files = draw_heads(board(tmp_path))
    names = [file.relative_to(tmp_path).as_posix() for file in files]
    assert names == ["figures/grounding/m.1.svg", "figures/grounding/m.1.png"]
    assert b"<svg" in files[0].read_bytes()
    assert files[1].read_bytes()[:4] == b"\x89PNG"


def test_the_same_board_gives_the_same_bytes(tmp_path):
    first = [file.read_bytes() for file in draw_heads(board(tmp_path))]
    assert [file.read_bytes() for file in draw_heads(tmp_path)] == first


@pytest.mark.parametrize("active", [(True, True), (None, None)])
def test_each_relation_has_a_panel(tmp_path, active):
    relations = ("det", "nsubj", "dobj", "prep", "pobj", "num")
    svg = draw_heads(board(tmp_path, relations=relations, active=active))[0].read_text()
    assert all(f"<!-- {relation} -->" in svg for relation in relations)


def test_the_legend_knows_heads_that_the_first_panel_lacks(tmp_path):
    relations = ("det", "nsubj")
    (table,) = board(tmp_path, relations=relations, active=(True, True)).rglob("heads.parquet")
    rows = pq.read_table(table).to_pylist()
    idle = [row | {"active": row["relation"] == "det"} for row in rows]
    pq.write_table(pa.Table.from_pylist(idle), table)
    assert "<!-- head that does not -->" in draw_heads(tmp_path)[0].read_text()


def test_a_row_whose_table_is_elsewhere_has_no_figure(tmp_path):
    assert draw_heads(board(tmp_path, file=False)) == []


def test_leaderboard_build_writes_the_figures(tmp_path, capsys):
    assert main(["leaderboard", "build", "--output", str(board(tmp_path))]) == 0
    assert f"wrote {tmp_path}/figures/grounding/m.1.svg" in capsys.readouterr().out
