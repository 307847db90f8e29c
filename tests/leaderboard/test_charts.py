import pytest

from vlbench.leaderboard.charts import Panel, Point, blank, chart, erase, look, save, styled


def lines(*xs):
    models = {"m": [Point(x, 0.5, None) for x in xs]}
    return chart("title", [Panel(title="", x="x", y="y", models=models)]).axes[0]


@pytest.mark.parametrize(
    ("xs", "scale"),
    [
        ((0, 1e-4, 1.0), "symlog"),
        ((1, 31), "symlog"),
        ((1, 5, 10), "linear"),
        ((0, 1, 5), "linear"),
    ],
)
def test_an_axis_that_reaches_far_is_logarithmic_and_one_that_does_not_is_plain(xs, scale):
    assert lines(*xs).get_xscale() == scale


def test_few_numbers_have_a_tick_each():
    assert [label.get_text() for label in lines(1, 5, 10).get_xticklabels()] == ["1", "5", "10"]
    assert len(lines(*range(1, 9)).get_xticks()) != 8


def test_without_a_number_models_are_dots_the_highest_on_top():
    models = {"low": [Point(0, 0.1, None)], "high": [Point(0, 0.9, (0.8, 1.0))]}
    panel = Panel(title="", x="", y="accuracy", models=models, chance=[(0, 0.1)])
    axes = chart("title", [panel]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["low", "high"]
    assert [text.get_text() for text in axes.texts] == [" chance"]


def test_panels_that_are_empty_are_not_drawn():
    panels = [Panel(title=str(i), x="", y="", models={"m": [Point(0, 1, None)]}) for i in range(4)]
    drawn = [axes.axison for axes in chart("title", panels).axes]
    assert drawn == [True] * 4 + [False] * 2


def test_eight_models_differ_in_colour_and_forty_in_colour_or_mark():
    names = [f"{i:02}" for i in range(40)]
    looks = [look(name, names) for name in names]
    assert len({x["color"] for x in looks[:8]}) == 8
    assert len({(x["color"], x["marker"]) for x in looks}) == 40


def test_a_figure_is_saved_as_svg_and_png_the_same_twice_and_erased(tmp_path):
    with styled():
        files = [save(blank(1, 1)[0], tmp_path / name) for name in ("a.b", "again")]
    assert [file.name for file in files[0]] == ["a.b.svg", "a.b.png"]
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]
    erase(tmp_path / "a.b")
    erase(tmp_path / "absent")
    assert sorted(tmp_path.iterdir()) == sorted(files[1])
