"""Tar shards as CLIP_benchmark writes them, and as nobody should."""

import pickle
import shutil
import tarfile

import numpy as np
import pytest
from foil_files import image_bytes
from PIL import Image
from tar_shards import info, pack, put_split

from vlbench.data import webdataset
from vlbench.data.image_folder import image_folder
from vlbench.data.images import SUFFIXES
from vlbench.data.webdataset import MOST_HEADER, Member, images, members
from vlbench.errors import DataError
from vlbench.system.digests import remembered_in

# One class per shard, and another format in each: in the order of a folder of classes.
FORMS = [("cat", "png"), ("cat", "jpg"), ("dog", "webp"), ("dog", "jpeg")]


def encoded(level, suffix):
    form = {"jpg": "JPEG"}.get(suffix, suffix.upper())
    pixels = np.random.default_rng(level).integers(0, 256, (5, 6, 3), np.uint8)
    return image_bytes(Image.fromarray(pixels), form)


def example(i, **changed):
    name, suffix = FORMS[i]
    members = {suffix: encoded(i, suffix), "cls": str(int(name == "dog")).encode()}
    members |= {"txt": f"a {name}\r\nnumber {i}\n".encode()} | changed
    return [(f"s{i:07}.{end}", content) for end, content in members.items() if content is not None]


def shards(**changed):
    """Return two shards of two examples; `changed` are members of the last."""
    return [example(0) + example(1), example(2) + example(3, **changed)]


def load(root, **options):
    return images(root=root, **{"splits": {"test": "test"}, **options})


def test_a_split_lies_in_any_folder(tmp_path):
    put_split(tmp_path, shards(), split="validation")
    put_split(tmp_path, [example(0)], split="train")
    # What macOS leaves on foreign disks.
    (tmp_path / "train" / "._0.tar").write_bytes(b"")
    data = load(tmp_path, splits={"train": "train", "test": "validation"})
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 1, "test": 4}


REFUSED = [
    (shards(cls=None), r"1\.tar: s0000003 has no \.cls"),
    (shards(cls=b"cat"), r"1\.tar: s0000003\.cls contains 'cat', not a class number"),
    (shards(cls=b"-1"), r"1\.tar: s0000003\.cls contains '-1', not a class number"),
    (shards(cls=b"2"), r"1\.tar: s0000003: the label is 2, not in 0\.\.1"),
    (shards(png=encoded(0, "png")), r"1\.tar: s0000003 has 2 images \(jpeg and png\)"),
    (shards(jpeg=encoded(3, "jpeg")[:-60]), r"1\.tar: s0000003 cannot be decoded as an image"),
    ([example(0), example(1), example(0)], r"2\.tar: the key s0000000 is also in test/0\.tar"),
    # An example of two shards.
    ([[*example(1), *example(0)[::2]], [example(0)[1]]], r"0\.tar: s0000000 has no \.cls"),
    ([example(0), []], r"1\.tar contains no file; pack it again, or leave it"),
    ([[("README", b"x")]], r"no shard contains an image \(png, "),
]


@pytest.mark.parametrize(("packed", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_example_is_named_by_shard_and_key(tmp_path, packed, message):
    with pytest.raises(DataError, match=rf"^test[/:] ?{message}"):
        load(put_split(tmp_path, packed), caption="txt")


def test_keys_without_an_example_are_counted(tmp_path):
    first, second = shards()
    data = load(put_split(tmp_path, [[*first, ("README", b"")], [*second, ("x.json", b"{}")]]))
    (count,) = data.dropped.values()
    assert (len(data.splits["test"]), count) == (4, 2)


COUNTS = [
    ("3", (r"^test/2\.tar is missing; test/nshards\.txt " r"declares 3 shards")),
    ("999999999", r"^test/2\.tar is missing;"),
    ("1", r"^test/1\.tar is beyond the 1 shards that test/nshards\.txt"),
    ("0", r"^test/nshards\.txt: '0' is not a number of shards"),
    ("two", r"^test/nshards\.txt: 'two' is not a number of shards"),
]


@pytest.mark.parametrize(("count", "message"), COUNTS)
def test_shards_are_as_many_as_they_are_said_to_be(tmp_path, count, message):
    root = put_split(tmp_path, shards())
    (root / "test/nshards.txt").write_text(count)
    with pytest.raises(DataError, match=message):
        load(root)


def test_an_absent_number_of_shards_is_named(tmp_path):
    root = put_split(tmp_path, shards())
    (root / "test/nshards.txt").unlink()
    message = r"^test/nshards\.txt is missing; it gives the number of shards"
    with pytest.raises(DataError, match=message):
        load(root)


def test_a_blank_class_is_named(tmp_path):
    with pytest.raises(DataError, match=r"^classnames\.txt, line 2, is not the name of a class"):
        load(put_split(tmp_path, shards(), names=["cat", " ", "dog"]))


def test_a_shard_is_read_once_until_it_changes(tmp_path, monkeypatch):
    root, read = put_split(tmp_path / "shards", shards()), []
    original = webdataset.read_shard

    def counted(path, *rest):
        read.append(path.name)
        return original(path, *rest)

    monkeypatch.setattr(webdataset, "read_shard", counted)
    monkeypatch.setattr("vlbench.system.digests.SETTLED_NS", -1)
    with remembered_in(tmp_path / "digests.sqlite"):
        first = load(root).digest()
        assert load(root).digest() == first
        pack(root / "test/1.tar", example(2))
        assert len(load(root).splits["test"]) == 3
        load(root, caption="txt")
    assert read == ["0.tar", "1.tar", "1.tar", "0.tar", "1.tar"]


def test_images_travel_to_other_processes(tmp_path):
    column = load(put_split(tmp_path, shards())).splits["test"]["image"]
    assert pickle.loads(pickle.dumps(column))[1].size == (6, 5)  # noqa: S301 - its own


def test_a_shard_that_is_gone_is_named_with_the_key(tmp_path):
    column = load(put_split(tmp_path, shards())).splits["test"]["image"]
    shutil.rmtree(tmp_path / "test")
    with pytest.raises(DataError, match=r"^test/0\.tar: s0000001 cannot be read \(No such file"):
        column[1]


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


def test_folders_and_hidden_files_are_no_members(tmp_path):
    folder = info("sub", type=tarfile.DIRTYPE)
    file = pack(tmp_path / "0.tar", [folder, ("._a.jpg", b"x"), ("README", b"x"), ("./a.jpg", b"")])
    assert [(m.key, m.suffix) for m in found(file)] == [("README", ""), ("a", "jpg")]


def test_two_dots_before_a_suffix_are_one(tmp_path):
    assert found(pack(tmp_path / "0.tar", [("s1..jpg", b"")]))[0][:2] == ("s1", "jpg")


NO_FILES = [
    (info("a.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is not a plain file; pack"),
    (info("a.jpg", type=tarfile.LNKTYPE, linkname="b.jpg"), "is not a plain file"),
    (info("a.jpg", type=tarfile.FIFOTYPE), "is not a plain file"),
    (("/etc/a.jpg", b""), "'/etc/a.jpg' is not a plain relative path"),
    (("x/../../a.jpg", b""), "is not a plain relative path"),
    (("a\x1b[2J.jpg", b""), r"'a\\x1b\[2J.jpg' is not a plain relative path"),
]


@pytest.mark.parametrize(("member", "message"), NO_FILES)
def test_what_is_no_file_of_its_own_is_named(tmp_path, member, message):
    with pytest.raises(DataError, match=rf"^test/0\.tar: .*{message}"):
        found(pack(tmp_path / "0.tar", [("fine.jpg", b"x"), member]))


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


def test_a_tar_that_cannot_be_read_is_named_without_its_root(tmp_path):
    (tmp_path / "0.tar").mkdir()
    with pytest.raises(DataError, match=r"^test/0\.tar is damaged .* \(Is a directory\)$"):
        found(tmp_path / "0.tar")


def announced(size):
    return info("a.jpg", size=size).tobuf(tarfile.GNU_FORMAT) + bytes(1024)


NO_HEADER, NO_TAR = "the next block is not a header", " is damaged .* or is not an uncompressed tar"
MORE = r".*'a\.jpg' declares {} bytes, more than the tar contains"
DAMAGED = [
    # It breaks off between members, has a broken header, and a second tar behind the first.
    (lambda tar: tar[:1536], r" is damaged after 'a\.jpg'.*it is cut off"),
    (lambda tar: tar[:1536] + b"\xff" * 64 + tar[1600:], rf".*damaged after 'a\.jpg'.*{NO_HEADER}"),
    (lambda tar: tar * 2, rf".*damaged after 'b\.jpg'.*{NO_HEADER}"),
    (lambda _: b"", NO_TAR),
    (lambda _: b"nothing", NO_TAR),
    (lambda _: b"\x1f\x8b" + b"0" * 1024, NO_TAR),
    (lambda _: announced(10**12), MORE.format(10**12)),
    (lambda _: announced(8**11), MORE.format(8**11)),
    (lambda _: announced(-512), MORE.format(-512)),
]


@pytest.mark.parametrize(("change", "message"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_tar_is_no_shorter_one(tmp_path, change, message):
    file = pack(tmp_path / "0.tar", [("a.jpg", b"x" * 600), ("b.jpg", b"y" * 600)])
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(DataError, match=rf"^test/0\.tar{message}"):
        found(file)


@pytest.mark.parametrize(
    ("suffix", "label"), [("png", ""), *((name.removeprefix("."), "cls") for name in SUFFIXES)]
)
def test_each_format_of_images_is_read_as_in_a_folder(suffix, label, tmp_path):
    form = Image.registered_extensions()[f".{suffix}"]
    for i in (0, 1):
        file = tmp_path / "files/test" / ("cat", "dog")[i] / f"{i}.{suffix.upper()}"
        file.parent.mkdir(parents=True)
        Image.new("1" if suffix == "pbm" else "L", (4, 3), i).save(file, form)
    files = sorted((tmp_path / "files").rglob("*.*"))
    members = [(file.name, file.read_bytes()) for file in files] + [
        ("0.cls", b"0"),
        ("1.cls", b"1"),
    ]
    split = load(put_split(tmp_path, [members]), label=label).splits["test"]
    assert split["image"].key == image_folder(root=tmp_path / "files").splits["test"]["image"].key


def test_a_suffix_of_captions_is_no_name_too(tmp_path):
    root = put_split(tmp_path, shards())
    with pytest.raises(DataError, match=r"s0000000: the category is \['a cat', .*, not a text"):
        load(root, label="", caption="txt", category="txt")
    assert [*load(root, category="cls").splits["test"]["category"]] == ["0", "0", "1", "1"]
