import pytest

from vlbench.data.texts import first_repeated, is_number, read_text, sound_text
from vlbench.errors import DataError


def test_a_text_is_read_with_any_line_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes("caf\u00e9\r\n".encode())
    assert read_text(tmp_path / "a.txt") == "caf\u00e9\n"


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"^a\.txt is no UTF-8: byte 3$"):
        read_text(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"^lists/a\.txt is no UTF-8"):
        read_text(tmp_path / "a.txt", "lists/a.txt")
    with pytest.raises(DataError, match=r"^b\.txt cannot be read \(No such file"):
        read_text(tmp_path / "b.txt")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0", True), ("9" * 9, True), ("9" * 10, False), ("-1", False), ("", False)],
)
def test_a_number_has_at_most_nine_digits(text, wanted):
    assert is_number(text) is wanted


def test_the_first_value_that_occurs_twice_is_found():
    assert first_repeated([3, 1, 2, 1, 3]) == 3
    assert first_repeated([3, 1]) is None


def test_a_text_that_utf8_cannot_hold_is_refused():
    assert sound_text("caf\u00e9") == "caf\u00e9"
    with pytest.raises(ValueError, match="surrogates not allowed"):
        sound_text("\ud800")
    with pytest.raises(TypeError, match="7 is no text"):
        sound_text(7)
