"""Two folders of images under one task: every view keeps their rows apart by the folders' names."""

import json
from dataclasses import replace

import every_eval_ever
import numpy as np
import pytest
from PIL import Image
from planted_boards import result, score

import vlbench
from vlbench.boards.board import folder_boards
from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.errors import UnknownNameError
from vlbench.report.data_sets import by_data, set_names
from vlbench.report.figures.figures import board_panels
from vlbench.report.figures.scatter import pair_of
from vlbench.report.pivot import grid, pivots

FEW, KNN = "few_shot_images", "knn_images"
TITLES = {FEW: "Few-shot classification, your images", KNN: "Nearest neighbours, your images"}
# The images of a class: with them n and chance differ, too.
SIZES = {"flowers": 20, "cars": 24}


def images(folder, count, colour):
    """Write images of two classes, which differ by a colour; return their folder."""
    rng = np.random.default_rng(count)
    for channel, name in ((0, "red"), (2, "blue")):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(60, 120, (8, 8, 3), np.uint8)
            pixels[..., channel] += np.uint8(colour)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Boards of two tasks; the order of the folders differs, and so does the number of models."""
    root = tmp_path_factory.mktemp("two")
    runs = [
        (FEW, "flowers", ["raw-pixels", "constant"]),
        (FEW, "cars", ["raw-pixels", "constant"]),
        (KNN, "cars", ["raw-pixels", "constant"]),
        (KNN, "flowers", ["raw-pixels"]),
    ]
    for name, count in SIZES.items():
        images(root / name, count, 100 if name == "flowers" else 0)
    for task, name, models in runs:
        given = {"data_dir": {task: root / name}, "cache_dir": root / "cache"}
        vlbench.evaluate(models, task, output=root / "results", progress=False, **given)
    assert main(["leaderboard", "build", "--output", str(root / "results")]) == 0
    return root / "results"


def printed(capsys, output, *words):
    """Return what a command prints, and its exit code."""
    capsys.readouterr()
    code = main([*words, "--output", str(output)])
    captured = capsys.readouterr()
    return captured.out + captured.err, code


def value(output, task, name, model="raw-pixels"):
    """Return the primary score of a model on a folder, as its row has it."""
    rows = folder_boards(output)[task].results
    (row,) = (r for r in rows if r.model == model and r.provenance["data_name"] == name)
    return row.primary_score.value


COLUMNS = {f"{TITLES[task]}: {name}" for task in TITLES for name in SIZES}
TASKS = {f"{task}: {name}" for task in TITLES for name in SIZES}

SETS = {"on cars", "on flowers; not comparable with cars"}

VIEWS = [
    ("leaderboard show", {"Few-shot classification", "Nearest neighbours"} | {*SIZES}),
    (f"leaderboard show {FEW}", SETS),
    ("leaderboard export --pivot --format md", COLUMNS),
    ("leaderboard export --pivot --format tex", COLUMNS),
    (f"leaderboard export --pivot --format md {FEW} {KNN}", COLUMNS),
    ("leaderboard export --pivot --format csv", {",cars,", ",flowers,"}),
    ("leaderboard export --pivot --format json", {'"data": "cars"', '"data": "flowers"'}),
    ("leaderboard export --format csv", {",cars,", ",flowers,"}),
    ("leaderboard export --format json", {'"data_name": "cars"', '"data_name": "flowers"'}),
    ("leaderboard export --format md", SETS),
    ("leaderboard export --format tex", SETS),
    ("leaderboard compare raw-pixels constant", {f"{FEW} (cars)", f"{FEW} (flowers)"}),
    (f"items {FEW} raw-pixels", {"raw-pixels has 2 rows", "cars, flowers"}),
    (f"items {FEW} raw-pixels --data zzz", {"is named 'zzz'", "cars, flowers"}),
    (f"rerun {FEW} raw-pixels", {"raw-pixels has 2 rows", "cars, flowers"}),
    (f"leaderboard scatter {FEW} {KNN} -o x.svg", {"cars, flowers", "--data"}),
]


@pytest.mark.parametrize(("command", "texts"), VIEWS, ids=[command for command, _ in VIEWS])
def test_a_view_names_both_or_refuses_and_says_the_names(capsys, output, command, texts):
    text, _ = printed(capsys, output, *command.split())
    flat = " ".join(text.replace("\\", "").split())
    assert [one for one in sorted(texts) if one not in flat] == []
    assert "set 1" not in text


def test_each_cell_is_that_of_its_column(capsys, output):
    text, _ = printed(capsys, output, *["leaderboard", "export", "--pivot", "--format", "json"])
    cells = {(one["task"], one["data"], one["model"]): one["value"] for one in json.loads(text)}
    assert len(cells) == 7
    wanted = {(t, n): value(output, t, n) for t in TITLES for n in SIZES}
    assert {key: cells[*key, "raw-pixels"] for key in wanted} == wanted
    assert all(wanted[task, "flowers"] > wanted[task, "cars"] for task in TITLES)


def test_a_row_has_the_name_of_its_folder_and_not_the_path(output):
    assert str(output.parent) not in (output / f"{FEW}.json").read_text()


def test_python_keeps_them_apart(output):
    boards = vlbench.load(output)
    assert {*boards.frame()["data"]} == {*SIZES}
    pivot = boards.pivot()
    assert {*pivot.columns} == TASKS
    assert pivot.loc["raw-pixels", f"{KNN}: cars"] == value(output, KNN, "cars")
    message = r"raw-pixels has 2 rows on few_shot.*data=, one of cars, flowers"
    with pytest.raises(UnknownNameError, match=message):
        boards.items(FEW, "raw-pixels")
    assert {n: boards.items(FEW, "raw-pixels", data=n)["id"].nunique() for n in SIZES} == SIZES
    assert "<td>cars</td>" in boards._repr_html_()


def test_the_command_items_takes_the_name(capsys, output):
    words = ["items", FEW, "raw-pixels", "--data", "cars", "--json"]
    text, code = printed(capsys, output, *words)
    assert (len(json.loads(text)), code) == (SIZES["cars"], 0)


def test_the_page_names_them_in_tables_columns_and_models(output):
    assert main(["leaderboard", "page", "--output", str(output)]) == 0
    text = (output / "page/index.html").read_text()
    assert all(f"{column}</a>" in text for column in COLUMNS)
    assert "<h4>On cars</h4>" in text
    assert "<h4>On flowers; not comparable with cars</h4>" in text
    assert "Items wrong most often: " in text


def test_records_of_other_sites_name_them(output, tmp_path):
    assert every_eval_ever.main([FEW, "--to", str(tmp_path), "--output", str(output)]) == 0
    records = [json.loads(file.read_text()) for file in tmp_path.rglob("*.json")]
    data = [one["evaluation_results"][0]["source_data"]["additional_details"] for one in records]
    assert sorted(one["data_name"] for one in data) == ["cars", "cars", "flowers", "flowers"]


def test_figures_have_a_panel_for_each(output):
    assert {panel.title for panel in board_panels(folder_boards(output)[FEW])} == {*SIZES}


def test_the_models_of_one_are_drawn(output):
    boards, titles = folder_boards(output), ["x", "y"]
    pair = pair_of([boards[FEW], boards[KNN]], titles, "cars")
    first, second = pair.scores["raw-pixels"]
    assert (first.value, second.value) == (value(output, FEW, "cars"), value(output, KNN, "cars"))
    message = "give --data, or in Python data=, one of cars, flowers"
    with pytest.raises(UnknownNameError, match=message):
        pair_of([boards[FEW], boards[KNN]], titles)


def planted(model, data, name="", comparable=""):
    made = {"data": f"vlbench.data.image_folder:image_folder sha256:{data}"}
    made |= {"data_name": name} if name else {}
    return result(model, score(0.5), comparable=comparable or data, provenance=made)


NAMES_OF_DATA = [
    ([("1", "flowers"), ("2", "cars")], ["flowers", "cars"]),
    ([("1234567", "flowers"), ("2345678", "flowers")], ["flowers 123456", "flowers 234567"]),
    ([("1234567",), ("2345678",)], ["image_folder 123456", "image_folder 234567"]),
    ([("1",), ("2", "cars")], ["image_folder", "cars"]),
    ([("1",), ("1", "cars")], ["cars"]),
    ([("1", "a"), ("1", "b")], ["a"]),
    ([("1", "\x1b[31mred")], ["\\x1b[31mred"]),
]


@pytest.mark.parametrize(("rows", "names"), NAMES_OF_DATA)
def test_data_have_the_name_of_their_folder_and_a_digest_if_two_share_it(rows, names):
    assert [*by_data([planted("m", *row) for row in rows])] == names


def test_rows_of_a_published_set_have_its_name():
    row = result("m", score(), provenance={"data": "vlbench.data.cifar:cifar10 sha256:1"})
    assert [*by_data([row])] == ["CIFAR-10"]


def test_sets_of_the_same_data_are_named_by_their_first_models():
    rows = [planted(m, "1", "cars", key) for m, key in zip("abcd", "xxxy", strict=True)]
    rows.append(replace(rows[0], model="blind", provenance={**rows[0].provenance, "control": True}))
    assert set_names(rows) == {"x": "cars: a, b and 1 more", "y": "cars: d"}


def test_sets_of_other_parameters_are_named_by_their_values():
    rows = [planted("m", "1", "cars", key) for key in "xyz"]
    for row, k in zip(rows[1:], (3, 5), strict=True):
        row.provenance["task_params"] = {"k": k}
    assert set_names(rows) == {"x": "cars: m", "y": "cars: k=3", "z": "cars: k=5"}


def test_sets_of_the_same_models_are_told_apart_by_what_is_compared():
    rows = [planted("m", "1", "cars", key) for key in ("x", "y")]
    assert set_names([*rows, planted("m", "2", "dogs")]) == {
        "x": "cars x",
        "y": "cars y",
        "2": "dogs",
    }
    assert set_names(rows[:1]) == {"x": ""}


def test_folders_that_are_alone_on_their_boards_are_not_one_data_set(output):
    known = load_catalog()
    boards = [
        replace(board, results=[r for r in board.results if r.provenance["data_name"] == name])
        for board, name in zip(folder_boards(output).values(), SIZES, strict=True)
    ]
    (table,) = pivots(boards, known, {})
    assert table.title == "Other data"
    assert {column.title for column in table.columns} == {
        f"{TITLES[FEW]}: flowers",
        f"{TITLES[KNN]}: cars",
    }
    same = [folder_boards(output)[task] for task in (FEW, KNN)]
    titles = {one.title: grid(one).head[1:] for one in pivots(same, known, {})}
    names = ["Few-shot classification", "Nearest neighbours"]
    assert titles == {"cars": names, "flowers": names}
