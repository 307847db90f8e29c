from dataclasses import replace

from vlbench.report.figures.charts import Panel, Point, chance, floor, levels, ranked


def panel(**models):
    points = {name: [Point(0, value, None)] for name, value in models.items()}
    return Panel(title="", x="", y="accuracy", models=points)


def test_models_are_ranked_by_the_first_panel_that_tells_them_apart_the_best_last():
    assert ranked([panel(a=0.5, b=0.5, c=0.9), panel(a=0.2, b=0.1, d=1.0)]) == ["d", "b", "a", "c"]
    assert ranked([replace(panel(a=0.1, b=0.9), higher_is_better=False)]) == ["b", "a"]


def test_the_levels_at_each_x_end_with_the_one_that_is_hardest_to_beat():
    points = [
        Point(x, 0.5, None, 0.1 * x, ("shuffled", y)) for x, y in ((2, 0.3), (1, 0.2), (2, 0.4))
    ]
    higher = Panel(title="", x="k", y="accuracy", models={"a": points, "b": [Point(3, 0.5, None)]})
    assert levels(higher, floor) == {1: [0.2], 2: [0.3, 0.4]}
    assert levels(replace(higher, higher_is_better=False), floor) == {1: [0.2], 2: [0.4, 0.3]}
    assert levels(higher, chance) == {1: [0.1], 2: [0.2, 0.2]}
