import math

import pytest
from sources import write

from vlbench.catalog.claims import load_claims
from vlbench.errors import SpecError

LISTS = "models: {two: [a, b]}\n"
BASE = "{claim: It is so., task: t, metric: accuracy, "


@pytest.fixture
def compared(tmp_path):
    def load(entry):
        file = write(tmp_path / "ours.yaml", f"{LISTS}claims:\n  - {BASE}{entry}}}\n")
        (spec,) = load_claims(file, tmp_path)
        return list(spec.claims[0].comparisons)

    return load


def test_a_lead_is_of_the_first_side_over_the_second(compared):
    (found,) = compared("greater: [{model: a}, {model: b}]")
    assert [side.models for side in found.sides] == [["a"], ["b"]]
    assert (found.low, found.high) == (0, math.inf)


def test_a_lead_may_have_a_margin(compared):
    (found,) = compared("greater: [{model: a}, {model: b}], by: -0.01")
    assert found.low == -0.01


def test_an_order_is_a_lead_of_each_over_the_next(compared):
    found = compared("ordered: [{model: a}, {model: b}, {model: c}]")
    assert [[s.models[0] for s in one.sides] for one in found] == [["a", "b"], ["b", "c"]]


def test_a_range_is_of_one_side(compared):
    (found,) = compared("model: a, within: [0.25, 1]")
    assert (found.low, found.high, len(found.sides)) == (0.25, 1, 1)


def test_a_side_says_what_sets_it_apart_and_takes_the_rest_from_the_claim(compared):
    (found,) = compared(
        "model: a, at: {n: 2}, greater: [{at: {k: 1}}, {metric: other, at: {n: 3}}]"
    )
    first, second = found.sides
    assert (first.models, first.tasks, first.metric, first.at) == (
        ["a"], ["t"], "accuracy", [{"n": 2, "k": 1}]
    )  # fmt: skip
    assert (second.metric, second.at) == ("other", [{"n": 3}])
    assert (first.label, second.label) == ("k 1", "other, n 3")


def test_a_name_stands_for_its_list_of_models(compared):
    (found,) = compared("greater: [{model: two}, {model: [c, two]}]")
    assert [side.models for side in found.sides] == [["a", "b"], ["c", "a", "b"]]
    assert found.sides[0].label == "two"


def test_a_side_may_be_the_mean_over_conditions(compared):
    (found,) = compared("model: a, at: {r: x}, greater: [{at: [{n: 1}, {n: 2}]}, {at: {n: 3}}]")
    assert found.sides[0].at == [{"r": "x", "n": 1}, {"r": "x", "n": 2}]


def test_each_stands_for_every_combination(compared):
    found = compared("each: {model: two, at: [{n: 1}, {n: 2}]}, greater: [{}, {floor: chance}]")
    assert [one.case for one in found] == ["a, n 1", "a, n 2", "b, n 1", "b, n 2"]
    assert [(one.sides[0].models, one.sides[0].at) for one in found][1] == (["a"], [{"n": 2}])
    assert [one.sides[1].floor for one in found] == ["chance"] * 4


def test_what_a_side_names_comes_before_each(compared):
    found = compared("each: {model: [b, c]}, greater: [{model: a}, {}]")
    assert [[s.models[0] for s in one.sides] for one in found] == [["a", "b"], ["a", "c"]]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("greater: [{model: a}]", "'greater' has two sides, not 1"),
        ("greater: [{model: a}, {model: b}, {model: c}]", "'greater' has two sides, not 3"),
        ("ordered: [{model: a}]", "'ordered' has two sides or more, not 1"),
        ("model: a, within: [1]", r"'within' is \[a number, a number\], not \[1\]"),
        ("model: a, within: [x, 1]", r"'within' is \[a number, a number\], not"),
        ("model: a, within: [0.9, 0.1]", r"'within' is \[low, high\]; 0.9 is above 0.1"),
        ("within: [0, 1]", "'model' is missing, here and beside the claim"),
        ("greater: [a, b]", "a side is {model: ..., at: ...}, not 'a'"),
        ("greater: [{modle: a}, {model: b}]", "unknown 'modle'; did you mean 'model'"),
        ("greater: [{model: [1]}, {model: b}]", "no model: 1"),
        ("greater: [{model: a, at: [3]}, {model: b}]", "no conditions: 3"),
        ("greater: [{model: a, at: []}, {model: b}]", r"no conditions: \[\]"),
        ("each: {at: []}, model: a, within: [0, 1]", "'at' is empty"),
        ("each: {model: [3]}, within: [0, 1]", "no model: 3"),
        ("each: {task: [3]}, model: a, within: [0, 1]", "no task: 3"),
        (
            "each: {metric: [x]}, model: a, within: [0, 1]",
            "unknown 'metric'; there are model, task",
        ),
    ],
)
def test_what_is_no_comparison_is_told_with_its_line(compared, entry, message):
    with pytest.raises(SpecError, match=rf"ours.yaml:3: {message}"):
        compared(entry)
