"""One normal form of names, at the door of each loader."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest

import vlbench.data
from vlbench.api import probe
from vlbench.data.corpora import Corpus
from vlbench.data.names import number_classes, plain_name
from vlbench.data.regions.names import image_name
from vlbench.data.word_files import read_questions, read_visual_words
from vlbench.data.word_pairs import read_judged
from vlbench.errors import DataError

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
SPELLINGS = [COMPOSED, DECOMPOSED, "thé"]


def test_a_name_given_twice_in_one_spelling_is_two_classes():
    assert number_classes(["sunglasses", "sunglasses"]).numbers == [0, 1]
    assert number_classes([COMPOSED, DECOMPOSED, COMPOSED]).numbers == [0, 0, 1]


@pytest.mark.parametrize("name", ["c\x00at", "c\nat", "c\x85at", "c\ud800at"])
def test_a_control_character_in_a_name_is_refused(name):
    with pytest.raises(DataError, match=r"the class 'c\\.*at' contains a control character"):
        plain_name(name, "the class")


def test_signs_that_join_letters_are_part_of_a_name():
    assert plain_name("\u0646\u06cc\u200c\u0645", "the class") == "\u0646\u06cc\u200c\u0645"


def test_words_to_look_up_have_one_spelling(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text(f"n1\t{DECOMPOSED}\n", "utf-8")
    assert read_visual_words(file) == {"n1": COMPOSED}
    file.write_text(f": drinks\n{DECOMPOSED} a b c\n", "utf-8")
    assert read_questions(file)[0].words[0] == COMPOSED
    file.write_text(f"{DECOMPOSED}\tb\t1\n", "utf-8")
    assert read_judged(file)[0].word_a == COMPOSED


def test_words_of_a_corpus_have_one_spelling(tmp_path):
    (tmp_path / "corpus.txt").write_text(f"a {DECOMPOSED}\n", "utf-8")
    assert list(Corpus(tmp_path / "corpus.txt")) == [f"a {COMPOSED}\n"]


def test_labels_of_arrays_are_one_class_in_two_spellings():
    outcome = probe(
        "knn", np.eye(6), SPELLINGS * 2, k=[1], test=np.eye(6), test_labels=SPELLINGS * 2
    )
    assert {score.chance for score in outcome.scores} == {1 / 2}


def test_regions_are_found_by_either_spelling_of_an_image():
    assert image_name(f"{DECOMPOSED}.jpg") == image_name(f"{COMPOSED}.npz")


def test_no_reader_of_data_splits_lines_at_signs_within_a_text():
    files = Path(vlbench.data.__file__).parent.rglob("*.py")
    assert [file.name for file in files if ".splitlines(" in file.read_text("utf-8")] == []
