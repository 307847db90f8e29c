import json
from argparse import Namespace

import pytest
from planted_boards import board, measured, result, score, write
from planted_findings import catalog, task

from vlbench.boards.board import folder_boards
from vlbench.catalog.catalog import load_catalog
from vlbench.commands.leaderboard.export import answer
from vlbench.errors import UnknownNameError
from vlbench.report.leaders import leaders_by_task
from vlbench.report.pivot import grid, lines, mark_notes, pivots

CONTROL = {"provenance": {"control": True}}


def tables(folder, *tasks):
    boards = [*folder_boards(folder).values()]
    return pivots(boards, catalog(*tasks), leaders_by_task(folder, boards))


def test_models_are_rows_and_tasks_are_columns_under_their_titles(tmp_path):
    write(
        tmp_path,
        board(result("b", score(0.5, chance=0.25)), result("a", score(0.75, chance=0.25))),
        board(result("b", score(3.5, unit="words")), task="u"),
    )
    (table,) = tables(tmp_path, task(title="Few, at last"), task("u"))
    assert [grid(table).head, *grid(table).rows] == [
        ["model", "Few, at last", "U"],
        ["a", "75.0 %", "-"],
        ["b", "50.0 %", "3.5"],
        ["chance", "25.0 %", "-"],
    ]


def test_a_score_without_a_direction_has_no_shade(tmp_path):
    write(
        tmp_path,
        board(result("a", score(0.6, chance=0.0))),
        board(result("a", score(0.6, chance=0.0, higher_is_better=None)), task="u"),
    )
    (table,) = tables(tmp_path, task(), task("u"))
    (cells,) = table.models.values()
    assert [cells[column.key].shade for column in table.columns] == [3, 0]


SHADES = [
    (score(0.07, chance=0.0), 0),
    (score(0.7, chance=0.5), 2),
    (score(1.0, chance=0.5), 5),
    (score(0.3, chance=0.5), 0),
    (score(0.1, chance=0.5, higher_is_better=False), 4),
    (score(0.8, chance=0.0, unit="correlation"), 4),
    (score(9.0, chance=3.0, unit="words"), 0),
    (score(1.0), 0),
]


@pytest.mark.parametrize(("shown", "shade"), SHADES)
def test_the_best_model_of_a_column_is_dark_only_if_it_is_far_from_chance(tmp_path, shown, shade):
    write(tmp_path, board(result("a", shown), result("b", score(0.0, chance=0.0))))
    (table,) = tables(tmp_path, task())
    assert table.models["a"]["t"].shade == shade


def test_a_control_has_no_shade(tmp_path):
    write(tmp_path, board(result("c", score(1.0, chance=0.0), **CONTROL)))
    (table,) = tables(tmp_path, task())
    assert table.controls["c"]["t"].shade == 0


def test_controls_stand_below_chance(tmp_path):
    write(
        tmp_path,
        board(
            result("a", score(0.5, chance=0.1)),
            result("z", score(0.9, chance=0.1)),
            result("c", score(0.6, chance=0.1), **CONTROL),
        ),
    )
    (table,) = tables(tmp_path, task())
    assert [name for name, *_ in grid(table).rows] == ["a", "z", "chance", "c (control)"]


def test_the_best_and_what_is_not_comparable_are_marked(tmp_path):
    rows = [measured(tmp_path, m, [1] * n + [0] * (90 - n)) for m, n in (("x", 90), ("y", 20))]
    write(tmp_path, board(*rows, result("apart", score(0.1), comparable="other")))
    (table,) = tables(tmp_path, task())
    ends = {model: text[-1] for model, text in grid(table).rows[:3]}
    assert ends == {"apart": "#", "x": "*", "y": "%"}


def test_a_model_that_was_trained_on_a_tasks_data_is_marked(tmp_path):
    rows = [result(m, score(0.5), task="few_shot_scenes") for m in ("tiny-clip", "other")]
    write(tmp_path, board(*rows, task="few_shot_scenes"))
    (table,) = pivots([*folder_boards(tmp_path).values()], load_catalog(), {})
    assert grid(table).rows[:2] == [["other", "50.0 %"], ["tiny-clip^", "50.0 %"]]
    assert [line["trained_on"] for line in lines([table])] == ["", "objects"]
    assert mark_notes([table]).startswith("^ the model was trained on")


def test_rows_that_do_not_count_are_left_out(tmp_path):
    partial = result("p", score(), counts={"n": 1, "expected": 2})
    random = result("r", score(), provenance={"weights": "random:0"})
    write(tmp_path, board(result("a", score()), partial, random, result("f", status="failed")))
    (table,) = tables(tmp_path, task())
    assert [*table.models] == ["a"]


def test_a_board_without_scores_is_no_column(tmp_path):
    write(tmp_path, board(result("a", score())), board(result("a", status="skipped"), task="u"))
    (table,) = tables(tmp_path, task(), task("u"))
    assert [column.task for column in table.columns] == ["t"]
    assert exported(tmp_path, "md", tasks=["t", "u"]).problems[0] == "u: no model has scores"


def test_tasks_are_grouped_by_the_data_that_their_titles_name(tmp_path):
    titles = {
        "t": "A, drawings",
        "u": "B, drawings",
        "v": "C, lakes",
        "w": "D, seas",
        "x": "E, seas",
    }
    write(tmp_path, *(board(result("a", score()), task=name) for name in titles))
    tasks = [
        task(name, title=title, tags=["embedded"] * (name in "tu"))
        for name, title in titles.items()
    ]
    found = tables(tmp_path, *tasks)
    assert [one.title for one in found] == ["seas", "Other data", "drawings"]
    assert [grid(one).head[1:] for one in found] == [["D", "E"], ["C, lakes"], ["A", "B"]]


def test_what_holds_for_all_scores_of_a_model_stands_beside_its_name(tmp_path):
    rows = {"counts": {"n": 4, "ties": 4, "choices": 4}}
    write(
        tmp_path,
        board(result("a", score(0.5), **rows), result("b", score(0.5), **rows)),
        board(result("a", score(0.5), **rows), result("b", score(0.5)), task="u"),
    )
    (table,) = tables(tmp_path, task(), task("u"))
    assert grid(table).rows == [
        ["a (mostly ties)", "50.0 %", "50.0 %"],
        ["b", "50.0 % (mostly ties)", "50.0 %"],
    ]


def test_a_line_has_the_numbers_behind_a_cell(tmp_path):
    write(tmp_path, board(result("a", score(0.5, ci95=(0.4, 0.6), chance=0.25))))
    (table,) = tables(tmp_path, task())
    assert table.models["a"]["t"].about == "95 % interval 40.0 to 60.0, n 100"
    (line,) = lines([table])
    numbers = {key: line[key] for key in ("value", "ci95_low", "ci95_high", "chance", "control")}
    assert numbers == {
        "value": 0.5,
        "ci95_low": 0.4,
        "ci95_high": 0.6,
        "chance": 0.25,
        "control": False,
    }


def exported(folder, style, to=None, **more):
    given = {
        "models": [],
        "tasks": [],
        "format": style,
        "to": to,
        "pivot": True,
        "organization": "",
    }
    given |= more
    return answer(Namespace(output=folder, include_path=[], **given))


@pytest.mark.parametrize(
    ("style", "part"),
    [("md", "| a\\_b | 50.0 % |"), ("tex", r"a\_b & 50.0 \% \\"), ("csv", ",a_b,False,0.5,")],
)
def test_the_table_comes_in_other_formats(tmp_path, style, part):
    write(tmp_path, board(result("a_b", score(0.5))))
    (text,) = exported(tmp_path, style).shown
    assert part in text


def test_named_tasks_and_models_are_one_table_with_n_and_intervals_in_its_caption(tmp_path):
    scores = [score(0.5, ci95=(0.4, 0.55), n=300), score(0.75, ci95=(0.7, 0.8), n=300)]
    rows = [result(m, one) for m, one in zip("ab", scores, strict=True)]
    other = board(result("a", score(0.5, unit="correlation")), task="u", paper="X, section 1")
    write(tmp_path, board(*rows, result("c", score())), other)
    (text,) = exported(tmp_path, "tex", tasks=["u", "t"], models=["b", "a"]).shown
    assert text.count("begin{table}") == 1
    assert "model & U & T" in text
    assert text.index("b & - & 75.0") < text.index(r"a & 0.500 & 50.0 \%")
    assert r"T: accuracy (shots 5), n 300, 95 \% intervals reach at most 10.0 points" in text
    assert "c &" not in text
    with pytest.raises(UnknownNameError, match="no model is named 'd'; there are a, b, c"):
        exported(tmp_path, "tex", models=["d"])


def test_the_table_is_written_to_a_file(tmp_path):
    write(tmp_path / "boards", board(result("a", score(0.5))))
    file = tmp_path / "table.json"
    assert exported(tmp_path / "boards", "json", file).shown == [f"wrote {file}"]
    assert [line["model"] for line in json.loads(file.read_text())] == ["a"]


def test_a_format_without_tables_is_refused(tmp_path):
    write(tmp_path, board(result("a", score(0.5))))
    message = "--pivot has the formats md, tex, csv, json, not hf"
    with pytest.raises(UnknownNameError, match=message):
        exported(tmp_path, "hf", tmp_path / "x")
