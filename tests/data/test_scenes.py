"""The whole of both sets: what is written of every image is true of it."""

from collections import Counter

import numpy as np
import pytest
from scenes_reader import Truth, answer_is_true, caption_is_true

from vlbench.data.records import labels
from vlbench.data.scenes import HELD_OUT, HIERARCHY, objects, scenes
from vlbench.data.scenes.world import COLOURS, NOUNS, plural

# Every image is drawn: half a minute.
pytestmark = pytest.mark.slow

# Another generator, Pillow's drawing included, is another VERSION.
PINNED = {
    "objects": "sha256:931804fecf5009507a00893dacbf1750ed0f339016c0a87d3d725946b8978a3c",
    "scenes": "sha256:fb70dec39316facc1edd26719a55b4a7a6aad7df0ad5c7dd98876248dbc8a8e2",
}


@pytest.fixture(scope="module", autouse=True)
def drawn(scenes_cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(scenes_cache))
        return {"objects": objects(), "scenes": scenes(), "fine": objects(fine=True)}


@pytest.fixture(params=["objects", "scenes"])
def rows(request, drawn):
    """Every row of a set, columns by name."""
    split = drawn[request.param].splits["train"]
    return {name: column.stored for name, column in split.columns.items()}


def test_every_phrase_is_words_of_its_caption(rows):
    for captions, words, phrases in zip(
        rows["captions"], rows["words"], rows["phrases"], strict=True
    ):
        assert [caption.split() for caption in captions] == words
        ends = [(p, len(w)) for w, ps in zip(words, phrases, strict=True) for p in ps]
        assert all(0 <= phrase.start < phrase.stop < end for phrase, end in ends)


def test_every_word_has_a_tag(rows):
    universal = {"ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PRON", "PUNCT", "VERB"}
    for words, tags in zip(rows["words"], rows["tags"], strict=True):
        assert [len(w) for w in words] == [len(t) for t in tags]
        assert {tag for sentence in tags for tag in sentence} <= universal


def test_every_sentence_is_a_tree_with_one_root(rows):
    for all_words, all_arcs in zip(rows["words"], rows["arcs"], strict=True):
        for words, arcs in zip(all_words, all_arcs, strict=True):
            heads = {arc.dependent: arc.head for arc in arcs}
            assert len(heads) == len(arcs) == len(words) - 1
            assert {*heads, *heads.values()} == set(range(len(words)))
            assert len({_root(heads, word) for word in range(len(words))}) == 1


def test_every_caption_is_true_of_the_drawing(rows):
    said = [
        (words, caption_is_true(Truth(rows, i), words, phrases))
        for i in range(len(rows["image"]))
        for words, phrases in zip(rows["words"][i], rows["phrases"][i], strict=True)
    ]
    assert [words for words, is_true in said if not is_true] == []


def test_every_answer_is_true_of_the_drawing(rows):
    asked = [
        (question, answer, answer_is_true(Truth(rows, i), question, answer))
        for i in range(len(rows["image"]))
        for question, answer in zip(rows["questions"][i], rows["answers"][i], strict=True)
    ]
    assert [pair for *pair, is_true in asked if not is_true] == []


def test_an_image_has_five_captions_and_five_questions_that_differ(rows):
    for column in ("captions", "questions"):
        assert {len(set(texts)) for texts in rows[column]} == {5}
    assert {len(answers) for answers in rows["answers"]} == {5}


def test_the_first_caption_names_everything_by_its_fine_grained_noun(rows):
    for boxes, words, phrases in zip(rows["boxes"], rows["words"], rows["phrases"], strict=True):
        named = [p for p in phrases[0] if p.boxes]
        assert sorted(b for p in named for b in p.boxes) == list(range(len(boxes)))
        assert {words[0][p.stop - 1].rstrip("s")[:3] for p in named} <= {n[:3] for n in NOUNS}


def test_each_category_is_named_once_at_its_noun(rows):
    for named, caption, categories, nouns in zip(
        rows["named"], rows["caption"], rows["categories"], rows["nouns"], strict=True
    ):
        assert sorted(name.category for name in named) == sorted(set(categories))
        for category, word, start, end in named:
            assert caption[start:end] in {word, plural(word)}
            assert (category, word) in set(zip(categories, nouns, strict=True))


def test_every_box_shows_the_colour_of_its_thing(rows):
    for image, boxes, colours in zip(rows["image"], rows["boxes"], rows["colours"], strict=True):
        pixels = np.asarray(image, int)
        for (left, top, right, bottom), colour in zip(boxes.int().tolist(), colours, strict=True):
            away = np.abs(pixels[top:bottom, left:right] - COLOURS[colour]).max(-1)
            assert (away < 60).sum() >= 3


def test_every_box_lies_inside_the_image(rows):
    boxes = np.concatenate([np.asarray(boxes) for boxes in rows["boxes"]])
    assert boxes.min() >= 0
    assert boxes.max() <= 64
    assert (boxes[:, 2:] - boxes[:, :2]).min() >= 2


def test_proposals_find_most_things_and_the_surest_comes_first(rows):
    found = []
    for boxes, regions in zip(rows["boxes"], rows["regions"], strict=True):
        assert regions.vectors.shape == (len(regions.boxes), 64)
        assert regions.scores.tolist() == sorted(regions.scores.tolist(), reverse=True)
        assert len(regions.labels) == len(regions.boxes) >= len(boxes) + 3
        found += _best_overlaps(boxes.numpy(), regions.boxes.numpy())
    assert 0.85 < np.mean(np.array(found) >= 0.5) < 1


def test_the_splits_of_objects_hold_every_noun_as_often(drawn):
    counts = {name: Counter(labels(split)) for name, split in drawn["fine"].splits.items()}
    assert {name: set(c.values()) for name, c in counts.items()} == {
        "train": {40},
        "val": {10},
        "test": {25},
    }
    assert {len(c) for c in counts.values()} == {40}


def test_a_label_of_objects_is_the_only_thing_there(drawn):
    for name, nouns in (("objects", "categories"), ("fine", "nouns")):
        data = drawn[name]
        test = data.splits["test"]
        assert [[data.classes[label]] for label in test["label"]] == list(test[nouns])


def test_both_kinds_of_label_share_the_images(drawn):
    keys = {drawn[name].splits["test"]["image"].key for name in ("objects", "fine")}
    assert len(keys) == 1


def test_enough_test_images_have_2_3_and_4_things_of_different_categories(drawn):
    test = drawn["scenes"].splits["test"]
    sizes = Counter(len(c) for c in test["categories"] if len(set(c)) == len(c))
    assert min(sizes[2], sizes[3], sizes[4]) >= 400
    pairs = Counter(
        c for kinds in test["categories"] if len(set(kinds)) == 2 == len(kinds) for c in kinds
    )
    assert len(pairs) == 12
    assert min(pairs.values()) >= 60


def test_some_scenes_have_twins_and_all_splits_have_rows(drawn):
    splits = drawn["scenes"].splits
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 3600,
        "val": 550,
        "test": 1850,
    }
    twins = [len(set(nouns)) < len(nouns) for nouns in splits["test"]["nouns"]]
    assert 0.05 < np.mean(twins) < 0.15


def test_held_out_things_are_one_category_of_each_family():
    families = [[c for c in categories if c in HELD_OUT] for categories in HIERARCHY.values()]
    assert [len(found) for found in families] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["objects", "scenes"])
def test_a_changed_generator_needs_a_new_version(drawn, name):
    assert drawn[name].digest() == PINNED[name]


def _root(heads, word):
    for _ in range(len(heads) + 1):
        word = heads.get(word, word)
    return word


def _best_overlaps(gold, proposed):
    low = np.maximum(gold[:, None, :2], proposed[None, :, :2])
    high = np.minimum(gold[:, None, 2:], proposed[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (gold, proposed)]
    return (shared / (areas[0][:, None] + areas[1] - shared)).max(1).tolist()


def test_regions_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="regions of kind scenes-proposals, not butd-36"):
        scenes(regions="butd-36")
