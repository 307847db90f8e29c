from vlbench.probes.captioning.parts import Part, outcome
from vlbench.results import Score


def test_parts_make_one_outcome():
    parts = [
        Part([Score("a", 1.0, 2)], counts={"ties": 1}, notes=["first"]),
        Part([Score("b", 1.0, 2)], counts={"ties": 9, "others": 2}, notes=["second"]),
    ]
    found = outcome(parts, {"none": None})
    assert [score.metric for score in found.scores] == ["a", "b"]
    assert found.counts == {"ties": 1, "others": 2}
    assert found.notes == ["first", "second"]
    assert (found.artifacts, found.items) == ({}, None)
