import gzip
import zipfile

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from tiny_joint import CPU, adapter

from vlbench.errors import WeightsError

WordVectors = adapter("word_vectors:WordVectors")
RandomVectors = adapter("word_vectors:RandomVectors")
LINES = ["the 1 2 3", "cat 4 5 6", "'s -1 1e-2 .5", "red 7 8 9", "n't 0 0 1", "do 1 1 1"]


def write(folder, lines, name="glove.txt"):
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


def load(folder, lines=LINES):
    return WordVectors(device=CPU, weights=write(folder, lines))


def words(model, text):
    return [text[start:end] for start, end in model.encode_tokens([text])[0].spans]


def test_a_word_has_the_vector_of_its_line(tmp_path):
    tokens = load(tmp_path).encode_tokens(["A cat, the red!"])[0]
    assert tokens.spans == [(2, 5), (7, 10), (11, 14)]
    assert tokens.vectors.tolist() == [[4, 5, 6], [1, 2, 3], [7, 8, 9]]


def test_words_are_cut_as_gloves_texts_were(tmp_path):
    assert words(load(tmp_path), "The cat's hat; don't") == ["The", "cat", "'s", "do", "n't"]


def test_a_word_is_looked_up_as_written_before_in_lower_case(tmp_path):
    model = load(tmp_path, [*LINES, "Cat 0 0 0"])
    vectors = model.encode_tokens(["cat Cat CAT"])[0].vectors
    assert vectors.tolist() == [[4, 5, 6], [0, 0, 0], [4, 5, 6]]


def test_a_hyphenated_word_without_a_vector_is_looked_up_in_parts(tmp_path):
    model = load(tmp_path, [*LINES, "red-cat 0 0 0"])
    assert words(model, "red-cat cat-red cat-x") == ["red-cat", "cat", "red", "cat"]


def test_a_text_of_unknown_words_has_no_spans(tmp_path):
    for tokens in load(tmp_path).encode_tokens(["zebra", ""]):
        assert tokens.spans == []
        assert tokens.vectors.shape == (0, 3)


def test_a_first_line_of_counts_is_no_word(tmp_path):
    model = load(tmp_path, ["6 3", *LINES])
    assert words(model, "6 cat") == ["cat"]


def test_of_two_lines_of_a_word_the_first_counts(tmp_path):
    model = load(tmp_path, [*LINES, "cat 0 0 0"])
    assert model.encode_tokens(["cat"])[0].vectors.tolist() == [[4, 5, 6]]


@pytest.mark.parametrize("word", ["null", "nan", '"', "#", "\xa0", "\u2028", "café"])
def test_odd_words_are_words(tmp_path, word):
    model = load(tmp_path, [*LINES, f"{word} 9 9 9"])
    assert model._matrix[model._rows[word]].tolist() == [9, 9, 9]


def test_a_word_may_contain_spaces(tmp_path):
    model = load(tmp_path, [". . 9 9 9", *LINES][::-1])
    assert model._matrix[model._rows[". ."]].tolist() == [9, 9, 9]


@pytest.mark.parametrize("line", ["no 1 2", "no 1 2 3 4", "no"])
def test_a_line_of_another_width_is_named(tmp_path, line):
    with pytest.raises(WeightsError, match=r"glove\.txt, line 4: .* Expected 4 columns, got"):
        load(tmp_path, [*LINES[:3], line, *LINES[3:]])


def test_lines_are_counted_after_the_counts_and_beyond_a_block(tmp_path):
    many = [f"w{i} " + "0.123456 " * 49 + "1" for i in range(5000)]
    many[4000] = "w4000 1"
    with pytest.raises(WeightsError, match=r"glove\.txt, line 4002: .* Expected 51 columns"):
        load(tmp_path, ["5000 50", *many])


def test_what_is_no_number_is_named_with_its_line(tmp_path):
    with pytest.raises(WeightsError, match=r"glove\.txt, line 7: .* invalid value 'x'"):
        load(tmp_path, [*LINES, "cat 1 x 3"])


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_vector_that_is_not_finite_is_named(tmp_path, number):
    with pytest.raises(WeightsError, match=r"glove\.txt: the vector of 'odd' is not finite"):
        load(tmp_path, [*LINES, f"odd 1 {number} 3"])


@pytest.mark.parametrize("lines", [[""], ["word"]])
def test_a_file_that_begins_with_no_vector_is_refused(tmp_path, lines):
    with pytest.raises(WeightsError, match=r"glove\.txt does not begin with a word vector"):
        load(tmp_path, lines)


def test_an_absent_file_is_named_with_where_to_get_it(tmp_path):
    with pytest.raises(WeightsError, match=r"no file .*nowhere\.txt; download it from example"):
        WordVectors(device=CPU, weights=str(tmp_path / "nowhere.txt"), source="example")


def archive(folder, *names):
    with zipfile.ZipFile(folder / "glove.zip", "w") as packed:
        for i, name in enumerate(names):
            packed.writestr(name, f"cat {i} 1 2\n")
    return str(folder / "glove.zip")


def test_an_archive_of_one_file_needs_no_name(tmp_path):
    model = WordVectors(device=CPU, weights=archive(tmp_path, "a.txt"))
    assert model.encode_tokens(["cat"])[0].vectors.tolist() == [[0, 1, 2]]


def test_an_archive_of_several_files_is_asked_for_one(tmp_path):
    file = archive(tmp_path, "a.txt", "b.txt")
    model = WordVectors(device=CPU, weights=file, member="b.txt")
    assert model.encode_tokens(["cat"])[0].vectors.tolist() == [[1, 1, 2]]
    for member in ("", "c.txt"):
        with pytest.raises(WeightsError, match=r"contains a\.txt, b\.txt; member=.* must name one"):
            WordVectors(device=CPU, weights=file, member=member)


def test_a_compressed_text_is_read(tmp_path):
    (tmp_path / "glove.txt.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    model = WordVectors(device=CPU, weights=str(tmp_path / "glove.txt.gz"))
    assert words(model, "red cat") == ["red", "cat"]


def test_word2vecs_binary_format_is_read(tmp_path):
    vectors = KeyedVectors(4)
    numbers = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    vectors.add_vectors(["cat", "the", "New_York"], numbers)
    vectors.save_word2vec_format(str(tmp_path / "w.bin"), binary=True)
    tokens = WordVectors(device=CPU, weights=str(tmp_path / "w.bin")).encode_tokens(["The cat"])[0]
    torch.testing.assert_close(tokens.vectors, torch.tensor(numbers[[1, 0]]))


def test_what_is_no_binary_file_is_refused(tmp_path):
    file = write(tmp_path, ["no counts here"], "w.bin")
    with pytest.raises(WeightsError, match=r"w\.bin cannot be read as word2vec's binary format"):
        WordVectors(device=CPU, weights=file)


REAL_FILES = [
    ("gensim_test_glove.txt", (76, 50)),
    ("glove.6B.50d.top2445.txt", (2445, 50)),
    ("glove.6B.300d.sample.txt.gz", (100, 300)),
    ("glove.840B.300d.zip", (100, 300)),
]


@pytest.mark.parametrize(("file", "shape"), REAL_FILES)
def test_real_files_are_read(real_data, file, shape):
    path = real_data / "text" / "glove" / file
    model = WordVectors(device=CPU, weights=str(path))
    assert model._matrix.shape == shape
    if path.suffix == ".txt":
        for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
            word, *numbers = line.split(" ")
            row = model._matrix[model._rows[word]]
            np.testing.assert_array_equal(row, np.array(numbers, dtype=np.float32))


def test_random_vectors_are_a_control_and_glove_is_none():
    assert (RandomVectors.is_control, hasattr(WordVectors, "is_control")) == (True, False)


def test_random_vectors_are_of_unit_length_and_equal_for_equal_words():
    first, second = RandomVectors(device=CPU).encode_tokens(["A cat and a cat.", "Cat"])
    assert first.spans == [(0, 1), (2, 5), (6, 9), (10, 11), (12, 15), (15, 16)]
    assert first.vectors.shape == (6, 300)
    torch.testing.assert_close(first.vectors.norm(dim=1), torch.ones(6))
    assert torch.equal(first.vectors[[0, 1]], first.vectors[[3, 4]])
    assert torch.equal(first.vectors[1:2], second.vectors)
    assert not torch.equal(first.vectors[1], first.vectors[2])


def test_random_vectors_have_the_width_that_is_asked_for():
    (one,) = RandomVectors(device=CPU, width=4).encode_tokens(["cat"])
    assert one.vectors.shape == (1, 4)


def test_a_thousand_random_words_point_everywhere():
    text = " ".join(f"w{i}" for i in range(1000))
    vectors = RandomVectors(device=CPU).encode_tokens([text])[0].vectors
    cosines = (vectors @ vectors.T)[~torch.eye(1000, dtype=torch.bool)]
    # Of independent directions the mean is 0 and the spread 1 / sqrt(300).
    assert abs(cosines.mean()) < 1e-3
    assert cosines.std() == pytest.approx(300**-0.5, rel=0.01)
