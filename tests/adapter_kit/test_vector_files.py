import gzip
import zipfile

import numpy as np
import pytest
from gensim.models import KeyedVectors

from vlbench.adapter_kit import vector_files
from vlbench.adapter_kit.vector_files import read_vectors
from vlbench.errors import WeightsError

WORDS = ["cat", "the", "New_York", "café"]
NUMBERS = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def word2vec(file, *, binary):
    vectors = KeyedVectors(5)
    vectors.add_vectors(WORDS, NUMBERS)
    vectors.save_word2vec_format(str(file), binary=binary)
    return file


@pytest.mark.parametrize("name", ["w.bin", "w.bin.gz"])
@pytest.mark.parametrize("block", [1 << 24, 7])
def test_the_binary_format_is_read_as_gensim_writes_it(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(vector_files, "BLOCK", block)
    content = word2vec(tmp_path / "as gensim", binary=True).read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    words, matrix = read_vectors(tmp_path / name)
    assert words == WORDS
    np.testing.assert_array_equal(matrix, NUMBERS)


@pytest.mark.parametrize("errors", ["ignore", "replace"])
def test_words_that_are_not_utf8_are_read_as_gensim_reads_them(tmp_path, errors):
    file = word2vec(tmp_path / "w.bin", binary=True)
    file.write_bytes(file.read_bytes().replace("é".encode(), b"\xc3"))
    words, matrix = read_vectors(file, unicode_errors=errors)
    expected = KeyedVectors.load_word2vec_format(str(file), binary=True, unicode_errors=errors)
    assert words == expected.index_to_key
    np.testing.assert_array_equal(matrix, expected.vectors)


def test_a_word_that_is_not_utf8_is_named_with_the_way_out(tmp_path):
    file = word2vec(tmp_path / "w.bin", binary=True)
    file.write_bytes(file.read_bytes().replace("é".encode(), b"\xc3"))
    message = r"w\.bin cannot be read .* the word b'caf\\xc3' is not UTF-8; unicode_errors=replace"
    with pytest.raises(WeightsError, match=message):
        read_vectors(file)


def test_vectors_may_end_with_a_new_line_each(tmp_path):
    parts = [f"{w} ".encode() + v.tobytes() for w, v in zip(WORDS, NUMBERS, strict=True)]
    (tmp_path / "w.bin").write_bytes(b"4 5\n" + b"\n".join([*parts, b""]))
    words, matrix = read_vectors(tmp_path / "w.bin")
    assert words == WORDS
    np.testing.assert_array_equal(matrix, NUMBERS)


def test_the_text_format_is_read_as_gensim_writes_it(tmp_path):
    words, matrix = read_vectors(word2vec(tmp_path / "w.txt", binary=False))
    assert words == WORDS
    np.testing.assert_allclose(matrix, NUMBERS, rtol=1e-6)


@pytest.mark.parametrize("end", [" \n", " \r\n", "\n"])
@pytest.mark.parametrize("last", ["", "cut"])
def test_a_blank_at_the_end_of_each_line_is_read_as_gensim_reads_it(tmp_path, end, last):
    lines = [f"w{i} {i} {'5' * (i % 7 + 1)}{end}" for i in range(20_000)]
    text = f"{len(lines)} 2\n{''.join(lines)}"
    (tmp_path / "w.vec").write_text(text.rstrip("\r\n") if last else text, newline="")
    words, matrix = read_vectors(tmp_path / "w.vec")
    expected = KeyedVectors.load_word2vec_format(str(tmp_path / "w.vec"))
    assert words == expected.index_to_key
    np.testing.assert_array_equal(matrix, expected.vectors)


def test_a_line_that_ends_early_with_a_blank_is_refused(tmp_path):
    (tmp_path / "w.vec").write_text("2 3\ncat 1 2 3 \ndog 1 2 \n")
    with pytest.raises(WeightsError, match=r"w\.vec, line 3: "):
        read_vectors(tmp_path / "w.vec")


@pytest.mark.parametrize("header", [b"", b"1 2\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path, header):
    (tmp_path / "w.txt").write_bytes(b"\xef\xbb\xbf" + header + b"cat 1 2\n")
    words, matrix = read_vectors(tmp_path / "w.txt")
    assert (words, matrix.tolist()) == (["cat"], [[1, 2]])


@pytest.mark.parametrize("declared", [3, 5])
def test_a_text_of_more_or_fewer_vectors_than_it_declares_is_refused(tmp_path, declared):
    file = word2vec(tmp_path / "w.txt", binary=False)
    file.write_text(file.read_text("utf-8").replace("4 5", f"{declared} 5", 1), "utf-8")
    with pytest.raises(WeightsError, match=rf"w\.txt has 4 vectors; .* declares {declared}"):
        read_vectors(file)


WRONG_HEADERS = [
    (b"3 5", "continues after the 3 vectors"),
    (b"5 5", "ends after 4 of 5 vectors"),
    (b"0 5", "declares 0 vectors of 5 numbers"),
    (b"4 99999999999", "declares 4 vectors of 99999999999 numbers"),
    (b"99999999999 5", "too small for the 99999999999 x 5 numbers"),
    (b"4 5 6", "too many values to unpack"),
]


@pytest.mark.parametrize(("header", "match"), WRONG_HEADERS)
def test_a_binary_file_that_is_not_what_it_declares_is_refused(tmp_path, header, match):
    file = word2vec(tmp_path / "w.bin", binary=True)
    file.write_bytes(file.read_bytes().replace(b"4 5", header, 1) + b"\n" * 60)
    with pytest.raises(WeightsError, match=rf"w\.bin cannot be read as .*: .*{match}"):
        read_vectors(file)


def test_a_binary_vector_that_is_not_finite_is_named(tmp_path):
    file = tmp_path / "w.bin"
    file.write_bytes(b"1 2\nodd " + np.array([1, np.inf], np.float32).tobytes())
    with pytest.raises(WeightsError, match=r"w\.bin: the vector of 'odd' is not finite"):
        read_vectors(file)


def test_a_first_line_that_declares_more_numbers_than_the_second_has_is_refused(tmp_path):
    (tmp_path / "w.txt").write_text("1 16000\ncat 1 2\n")
    with pytest.raises(WeightsError, match=r"w\.txt does not begin with a word vector"):
        read_vectors(tmp_path / "w.txt")


def test_a_line_of_more_numbers_than_a_vector_has_is_refused(tmp_path):
    (tmp_path / "w.txt").write_text("cat" + " 1" * 20000)
    with pytest.raises(WeightsError, match=r"w\.txt, line 1: a vector of 20000 numbers"):
        read_vectors(tmp_path / "w.txt")


@pytest.mark.parametrize("name", ["w.zip", "w.txt.gz"])
def test_a_text_that_fills_the_memory_is_refused(tmp_path, name):
    content = b"the 1 2 3\n" * 200_000
    if name == "w.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("w.txt", content)
    else:
        (tmp_path / name).write_bytes(gzip.compress(content))
    with pytest.raises(WeightsError, match=rf"{name}.* it has .* malicious"):
        read_vectors(tmp_path / name)


def test_an_empty_file_is_called_so(tmp_path):
    (tmp_path / "w.bin").touch()
    with pytest.raises(WeightsError, match=r"w\.bin cannot be read as .*: it is empty"):
        read_vectors(tmp_path / "w.bin")
