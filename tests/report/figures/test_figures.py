import re

import pytest
from PIL import Image
from planted_boards import board, counts, result, score, write

from vlbench.boards.board import folder_boards
from vlbench.drawing.looks import looks
from vlbench.report.figures.charts import Point
from vlbench.report.figures.figures import board_panels, draw_figures, size_panels

GROUPS = {"both": ["a", "b"]}
LOOKS = looks(["m"])


# The interval, chance and floor of each score.
SAME = ((0.0, 1.0), 0.1, ("majority_class", 0.2))


def at(value, **conditions):
    floors = {"majority_class": 0.2, "shuffled_labels": 0.15}
    return score(value, at=conditions, chance=0.1, ci95=(0.0, 1.0), stderr=0.01, floors=floors)


def test_a_condition_that_is_a_number_is_the_axis_and_one_that_is_a_word_has_a_panel_each():
    scores = [
        at(value, norm=norm, epsilon=epsilon)
        for value, norm, epsilon in [(0.1, "l2", 0), (0.4, "l2", 0.5), (0.3, "linf", 0.1)]
    ]
    first, second = board_panels(board(result("m", *scores)), "few")
    assert (first.title, first.x, first.y) == ("few, norm l2", "epsilon", "accuracy")
    assert first.models == {"m": [Point(0, 0.1, *SAME), Point(0.5, 0.4, *SAME)]}
    assert second.models == {"m": [Point(0.1, 0.3, *SAME)]}


def test_scores_without_conditions_are_one_per_model():
    (panel,) = board_panels(board(result("a", at(0.1)), result("b", at(0.2))))
    assert (panel.x, set(panel.models)) == ("", {"a", "b"})


def test_other_metrics_than_the_primary_are_not_drawn():
    (panel,) = board_panels(board(result("a", at(0.1), score(0.9, "success"))))
    assert panel.models == {"a": [Point(0, 0.1, *SAME)]}


@pytest.mark.parametrize(
    "lacking", [{"counts": counts(100, 101)}, {"provenance": {"weights": "random:0"}}]
)
def test_rows_that_are_not_publishable_are_not_drawn(lacking):
    assert board_panels(board(result("m", at(0.1), **lacking))) == []


def test_a_condition_that_is_a_number_is_told_in_four_digits():
    (panel,) = board_panels(board(result("m", at(0.1, epsilon=0.123456))))
    assert panel.title == "epsilon 0.1235"


def test_scores_of_another_unit_or_direction_have_a_panel_of_their_own():
    odd = score(0.2, at={}, unit="index", higher_is_better=False)
    first, second = board_panels(board(result("a", at(0.1)), result("b", odd)))
    assert (first.unit, first.higher_is_better, set(first.models)) == ("fraction", True, {"a"})
    assert (second.unit, second.higher_is_better, set(second.models)) == ("index", False, {"b"})


def test_a_mean_without_an_interval_has_its_standard_error():
    (panel,) = board_panels(board(result("m", score(0.5, stderr=0.01))))
    assert panel.models["m"][0].interval == (pytest.approx(0.49), pytest.approx(0.51))


def test_a_score_without_a_standard_error_has_no_interval_and_none_need_have_a_chance():
    (panel,) = board_panels(board(result("m", score(0.5))))
    assert panel.models == {"m": [Point(0, 0.5, None, None, None)]}


def test_three_models_that_say_how_many_images_they_saw_are_set_against_it():
    summary = board(*(result(model, at(0.1, shots=5)) for model in "abc"))
    (panel,) = size_panels(summary, {"a": 10, "b": 100, "c": 1000})
    assert (panel.title, panel.x) == ("shots 5", "training images")
    assert [panel.models[m][0].x for m in "abc"] == [10, 100, 1000]
    assert size_panels(summary, {"a": 10, "b": 100}) == []


def planted(folder):
    row = result("m", at(0.1, shots=1), at(0.4, shots=5))
    write(folder, board(row, task="a"), board(row, task="b"))
    mean = result("m", *row.scores, provenance={})  # a mean has none
    write(folder / "summaries", board(mean, task="both"))
    return folder


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    output = planted(tmp_path_factory.mktemp("drawn"))
    return draw_figures(output, folder_boards(output), GROUPS, {}, LOOKS)


def test_every_board_and_every_group_is_drawn(drawn):
    assert [file.name for file in drawn] == [
        f"{name}.{kind}" for name in ("a", "b", "both") for kind in ("svg", "png", "pdf")
    ]


def test_a_figure_is_drawn_the_same_twice(drawn, tmp_path):
    planted(tmp_path)
    files = draw_figures(tmp_path, folder_boards(tmp_path), GROUPS, {}, LOOKS)
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in drawn]


def test_a_figure_says_its_titles_axes_and_models(drawn):
    svg, png, _ = drawn[6:]
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", svg.read_text("utf-8"))
    wanted = {"Both", "A", "B", "mean and its standard error", "shots", "accuracy (%)", "m"}
    assert {*wanted, "chance", "hardest floor: majority class"} <= set(texts), texts
    with Image.open(png) as picture:
        assert picture.width > 500


@pytest.fixture
def stale(tmp_path):
    """A folder of no figures but those that are out of date."""
    for name in ("a.svg", "a.png", "both.svg", "both_by_training_images.png", "kept.svg"):
        (tmp_path / "figures").mkdir(exist_ok=True)
        (tmp_path / "figures" / name).write_text("of another day")
    return tmp_path


def test_a_figure_that_no_row_is_left_for_is_removed(stale):
    partial = result("m", at(0.4, shots=5), counts=counts(100, 101))
    write(stale, board(partial, task="a"))
    assert draw_figures(stale, folder_boards(stale), GROUPS, {}, LOOKS) == []
    assert [file.name for file in (stale / "figures").iterdir()] == ["kept.svg"]


@pytest.mark.parametrize("absent", ["summaries/both.json", "b.json"])
def test_a_group_without_a_summary_or_without_all_boards_has_no_figure(stale, absent):
    planted(stale)
    (stale / absent).unlink()
    write(stale, board(task="a"))
    assert not any(
        file.name.startswith("both")
        for file in draw_figures(stale, folder_boards(stale), GROUPS, {}, LOOKS)
    )


def test_controls_are_left_out():
    control = result("c", score(0.4), provenance={"control": True})
    (panel,) = board_panels(board(result("a", score(0.5)), control))
    assert [*panel.models] == ["a"]


def test_rows_that_may_not_be_compared_have_a_panel_for_each_set():
    rows = [result("a", score(0.5)), result("b", score(0.6), comparable="other")]
    panels = board_panels(board(*rows))
    assert [(panel.title, [*panel.models]) for panel in panels] == [
        ("a, shots 5", ["a"]),
        ("b, shots 5", ["b"]),
    ]


def test_a_score_without_a_place_on_the_axis_is_left_out():
    scores = [score(v, at=at) for v, at in ((0.5, {}), (0.4, {"budget": 1}), (0.5, {"budget": 3}))]
    (panel,) = board_panels(board(result("a", *scores)))
    assert [(point.x, point.y) for point in panel.models["a"]] == [(1, 0.4), (3, 0.5)]
