import json
import re

import pytest
from PIL import Image

from vlbench.leaderboard.charts import Panel, Point, chart, look
from vlbench.leaderboard.figures import board_panels, draw_figures, size_panels


def score(value, chance=0.1, ci95=(0.0, 1.0), **at):
    return {
        "metric": "accuracy",
        "value": value,
        "n": 100,
        "at": at,
        "stderr": 0.01,
        "ci95": ci95,
        "chance": chance,
        "floors": {},
        "draws": [],
        "unit": "fraction",
        "higher_is_better": True,
    }


def row(model, *scores, weights="sha256:1", expected=100):
    return {
        "model": model,
        "status": "ok",
        "comparable": "a",
        "scores": list(scores),
        "counts": {"n": 100, "expected": expected},
        "provenance": {"weights": weights},
    }


def board(*rows, **at):
    head = {"schema": 1, "task": "t", "version": 1, "paper": ""}
    return head | {"primary": {"metric": "accuracy", "at": at}, "rows": list(rows)}


def test_a_condition_that_is_a_number_is_the_axis_and_one_that_is_a_word_has_a_panel_each():
    scores = [
        score(value, norm=norm, epsilon=epsilon)
        for value, norm, epsilon in [(0.1, "l2", 0), (0.4, "l2", 0.5), (0.3, "linf", 0.1)]
    ]
    first, second = board_panels(board(row("m", *scores), norm="l2", epsilon=0.5), "few")
    assert (first.title, first.x, first.y) == ("few, norm l2", "epsilon", "accuracy")
    assert first.models == {"m": [Point(0, 0.1, (0.0, 1.0)), Point(0.5, 0.4, (0.0, 1.0))]}
    assert first.chance == [(0, 0.1), (0.5, 0.1)]
    assert second.models == {"m": [Point(0.1, 0.3, (0.0, 1.0))]}


def test_scores_without_conditions_are_one_a_model():
    (panel,) = board_panels(board(row("a", score(0.1)), row("b", score(0.2))))
    assert (panel.x, set(panel.models)) == ("", {"a", "b"})


@pytest.mark.parametrize("lacking", [{"expected": 101}, {"weights": "random:0"}])
def test_rows_that_may_not_be_published_are_not_drawn(lacking):
    assert board_panels(board(row("m", score(0.1), **lacking))) == []


def test_a_condition_that_is_a_number_is_told_in_four_digits():
    (panel,) = board_panels(board(row("m", score(0.1, epsilon=4 / 255))))
    assert panel.title == "epsilon 0.01569"


def test_a_mean_without_an_interval_has_its_standard_error():
    (panel,) = board_panels(board(row("m", score(0.5, ci95=None))))
    assert panel.models["m"][0].interval == (pytest.approx(0.49), pytest.approx(0.51))


def test_three_models_that_say_how_many_images_they_saw_are_set_against_it():
    summary = board(*(row(model, score(0.1, shots=5)) for model in "abc"), shots=5)
    (panel,) = size_panels(summary, {"a": 10, "b": 100, "c": 1000})
    assert [panel.models[m][0].x for m in "abc"] == [10, 100, 1000]
    assert size_panels(summary, {"a": 10, "b": 100}) == []


def test_eight_models_differ_in_colour_and_forty_in_colour_or_mark():
    names = [f"{i:02}" for i in range(40)]
    looks = [look(name, names) for name in names]
    assert len({x["color"] for x in looks[:8]}) == 8
    assert len({(x["color"], x["marker"]) for x in looks}) == 40


@pytest.fixture
def output(tmp_path):
    (tmp_path / "summaries").mkdir()
    found = board(row("m", score(0.1, shots=1), score(0.4, shots=5)), shots=5)
    for file in ("a.json", "b.json"):
        (tmp_path / file).write_text(json.dumps(found))
    del found["rows"][0]["provenance"]  # of a mean there is none
    (tmp_path / "summaries" / "both.json").write_text(json.dumps(found))
    return tmp_path


def test_every_board_and_every_group_is_drawn_the_same_twice(output):
    files = draw_figures(output, {"both": ["a", "b"]}, {})
    first = [file.read_bytes() for file in files]
    assert [file.name for file in files] == [
        f"{name}.{kind}" for name in ("a", "b", "both") for kind in ("svg", "png")
    ]
    assert [f.read_bytes() for f in draw_figures(output, {"both": ["a", "b"]}, {})] == first


def test_a_figure_that_no_row_is_left_for_is_removed(output):
    draw_figures(output, {"both": ["a", "b"]}, {})
    partial = board(row("m", score(0.4, shots=5), expected=101), shots=5)
    (output / "a.json").write_text(json.dumps(partial))
    (output / "summaries" / "both.json").unlink()
    draw_figures(output, {"both": ["a", "b"]}, {})
    assert sorted(file.name for file in (output / "figures").iterdir()) == ["b.png", "b.svg"]


def test_a_figure_says_its_titles_axes_and_models(output):
    draw_figures(output, {"both": ["a", "b"]}, {})
    drawn = (output / "figures" / "both.svg").read_text("utf-8")
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", drawn)
    wanted = {"both", "a", "b", "mean and its standard error", "shots", "accuracy", "chance", "m"}
    assert wanted <= set(texts), texts
    with Image.open(output / "figures" / "both.png") as picture:
        assert picture.width > 500


def test_an_axis_that_reaches_far_is_logarithmic_and_one_that_does_not_is_plain():
    points = {"m": [Point(x, 0.5, None) for x in (0, 1e-4, 1.0)]}
    far = chart("far", [Panel(title="", x="epsilon", y="success", models=points)])
    points = {"m": [Point(x, 0.5, None) for x in (1, 5, 10)]}
    near = chart("near", [Panel(title="", x="shots", y="accuracy", models=points)])
    assert far.axes[0].get_xscale() == "symlog"
    assert near.axes[0].get_xscale() == "linear"
