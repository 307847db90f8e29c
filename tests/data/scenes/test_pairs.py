import pytest

from vlbench.data.scenes import foils, rows, twins
from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.pairs import ALWAYS, CATEGORIES, COUNTS, pair
from vlbench.data.scenes.world import HELD_OUT, HIERARCHY, plural

MANY = 40 * len(CATEGORIES)
UNSEEN = {n for family in HIERARCHY.values() for c in HELD_OUT for n in family.get(c, ())}


@pytest.fixture
def few(monkeypatch):
    """Two pairs of each category."""
    monkeypatch.setitem(COUNTS, "test", 2)
    monkeypatch.setitem(COUNTS, "train", 1)


def test_captions_differ_and_name_nothing_that_models_were_not_shown():
    for number in range(MANY):
        first, second = (side.caption.split() for side in pair(0, "test", number).sides)
        assert first != second
        assert not {*first, *second} & (UNSEEN | {plural(noun) for noun in UNSEEN})


def test_of_swaps_and_places_both_captions_have_the_same_words():
    for number in range(MANY):
        made = pair(0, "test", number)
        first, second = (sorted(side.caption.split()) for side in made.sides)
        # An article agrees with the word after it.
        alike = [w for w in first if w not in ("a", "an")] == [
            w for w in second if w not in ("a", "an")
        ]
        assert alike == (made.category in ("swapped_attributes", "left_right", "above_below"))


def test_every_word_of_a_caption_is_true_of_its_own_image():
    for number in range(MANY):
        for side in pair(0, "test", number).sides:
            assert {*side.caption.split()} <= side.words
            assert side.words >= ALWAYS


def test_nothing_of_a_pair_is_hidden_or_outside():
    for number in range(MANY // 4):
        for side in pair(0, "test", number).sides:
            assert min(draw(side.scene).visible) > 0.9


def test_places_are_told_apart_by_far_and_things_differ_by_one_fact_alone():
    for number in range(MANY):
        made = pair(0, "test", number)
        if made.category == "left_right":
            for side in made.sides:
                (ax, _), (bx, _) = (thing.centre for thing in side.scene.things)
                assert abs(ax - bx) >= 24
        first, second = (side.scene for side in made.sides)
        assert first.backdrop == second.backdrop
        shared = sum(one == other for one, other in zip(first.things, second.things, strict=False))
        changed = {"swapped_attributes": 2, "left_right": 2, "above_below": 2}
        kinds = {"object": 1, "attribute": 1, "count": 0, "presence": 0} | changed
        smaller = min(len(first.things), len(second.things))
        assert shared == smaller - kinds[made.category]


def test_pairs_of_other_splits_and_seeds_are_others():
    sides = [pair(*which, 3).sides for which in [(0, "test"), (0, "train"), (1, "train")]]
    assert len({side.caption for first, _ in sides for side in [first]}) == 3
    things = [side.scene.things for side in pair(0, "test", 3).sides]
    assert things == [side.scene.things for side in sides[0]]


@pytest.mark.usefixtures("few")
def test_both_captions_of_a_pair_are_right_once_and_wrong_once(tmp_path):
    test = foils(seed=5, cache_dir=tmp_path).splits["test"]
    assert len(test) == 4 * len(CATEGORIES)
    for row in range(0, len(test), 2):
        assert test["foils"][row] == [test["caption"][row + 1]]
        assert test["foils"][row + 1] == [test["caption"][row]]
        for name in ("category", "cluster"):
            assert test[name][row] == test[name][row + 1]
        assert test["image"][row].tobytes() != test["image"][row + 1].tobytes()
    assert test["picture"][0].image.tobytes() == test["image"][0].tobytes()


@pytest.mark.usefixtures("few")
def test_twins_are_the_same_pairs(tmp_path):
    both = foils(seed=5, cache_dir=tmp_path).splits["test"]
    data = twins(seed=5, cache_dir=tmp_path)
    test = data.splits["test"]
    assert [*test["caption_2"]] == [*both["caption"]][1::2]
    assert test["image_2"].key == test["image"].key == both["image"].key
    assert list(test["image_2"].rows) == list(both["image"].rows)[1::2]
    assert len(data.splits["train"]["captions"]) == len(CATEGORIES)


@pytest.mark.usefixtures("few")
def test_regions_of_another_kind_are_refused(tmp_path):
    with pytest.raises(ValueError, match="scenes have regions of kind"):
        foils(regions="butd-36", cache_dir=tmp_path)


def test_a_row_is_one_side_of_a_pair():
    scene, *_ = rows.drawing("pairs", 0, 7)
    assert scene.things == pair(0, "test", 3).sides[1].scene.things
