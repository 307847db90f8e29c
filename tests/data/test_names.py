"""One normal form of names, at the door of each loader."""

import csv
import unicodedata
from io import BytesIO
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image
from tar_shards import put_split

import vlbench.data
from vlbench.api import probe
from vlbench.data import hub, table, webdataset
from vlbench.data.captioned_folder import captioned_folder
from vlbench.data.corpora import Corpus
from vlbench.data.image_folder import image_folder
from vlbench.data.names import number_classes, plain_name
from vlbench.data.records import labels
from vlbench.data.regions.names import image_name
from vlbench.data.word_files import read_questions, read_visual_words
from vlbench.data.word_pairs import read_judged
from vlbench.errors import DataError
from vlbench.run.extraction import of_folder

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
SPELLINGS = [COMPOSED, DECOMPOSED, "thé"]


def png(level):
    stored = BytesIO()
    Image.new("RGB", (9, 8), (level * 40, 0, 0)).save(stored, "PNG")
    return stored.getvalue()


def in_folders(root, **_):
    for level, name in enumerate(SPELLINGS):
        (root / "test" / name).mkdir(parents=True)
        (root / "test" / name / f"{level}.png").write_bytes(png(level))
    return image_folder(root=root)


def in_a_table(root, classes=()):
    rows = [[f"{level}.png", name] for level, name in enumerate(SPELLINGS)]
    for level, (name, _) in enumerate(rows):
        (root / name).write_bytes(png(level))
    with (root / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["image", f" {DECOMPOSED} "], *rows])
    return table.images(root=root, test="test.csv", label=COMPOSED, classes=classes)


def in_a_listed_table(root):
    return in_a_table(root, SPELLINGS)


def on_the_hub(root):
    images = [{"bytes": png(level), "path": None} for level in range(3)]
    types = {"image": datasets.Image(), DECOMPOSED: datasets.ClassLabel(names=SPELLINGS)}
    rows = {"image": images, DECOMPOSED: [0, 1, 2]}
    made = datasets.Dataset.from_dict(rows, datasets.Features(types))
    datasets.DatasetDict(test=made).save_to_disk(root)
    source = {"repository": "org/one", "revision": "a" * 40, "splits": {"test": "test"}}
    return hub.images(root=root, label=COMPOSED, cache_dir=root / "cache", **source)


def in_shards(root):
    members = [
        (f"{level}.{end}", content)
        for level in range(3)
        for end, content in {"png": png(level), "cls": str(level).encode()}.items()
    ]
    put_split(root, [members], names=SPELLINGS)
    return webdataset.images(root=root, splits={"test": "test"})


@pytest.mark.parametrize("load", [in_folders, in_a_table, in_a_listed_table, on_the_hub, in_shards])
def test_two_spellings_of_an_accented_class_are_one_class(load, tmp_path):
    data = load(tmp_path)
    assert list(data.classes) == [COMPOSED, "thé"]
    assert labels(data.splits["test"]).tolist() == [0, 0, 1]


def test_halves_of_folders_of_two_spellings_are_of_one_class(tmp_path):
    for level, name in enumerate([COMPOSED, DECOMPOSED, "thé", "thé"]):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"{level}.png").write_bytes(png(level))
    data = image_folder(root=tmp_path, halves=0)
    assert list(data.classes) == [COMPOSED, "thé"]
    assert labels(data.splits["test"]).tolist() == [0, 1]


def test_a_class_may_be_spelled_otherwise_in_train(tmp_path):
    for split, name in (("train", COMPOSED), ("test", DECOMPOSED)):
        (tmp_path / split / name).mkdir(parents=True)
        (tmp_path / split / name / "a.png").write_bytes(png(len(split)))
    assert list(image_folder(root=tmp_path).classes) == [COMPOSED]


def test_blanks_at_the_ends_of_a_label_are_no_part_of_its_class(tmp_path):
    (tmp_path / "a.png").write_bytes(png(0))
    (tmp_path / "test.csv").write_text("image,label\na.png, cat \na.png,dog\n")
    data = table.images(root=tmp_path, test="test.csv")
    assert data.classes == ["cat", "dog"]


def test_a_name_given_twice_in_one_spelling_is_two_classes():
    assert number_classes(["sunglasses", "sunglasses"]).numbers == [0, 1]
    assert number_classes([COMPOSED, DECOMPOSED, COMPOSED]).numbers == [0, 0, 1]


def test_names_that_differ_in_blanks_are_told_apart():
    with pytest.raises(DataError, match="two classes are named 'cat', but for spaces around it"):
        number_classes(["cat", "cat "])


@pytest.mark.parametrize("name", ["c\x00at", "c\nat", "c\x85at", "c\ud800at"])
def test_a_control_character_in_a_name_is_refused(name):
    with pytest.raises(DataError, match=r"the class 'c\\.*at' has a control character"):
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


@pytest.mark.parametrize(("listed", "stored"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_an_image_is_found_in_either_spelling_of_its_file(listed, stored, tmp_path):
    (tmp_path / f"{stored}.png").write_bytes(png(0))
    (tmp_path / "test.csv").write_text(f"image,label\n{listed}.png,cat\n", "utf-8")
    split = table.images(root=tmp_path, test="test.csv").splits["test"]
    assert split["image"][0].size == (9, 8)
    (tmp_path / f"{listed}.txt").write_text("a cup")
    assert list(captioned_folder(root=tmp_path).splits["test"]["caption"]) == ["a cup"]


def test_features_of_a_folder_have_one_label_for_two_spellings(tmp_path):
    in_folders(tmp_path)
    assert sorted(set(of_folder(tmp_path).labels or ())) == [COMPOSED, "thé"]


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


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0c", "\x1d"])
def test_a_caption_of_a_shard_ends_at_an_end_of_line_alone(sign, tmp_path):
    text = f"one{sign}caption\r\nanother\n"
    put_split(tmp_path, [[("0.png", png(0)), ("0.txt", text.encode())]])
    data = webdataset.images(root=tmp_path, splits={"test": "test"}, label="", caption="txt")
    assert list(data.splits["test"]["captions"]) == [[f"one{sign}caption", "another"]]
