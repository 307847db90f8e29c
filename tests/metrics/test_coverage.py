"""The short version of benchmarks/coverage.py: intervals cover, and tests hold their level."""

from pathlib import Path

import pytest

from vlbench.code.functions import load_object

FOLDER = [Path(__file__).parents[2] / "benchmarks"]
NAMES = ("covered", "false", "planted_intervals", "planted_tests")
covered, false, planted_intervals, planted_tests = (
    load_object(f"coverage:{name}", FOLDER) for name in NAMES
)
DRAWS = 200


def quick(several):
    return [pytest.param(one, id=one.name) for one in several if one.slower == 1]


# Of 200 draws at 95 %, fewer than 178 cover once in 10,000 times.
@pytest.mark.parametrize("planted", quick(planted_intervals()))
def test_an_interval_covers(planted):
    assert covered(planted, DRAWS) >= 0.89


# Of 200 draws at 5 %, more than 23 are wrong once in 10,000 times.
@pytest.mark.parametrize("planted", quick(planted_tests()))
def test_equal_models_are_seldom_called_different(planted):
    assert false(planted, DRAWS) <= 0.115


def test_the_page_states_what_each_of_them_covers():
    page = (FOLDER[0].parent / "docs" / "simulations.md").read_text("utf-8")
    names = [one.name for one in (*planted_intervals(), *planted_tests())]
    assert [name for name in names if f"| {name} | " not in page] == []
