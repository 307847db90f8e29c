import gzip
import zipfile

import pytest

from vlbench.adapter_kit import archives
from vlbench.adapter_kit.archives import most_bytes, open_gzip, open_zip
from vlbench.errors import WeightsError


def zipped(file, content):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("words", content)
    return file


def test_an_archive_that_unpacks_to_much_more_than_its_size_is_refused(tmp_path):
    file = zipped(tmp_path / "bomb.zip", b"0" * 1_000_000)
    with pytest.raises(WeightsError, match=r"bomb\.zip has \d+ bytes and unpacks to 1000000 bytes"):
        open_zip(file).__enter__()


def test_an_archive_is_held_to_what_the_caller_expects(tmp_path):
    file = zipped(tmp_path / "w.zip", b"0123456789" * 100)
    with open_zip(file) as archive:
        assert archive.read("words") == b"0123456789" * 100
    with pytest.raises(WeightsError, match="made to fill the memory"):
        open_zip(file, times=1).__enter__()


def test_a_text_that_unpacks_to_much_more_than_its_size_is_refused(tmp_path):
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b"0" * 1_000_000))
    with open_gzip(file) as stream, pytest.raises(WeightsError, match=r"bomb\.gz has .* more than"):
        stream.read()


def test_a_text_is_unpacked(tmp_path):
    (tmp_path / "w.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with open_gzip(tmp_path / "w.gz") as stream:
        assert stream.readline() == b"one\n"
        assert stream.read() == b"two\n"


def test_no_file_unpacks_to_more_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 50)
    (tmp_path / "w").write_bytes(b"0" * 10)
    assert most_bytes(tmp_path / "w", 3) == 30
    assert most_bytes(tmp_path / "w") == 50
