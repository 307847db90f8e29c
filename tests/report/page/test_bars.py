from planted_boards import score

from vlbench.report.page import bars
from vlbench.report.page.bars import Scale


def test_the_scale_of_fractions_is_0_to_1():
    assert bars.scale_of([score(0.2), score(0.4)]) == Scale(0.0, 1.0)


def test_the_scale_holds_intervals_chance_and_floors():
    found = score(2.0, unit="ratio", ci95=(-1.0, 3.0), chance=4.0, floors={"x": 5.0})
    assert bars.scale_of([found]) == Scale(-1.0, 5.0)


def test_a_scale_of_zeros_has_a_length():
    assert bars.scale_of([score(0.0, unit="ratio")]) == Scale(0.0, 1.0)


def test_a_bar_ends_at_the_nearest_half_percent():
    assert bars.bar(score(0.531, ci95=(0.5, 0.6)), Scale(0.0, 1.0)) == "b v106 l100 h120"


def test_chance_the_highest_floor_and_zero_are_marked():
    found = score(0.1, chance=0.0, floors={"low": 0.1, "high": 0.5}, unit="correlation")
    assert bars.bar(found, Scale(-1.0, 1.0)) == "b v110 k100 f150 z100"
    assert bars.bar(None, Scale(0.0, 1.0)) == ""


def test_every_class_has_its_rule():
    assert ".v101{--v:50.5%}" in bars.rules("v")
    assert bars.rules().count("{") == 6 * 201
