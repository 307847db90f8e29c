import re
from collections import Counter

import pytest
from drawn_sample import SAMPLE

from vlbench.data.scenes.rows import object_noun, row, sizes
from vlbench.data.scenes.world import CATEGORIES, CATEGORY, HELD_OUT, NOUNS, SEEN_NOUNS, plural
from vlbench.system.digests import digest

# A change of the generator, or of Pillow's drawing, needs another VERSION.
PINNED = "sha256:b7997ab9975f5f4d50fd1a12fdb63d5cc54783d82d058be88996022f5f9f0a95"


def test_a_changed_generator_needs_a_new_version(sample):
    assert digest(dict(sample.digests)) == PINNED


def test_another_process_draws_the_same(fresh_process):
    assert fresh_process["rows"] == [repr(row(name, 0, i)) for name, i in SAMPLE[::15]]


def test_the_seed_and_the_row_decide_what_is_drawn():
    digests = [row("scenes", seed, i)[1] for seed, i in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_the_labels_of_objects_are_known_without_drawing():
    for i in (0, 41, 2999):
        content, _ = row("objects", 0, i)
        assert content["nouns"] == [object_noun("objects", i)]
        assert content["noun"] == NOUNS.index(object_noun("objects", i))
        assert content["label"] == CATEGORIES.index(CATEGORY[object_noun("objects", i)])


def test_3000_objects_and_6000_scenes_are_planned():
    assert [sum(sizes(name).values()) for name in ("objects", "scenes")] == [3000, 6000]


HELD_OUT_NAMES = {*HELD_OUT, *(noun for noun in NOUNS if CATEGORY[noun] in HELD_OUT)}
HELD_OUT_WORDS = HELD_OUT_NAMES | {plural(name) for name in HELD_OUT_NAMES}


@pytest.mark.parametrize("name", ["objects-seen", "scenes-seen"])
def test_no_image_shows_and_no_caption_names_a_held_out_thing(name):
    for i in [*range(24), 2999]:
        content, _ = row(name, 0, i)
        assert not {*content["categories"], *content["nouns"]} & HELD_OUT_WORDS
        assert not {*re.findall(r"\w+", " ".join(content["captions"]))} & HELD_OUT_WORDS


@pytest.mark.parametrize("name", ["objects", "scenes"])
def test_an_image_without_a_held_out_thing_is_kept_and_another_is_drawn_again(name):
    for i in range(24):
        (whole, own), (seen, another) = row(name, 0, i), row(f"{name}-seen", 0, i)
        is_seen = not {*whole["categories"]} & {*HELD_OUT}
        assert (whole == seen) == (own == another) == is_seen
        assert len(whole["nouns"]) == len(seen["nouns"])


def test_splits_without_held_out_things_are_as_large():
    for name in ("objects", "scenes"):
        assert sizes(f"{name}-seen") == sizes(name)


def test_each_seen_noun_is_about_as_frequent():
    nouns = Counter(object_noun("objects-seen", i) for i in range(2000, 3000))
    assert set(nouns) == set(SEEN_NOUNS)
    assert max(nouns.values()) - min(nouns.values()) <= 3
