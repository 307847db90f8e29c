import numpy as np
from drawn_sample import SAMPLE
from numpy.random import default_rng
from scenes_reader import Truth, caption_is_true

from vlbench.data.scenes.captions import captions
from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.facts import view
from vlbench.data.scenes.layout import single
from vlbench.data.scenes.world import NOUNS


def test_every_caption_is_true_of_the_drawing(rows):
    judged = [
        (words, caption_is_true(Truth(rows, i), words, phrases))
        for i in range(len(rows["image"]))
        for words, phrases in zip(rows["words"][i], rows["phrases"][i], strict=True)
    ]
    assert [words for words, is_true in judged if not is_true] == []


def test_captions_of_another_image_are_not_true_of_the_drawing(sample_rows):
    rows, several = sample_rows, range(50, len(SAMPLE) - 1)
    judged = [
        caption_is_true(Truth(rows, i), rows["words"][i + 1][j], rows["phrases"][i + 1][j])
        for i in several
        for j in range(5)
        if max(b for p in rows["phrases"][i + 1][j] for b in (*p.boxes, 0)) < len(rows["boxes"][i])
    ]
    assert np.mean(judged) < 0.1


def test_left_is_never_right(sample_rows):
    for i in range(len(SAMPLE)):
        pairs = zip(sample_rows["words"][i], sample_rows["phrases"][i], strict=True)
        for words, phrases in pairs:
            turned = " ".join(words).replace("to the left of", "to the right of").split()
            assert turned == words or not caption_is_true(Truth(sample_rows, i), turned, phrases)


def test_an_image_has_five_different_captions(rows):
    assert {len(set(texts)) for texts in rows["captions"]} == {5}


def test_the_first_caption_names_everything_by_its_fine_grained_noun(rows):
    for boxes, words, phrases in zip(rows["boxes"], rows["words"], rows["phrases"], strict=True):
        named = [p for p in phrases[0] if p.boxes]
        assert sorted(b for p in named for b in p.boxes) == list(range(len(boxes)))
        assert {words[0][p.stop - 1].rstrip("s")[:3] for p in named} <= {n[:3] for n in NOUNS}


def test_the_generator_decides_the_captions():
    scene = single("owl", default_rng(0))
    facts = view(scene, draw(scene))
    texts = [[s.text() for s in captions(facts, default_rng(seed), count=3)] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 3
