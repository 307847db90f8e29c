from drawn_sample import SAMPLE

from vlbench.data.scenes.rows import object_noun, row, sizes
from vlbench.data.scenes.world import CATEGORIES, CATEGORY, NOUNS
from vlbench.digests import digest

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
        assert content["nouns"] == [object_noun(i)]
        assert content["noun"] == NOUNS.index(object_noun(i))
        assert content["label"] == CATEGORIES.index(CATEGORY[object_noun(i)])


def test_3000_objects_and_6000_scenes_are_planned():
    assert [sum(sizes(name).values()) for name in ("objects", "scenes")] == [3000, 6000]
