from collections import Counter

import numpy as np
from numpy.random import default_rng

from vlbench.data.scenes.layout import several, single, with_moved_things
from vlbench.data.scenes.world import BACKGROUNDS, SIDE, SIZES, TEXTURES


def test_twins_share_a_noun_and_are_one_category_fewer():
    scene = several(4, "dog", twins=True, rng=default_rng(0))
    assert sorted(Counter(thing.noun for thing in scene.things).values()) == [1, 1, 2]
    assert len({thing.category for thing in scene.things}) == 3


def test_several_things_are_of_different_categories_with_the_given_one():
    for seed in range(20):
        categories = [
            t.category for t in several(4, "hat", twins=False, rng=default_rng(seed)).things
        ]
        assert "hat" in categories
        assert len(set(categories)) == 4


def test_a_single_thing_stands_near_the_centre():
    for seed in range(20):
        (thing,) = single("owl", default_rng(seed)).things
        assert np.abs(np.array(thing.centre) - SIDE / 2).max() <= 4
        assert thing.category == "bird"


def test_moved_things_are_the_same_at_other_positions():
    scene = several(3, "dog", twins=False, rng=default_rng(0))
    again = with_moved_things(scene, default_rng(1))
    assert [t.noun for t in again.things] == [t.noun for t in scene.things]
    assert [t.centre for t in again.things] != [t.centre for t in scene.things]
    assert again.backdrop is scene.backdrop


def test_all_attributes_occur_and_a_thing_tilts_from_15_degrees_on():
    scenes = [single("owl", default_rng(seed)) for seed in range(80)]
    things = [scene.things[0] for scene in scenes]
    assert {thing.size for thing in things} == set(SIZES)
    assert {thing.texture for thing in things} == set(TEXTURES)
    assert {scene.backdrop.kind for scene in scenes} == set(BACKGROUNDS)
    assert all(thing.tilted == (abs(thing.angle) > 15) for thing in things)
    assert {scene.screen is None for scene in scenes} == {True, False}
