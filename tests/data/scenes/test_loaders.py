from collections import Counter

import numpy as np
import pytest
import torch

from vlbench.capabilities import Picture
from vlbench.data.records import labels
from vlbench.data.scenes import HELD_OUT, ORACLE, objects, scenes
from vlbench.data.scenes.loaders import _columns
from vlbench.data.scenes.world import NOUNS, SEEN_CATEGORIES, SEEN_NOUNS, plural
from vlbench.engine import Engine
from vlbench.probes.captioning.nouns import find_nouns

# A change of the generator, or of Pillow's drawing, needs another VERSION.
PINNED = {
    "objects": "sha256:3d4046b7a52074463ba5ae75bbfe74324b666c0dcf722698cc17b64d3fca9c4d",
    "scenes": "sha256:4711bec40a87f5094ace0648f2f3eebcbe034494d3c7c5c400c6487c86ed2517",
}


@pytest.mark.parametrize("name", ["objects", "scenes"])
def test_a_changed_generator_needs_a_new_version(world, name):
    assert world[name].digest() == PINNED[name]


def test_the_splits_of_objects_hold_every_noun_as_often(world):
    counts = {name: Counter(labels(split)) for name, split in world["fine"].splits.items()}
    assert {name: set(c.values()) for name, c in counts.items()} == {
        "train": {40},
        "val": {10},
        "test": {25},
    }
    assert {len(c) for c in counts.values()} == {40}


def test_enough_test_images_have_2_3_and_4_things_of_different_categories(world):
    test = world["scenes"].splits["test"]
    sizes = Counter(len(c) for c in test["categories"] if len(set(c)) == len(c))
    assert min(sizes[2], sizes[3], sizes[4]) >= 400
    pairs = Counter(
        c for kinds in test["categories"] if len(set(kinds)) == 2 == len(kinds) for c in kinds
    )
    assert len(pairs) == 12
    assert min(pairs.values()) >= 60


def test_some_scenes_have_twins_and_all_splits_have_rows(world):
    splits = world["scenes"].splits
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 3600,
        "val": 550,
        "test": 1850,
    }
    twins = [len(set(nouns)) < len(nouns) for nouns in splits["test"]["nouns"]]
    assert 0.05 < np.mean(twins) < 0.15


@pytest.mark.usefixtures("small_world")
def test_both_kinds_of_label_share_the_images_and_name_the_only_thing(tmp_path):
    coarse, fine = objects(cache_dir=tmp_path), objects(fine=True, cache_dir=tmp_path)
    for data, nouns in ((coarse, "categories"), (fine, "nouns")):
        for split in data.splits.values():
            assert [[data.classes[label]] for label in split["label"]] == list(split[nouns])
    keys = [data.splits["test"]["image"].key for data in (coarse, fine)]
    assert keys[0] == keys[1]
    assert coarse.digest() != fine.digest()
    of_images = {
        noun: category
        for split in fine.splits.values()
        for nouns, categories in zip(split["nouns"], split["categories"], strict=True)
        for noun, category in zip(nouns, categories, strict=True)
    }
    of_classes = dict(zip(fine.classes, fine.categories, strict=True))
    assert of_images.items() <= of_classes.items()
    assert coarse.categories == ()


def test_each_category_is_named_once_at_its_noun(rows):
    for named, caption, categories, nouns in zip(
        rows["named"], rows["caption"], rows["categories"], rows["nouns"], strict=True
    ):
        assert sorted(name.category for name in named) == sorted(set(categories))
        for category, word, start, end in named:
            assert caption[start:end] in {word, plural(word)}
            assert (category, word) in set(zip(categories, nouns, strict=True))


def test_a_picture_is_the_image_with_its_proposals(sample_rows):
    picture = sample_rows["picture"][3]
    assert isinstance(picture, Picture)
    assert (picture.image.mode, picture.image.size) == ("RGB", (64, 64))
    assert picture.regions.size == (64, 64)
    assert np.array_equal(picture.regions.vectors, sample_rows["regions"][3].vectors)


@pytest.mark.usefixtures("small_world")
def test_labels_of_seen_things_are_among_the_seen_classes(tmp_path):
    coarse = objects(things="seen", cache_dir=tmp_path)
    fine = objects(things="seen", fine=True, cache_dir=tmp_path)
    assert (len(coarse.classes), len(fine.classes)) == (8, 28)
    for data, nouns in ((coarse, "categories"), (fine, "nouns")):
        for split in data.splits.values():
            assert [[data.classes[label]] for label in split["label"]] == list(split[nouns])


@pytest.mark.usefixtures("small_world")
def test_scenes_of_seen_things_are_as_many_and_other_data(tmp_path):
    whole, seen = scenes(cache_dir=tmp_path), scenes(things="seen", cache_dir=tmp_path)
    assert [len(split) for split in seen.splits.values()] == [2, 1, 3]
    assert seen.digest() != whole.digest()
    assert not set(seen.classes) & set(HELD_OUT)


def test_foils_of_seen_scenes_are_drawn_from_words_that_no_held_out_thing_has(world):
    data = world["scenes-seen"]
    nouns = find_nouns(data, Engine.for_tests())
    drawn = {nouns.singular(noun) for noun in nouns.vocabulary}
    assert drawn >= {*SEEN_NOUNS, *SEEN_CATEGORIES}
    assert not drawn & {*HELD_OUT, *NOUNS} - {*SEEN_NOUNS}
    named = {noun for split in data.splits.values() for some in split["nouns"] for noun in some}
    assert named == {*SEEN_NOUNS}


@pytest.mark.parametrize("load", [objects, scenes])
def test_things_of_another_kind_are_refused(load):
    with pytest.raises(ValueError, match=f"{load.__name__} show things: all or seen, not held_out"):
        load(things="held_out")


def test_columns_of_other_content_have_other_keys(sample):
    keys = [column.key for column in _columns(sample).values()]
    assert len(set(keys)) == len(keys)


def test_regions_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="regions of kind scenes-crops, scenes-oracle, not butd"):
        scenes(regions="butd-36")


def test_crops_are_the_pixels_of_the_boxes_and_codes_read_none(sample):
    crops, codes = _columns(sample), _columns(sample, ORACLE)
    for name in ("regions", "picture"):
        assert crops[name].key != codes[name].key
    for image, seen, told in zip(crops["image"], crops["regions"], codes["regions"], strict=True):
        assert seen.vectors.shape == (len(seen.boxes), 768)
        assert told.vectors.shape == (len(seen.boxes), 64)
        assert torch.equal(seen.boxes, told.boxes)
        assert torch.equal(seen.vectors, seen.vectors.round())
        for box, vector in zip(seen.boxes.tolist(), seen.vectors, strict=True):
            x0, y0 = (int(np.floor(v)) for v in box[:2])
            x1, y1 = (int(np.ceil(v)) for v in box[2:])
            part = np.asarray(image)[y0:y1, x0:x1]
            mean = vector.view(16, 16, 3).mean((0, 1)).numpy()
            # Resizing keeps the mean of an image, but for its edges.
            assert np.abs(mean - part.mean((0, 1))).max() < 16
