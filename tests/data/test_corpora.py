import bz2
import gzip

import pytest
from fakes import labelled_images
from PIL import Image

from vlbench.data.corpora import Corpus, WordTests, imagenet_and_corpus, with_corpus
from vlbench.errors import DataAbsent, DataError

TEXT = "Anarchism is a philosophy.\n\nÜber den Hund\nthe last line"


def texts(folder):
    """Write a corpus, analogies and pairs."""
    (folder / "corpus.txt").write_text(TEXT)
    (folder / "questions.txt").write_text(": family\nboy girl he she\n")
    (folder / "pairs.txt").write_text("boy\tgirl\t8.5\n")
    return WordTests(folder / "corpus.txt", folder / "questions.txt", [folder / "pairs.txt"])


@pytest.mark.parametrize(
    ("name", "pack"), [("a", bytes), ("a.gz", gzip.compress), ("a.bz2", bz2.compress)]
)
def test_a_corpus_is_a_document_a_line_packed_or_not(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    corpus = Corpus(tmp_path / name)
    found = [line.strip() for line in corpus]
    assert found == ["Anarchism is a philosophy.", "Über den Hund", "the last line"]
    assert [line.strip() for line in corpus] == found


def test_a_byte_order_mark_is_no_part_of_the_first_document(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(b"\xef\xbb\xbfa cat\na dog\n")
    assert list(Corpus(tmp_path / "corpus.txt")) == ["a cat\n", "a dog\n"]


def test_a_line_without_end_is_named_before_memory_is_full(tmp_path, little_memory):
    (tmp_path / "corpus.gz").write_bytes(gzip.compress(b"a" + bytes(400 << 20), 1))
    with (
        little_memory(),
        pytest.raises(DataError, match=r"^corpus\.gz, line 1, is longer than 128"),
    ):
        list(Corpus(tmp_path / "corpus.gz"))


def test_a_corpus_is_read_a_line_at_a_time(tmp_path):
    (tmp_path / "a").write_bytes(b"first\n\xff\n")
    assert next(iter(Corpus(tmp_path / "a"))) == "first\n"


def test_broken_utf_8_is_named_by_file_and_line(tmp_path):
    (tmp_path / "wiki.txt").write_bytes("gut\nschön\n".encode() + b"caf\xe9 au lait\n")
    with pytest.raises(DataError, match=r"wiki.txt, line 3, is not UTF-8: .* at byte 3"):
        list(Corpus(tmp_path / "wiki.txt"))


@pytest.mark.parametrize(("name", "pack"), [("wiki.gz", gzip.compress), ("wiki.bz2", bz2.compress)])
def test_an_archive_that_is_damaged_says_where(tmp_path, name, pack):
    packed = bytearray(pack(b"\n".join(b"line %d" % i for i in range(2000))))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\xff" * 40
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(DataError, match=rf"{name} is cut off after line \d+: "):
        list(Corpus(tmp_path / name))


def test_texts_stand_beside_the_test_images(tmp_path):
    data = with_corpus(labelled_images(1, 2), ["boat", "car", "car"], texts(tmp_path))
    assert list(data.splits["test"]["word"]) == ["boat", "car", "car"]
    assert list(data.splits["corpus"]["documents"]) == [Corpus(tmp_path / "corpus.txt")]
    assert list(data.splits["analogies"]["file"]) == [tmp_path / "questions.txt"]
    assert list(data.splits["word_pairs"]["file"]) == [tmp_path / "pairs.txt"]


def test_data_are_known_by_what_the_texts_say_not_where_they_lie(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    images, words = labelled_images(1, 1), ["boat", "car"]
    found = [texts(folder) for folder in folders]
    (folders[2] / "corpus.txt").write_text("another corpus")
    first, same, other = (with_corpus(images, words, one).digest() for one in found)
    assert first == same != other


ABSENT = [
    ("corpus.txt", "the corpus corpus.txt not found"),
    ("questions.txt", "the analogies questions.txt not found"),
    ("pairs.txt", "a set of word pairs pairs.txt not found"),
]


@pytest.mark.parametrize(("name", "what"), ABSENT)
def test_an_absent_file_is_unavailable(tmp_path, name, what):
    found = texts(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataAbsent, match=what):
        with_corpus(labelled_images(1), ["boat"], found)


def test_an_absent_corpus_is_found_before_imagenet_is_read(tmp_path):
    found = imagenet_root(tmp_path)
    (tmp_path / "LOC_synset_mapping.txt").write_text("no synsets")
    found["corpus"].unlink()
    with pytest.raises(DataAbsent, match=r"the corpus corpus\.txt not found"):
        imagenet_and_corpus(**found)


# Sorted by wnid, tench is class 0 and the two cranes are 1 and 2; the others are made up.
WORDS = ["n01440764 tench, Tinca tinca", "n02012849 crane", "n03126707 crane, derrick"]
WORDS += [f"n05{i:06d} made up {i}" for i in range(997)]


def imagenet_root(root):
    for line in WORDS[:4]:
        folder = root / "val" / line[:9]
        folder.mkdir(parents=True)
        Image.new("RGB", (5, 5)).save(folder / "a.png")
    (root / "LOC_synset_mapping.txt").write_text("\n".join(WORDS) + "\n")
    found = texts(root)
    return {
        "root": root,
        "corpus": found.corpus,
        "analogies": found.analogies,
        "word_pairs": found.word_pairs,
    }


def test_without_a_list_a_class_has_a_word_if_its_first_name_is_one(tmp_path):
    data = imagenet_and_corpus(**imagenet_root(tmp_path))
    assert list(data.splits["test"]["word"]) == ["tench", "crane", "crane", ""]


def test_a_list_names_the_word_of_each_class(tmp_path):
    (tmp_path / "words.txt").write_text("n05000000\tArtifact\nn02012849\tbird\nn01440764\ttench\n")
    data = imagenet_and_corpus(**imagenet_root(tmp_path), words=tmp_path / "words.txt")
    assert list(data.splits["test"]["word"]) == ["tench", "bird", "", "artifact"]


def test_an_absent_list_of_words_says_how_it_is_made(tmp_path):
    with pytest.raises(DataAbsent, match=r"visual words not found; get it from WordNet"):
        imagenet_and_corpus(**imagenet_root(tmp_path), words=tmp_path / "words.txt")


HEAVY = ("datasets", "gensim", "h5py", "matplotlib", "open_clip", "pandas", "scipy", "sklearn")


def test_embedded_data_are_planned_without_heavy_libraries_and_without_drawing(fresh_process):
    assert set(fresh_process["modules"]) & {*HEAVY, "torchvision", "transformers"} == set()
    assert fresh_process["counts"] == [1000, 1850]
    assert fresh_process["cached"] == []
