import json

import pytest

from vlbench.errors import DataError
from vlbench.metrics.text import words
from vlbench.metrics.text.words import plain_words, treebank_words

# Captions of strangers, and their words.
NASTY = {
    'A man "rides" a horse.': "a man rides a horse",
    "Don't (stop) - 3.5 now!": "do n't -lrb- stop -rrb- 3.5 now",
    "two\nlines\r\nand\u2028more\x85still\x0bone": "two lines and more still one",
    "": "",
    "...": "",
    "x ||| y": "x | | | y",
    "Café": "café",
}


def test_words_are_those_of_the_penn_treebank_without_punctuation():
    assert treebank_words(list(NASTY)) == list(NASTY.values())


def test_no_captions_have_no_words():
    assert treebank_words([]) == []


def test_real_captions_have_the_words_of_coco_caption(real_data):
    folder = real_data / "caption_eval"
    raw = json.loads((folder / "captions_val2014_fakecap_results.json").read_text())
    told = json.loads((folder / "spice_example_input_larger.json").read_text())
    found = treebank_words([one["caption"] for one in raw])
    by_image = dict(zip([one["image_id"] for one in raw], found, strict=True))
    assert by_image == {one["image_id"]: one["test"] for one in told}


def test_real_references_have_the_words_of_coco_caption(real_data):
    folder = real_data / "caption_eval"
    raw = json.loads((folder / "captions_val2017.json").read_text())["annotations"]
    told = json.loads((folder / "spice_example_input_larger.json").read_text())
    own = {(one["image_id"], text) for one in told for text in one["refs"]}
    images = {image for image, _ in own}
    both = [one for one in raw if one["image_id"] in images]
    found = treebank_words([one["caption"] for one in both])
    pairs = {(one["image_id"], text) for one, text in zip(both, found, strict=True)}
    assert len({image for image, _ in pairs}) == 126
    assert pairs <= own


def test_a_lost_line_is_an_error(monkeypatch):
    monkeypatch.setattr(words, "run_java", lambda *_, **__: "one\n")
    with pytest.raises(DataError, match=r"Java told 1 lines of 2"):
        treebank_words(["one", "two"])


def test_plain_words_are_as_they_stand_but_for_ends_of_line():
    assert plain_words(["A  b.\nC\u2028d", ""]) == ["A  b. C d", ""]
