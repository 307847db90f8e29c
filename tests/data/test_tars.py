import tarfile

import pytest
from tar_shards import info, pack

from vlbench.data.tars import MOST_HEADER, Member, members
from vlbench.errors import DataError


def found(file):
    return list(members(file, "test/0.tar"))


def content(file, member):
    return file.read_bytes()[member.start : member.start + member.size]


def test_members_are_found_where_they_begin(tmp_path):
    long = "x" * 300
    file = pack(
        tmp_path / "0.tar", [("a.jpg", b"one"), ("sub/b.seg.PNG", b"two"), (long + ".c", b"")]
    )
    a, b, c = found(file)
    assert (a.key, a.suffix, content(file, a)) == ("a", "jpg", b"one")
    assert (b.key, b.suffix, content(file, b)) == ("sub/b", "seg.png", b"two")
    assert (c.key, c.suffix, c.size) == (long, "c", 0)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_positions_are_those_of_tarfile_in_every_format(tmp_path, form):
    with tarfile.open(tmp_path / "0.tar", "w", format=form) as archive:
        for name in ("\u00e9.jpg", "y" * 90 + ".cls"):
            (tmp_path / "one").write_bytes(name.encode())
            archive.add(tmp_path / "one", name)
    one, two = found(tmp_path / "0.tar")
    assert content(tmp_path / "0.tar", one) == "\u00e9.jpg".encode()
    assert content(tmp_path / "0.tar", two) == b"y" * 90 + b".cls"


def test_folders_hidden_files_and_names_without_a_suffix_are_no_members(tmp_path):
    folder = info("sub", type=tarfile.DIRTYPE)
    file = pack(tmp_path / "0.tar", [folder, ("._a.jpg", b"x"), ("README", b"x"), ("./a.jpg", b"")])
    assert [(one.key, one.suffix) for one in found(file)] == [("a", "jpg")]


def test_two_dots_before_a_suffix_are_one(tmp_path):
    assert found(pack(tmp_path / "0.tar", [("s1..jpg", b"")]))[0][:2] == ("s1", "jpg")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (info("a.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is no plain file; pack"),
        (info("a.jpg", type=tarfile.LNKTYPE, linkname="b.jpg"), "is no plain file"),
        (info("a.jpg", type=tarfile.FIFOTYPE), "is no plain file"),
        (("/etc/a.jpg", b""), "'/etc/a.jpg' is no plain relative path"),
        (("x/../../a.jpg", b""), "is no plain relative path"),
        (("a\x1b[2J.jpg", b""), r"'a\\x1b\[2J.jpg' is no plain relative path"),
    ],
)
def test_what_is_no_file_of_its_own_is_named(tmp_path, member, message):
    with pytest.raises(DataError, match=rf"^test/0\.tar: .*{message}"):
        found(pack(tmp_path / "0.tar", [("fine.jpg", b"x"), member]))


@pytest.mark.parametrize("size", [10**12, 8**11, -512])
def test_a_size_that_the_tar_cannot_have_is_named_and_never_read(tmp_path, size):
    header = info("a.jpg", size=size).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "0.tar").write_bytes(header + bytes(1024))
    with pytest.raises(DataError, match=rf"'a\.jpg' announces {size} bytes, more than the tar has"):
        found(tmp_path / "0.tar")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_as_large_as_a_file_is_not_read(tmp_path, kind, little_memory):
    header = info("a", type=kind, size=1 << 31).tobuf(tarfile.GNU_FORMAT)
    with (tmp_path / "0.tar").open("wb") as file:
        file.write(header)
        file.truncate(1 << 32)
    with little_memory(), pytest.raises(DataError, match="a header of 2147483648 bytes"):
        found(tmp_path / "0.tar")


def test_a_long_name_within_bounds_is_read(tmp_path):
    file = pack(tmp_path / "0.tar", [("n" * (MOST_HEADER // 2) + ".jpg", b"x")])
    assert isinstance(found(file)[0], Member)


def whole(tmp_path):
    return pack(tmp_path / "0.tar", [("a.jpg", b"x" * 600), ("b.jpg", b"y" * 600)])


def test_a_tar_that_breaks_off_between_members_is_no_shorter_set(tmp_path):
    file = whole(tmp_path)
    file.write_bytes(file.read_bytes()[: 512 + 1024])
    with pytest.raises(DataError, match=r"^test/0\.tar is damaged after 'a\.jpg'.*it breaks off"):
        found(file)


def test_a_broken_header_is_no_end(tmp_path):
    file = whole(tmp_path)
    stored = bytearray(file.read_bytes())
    stored[1536:1600] = b"\xff" * 64
    file.write_bytes(stored)
    with pytest.raises(DataError, match=r"damaged after 'a\.jpg'.*what follows is no header"):
        found(file)


def test_a_second_tar_behind_the_first_is_not_lost_without_a_word(tmp_path):
    file = whole(tmp_path)
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(DataError, match=r"damaged after 'b\.jpg'.*what follows is no header"):
        found(file)


def test_a_tar_that_cannot_be_read_is_named_without_its_root(tmp_path):
    (tmp_path / "0.tar").mkdir()
    with pytest.raises(DataError, match=r"^test/0\.tar is damaged .* \(Is a directory\)$"):
        found(tmp_path / "0.tar")


@pytest.mark.parametrize("stored", [b"", b"nothing", b"\x1f\x8b" + b"0" * 1024])
def test_what_is_no_tar_is_named(tmp_path, stored):
    (tmp_path / "0.tar").write_bytes(stored)
    with pytest.raises(DataError, match=r"^test/0\.tar is damaged .* or no uncompressed tar"):
        found(tmp_path / "0.tar")
