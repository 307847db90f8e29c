from dataclasses import replace

import pytest
from numpy.random import default_rng

from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.facts import centre, view
from vlbench.data.scenes.layout import several


def scene_of(*centres, radius=8.0, noun="owl", other="taxi", facing="right"):
    """Return two things at these centres, the first one behind the second one."""
    scene = several(2, "bird", twins=False, rng=default_rng(1))
    things = [
        replace(thing, noun=n, centre=c, radius=radius, angle=0.0, size="medium", facing=facing)
        for thing, n, c in zip(scene.things, (noun, other), centres, strict=True)
    ]
    return replace(scene, things=things)


def kinds(scene):
    """Return the facts as (subject, kind, object)."""
    facts = view(scene, draw(scene)).facts
    return {(fact.subject.noun, fact.kind, fact.object.noun) for fact in facts}


def test_a_thing_left_of_another_has_it_on_its_right():
    found = kinds(scene_of((12, 32), (50, 32)))
    assert {("owl", "left", "taxi"), ("taxi", "right", "owl")} <= found
    assert ("owl", "right", "taxi") not in found


def test_a_thing_above_another_has_it_below():
    found = kinds(scene_of((32, 12), (32, 50)))
    assert {("owl", "above", "taxi"), ("taxi", "below", "owl")} <= found


def test_a_thing_faces_what_is_ahead_of_it():
    assert ("owl", "faces", "taxi") in kinds(scene_of((12, 32), (50, 32)))
    assert ("owl", "faces", "taxi") not in kinds(scene_of((12, 32), (50, 32), facing="left"))


def test_a_thing_that_another_hides_is_behind_it():
    found = kinds(scene_of((30, 32), (36, 32), radius=12.0))
    assert {("owl", "behind", "taxi"), ("taxi", "front", "owl"), ("owl", "near", "taxi")} <= found


def test_twins_are_one_group_without_facts():
    scene = scene_of((12, 32), (50, 32), other="owl")
    facts = view(scene, draw(scene))
    assert [group.members for group in facts.groups] == [(0, 1)]
    assert (facts.facts, facts.singles, facts.count) == ([], [], 2)


@pytest.mark.parametrize(
    ("at", "place"),
    [((10, 32), "left"), ((54, 32), "right"), ((32, 10), "top"), ((32, 54), "bottom")],
)
def test_a_thing_near_an_edge_has_its_place(at, place):
    scene = scene_of(at, (32, 32), radius=6.0)
    places = [(group.noun, where) for group, where in view(scene, draw(scene)).places]
    assert places == [("owl", place)]


def test_the_centre_of_a_box_is_between_its_sides():
    assert centre((2, 4, 6, 5)) == (4, 4.5)
