import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vlbench.errors import OutputError
from vlbench.system.files import (
    IN_USE,
    default_cache,
    harmless,
    is_model_name,
    read_bytes,
    read_text,
    safe_name,
    take_lock,
    temporary_folder,
    write_whole,
)


def no_room(_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_written_with_its_folders(tmp_path):
    write_whole(tmp_path / "a" / "b" / "c.bin", b"\x00content")
    assert (tmp_path / "a" / "b" / "c.bin").read_bytes() == b"\x00content"


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"two")]


def test_others_may_read_the_file(tmp_path):
    write_whole(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_until_all_is_written_readers_see_the_old_file(tmp_path, monkeypatch):
    file, seen = tmp_path / "a", []
    write_whole(file, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(file.read_bytes()))
    write_whole(file, b"new" * 100_000)
    assert (seen, file.read_bytes()) == ([b"old"], b"new" * 100_000)


def test_a_reader_that_has_the_file_open_keeps_what_it_reads(tmp_path):
    write_whole(tmp_path / "a", b"old")
    with (tmp_path / "a").open("rb") as reader:
        write_whole(tmp_path / "a", b"new")
        assert reader.read() == b"old"


def test_a_full_disk_is_told_and_leaves_no_part(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OutputError, match=r"cannot write .*a\.json: No space left on device"):
        write_whole(tmp_path / "a.json", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OutputError, match="cannot write"):
        write_whole(tmp_path / "a", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"old")]


def test_a_file_where_a_folder_should_be_is_told(tmp_path):
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(OutputError, match=r"cannot write .*a/b/c: (Not a directory|File exists)"):
        write_whole(tmp_path / "a" / "b" / "c", b"x")


def test_a_folder_where_the_file_should_be_is_told_and_leaves_no_part(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*a: Is a directory"):
        write_whole(tmp_path / "a", b"x")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_a_run_that_is_stopped_leaves_no_part(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "clip[weights=x]", "1.5", "a-b_c"])
def test_a_name_that_is_safe_stays(name):
    assert safe_name(name) == name


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a b", "\n", ""])
def test_a_name_that_is_not_safe_changes_and_stays_apart(name):
    safe = safe_name(name)
    assert not set("/\n ") & set(safe)
    assert not safe.startswith(".")
    assert name == "" or safe != safe_name(name + name)


def test_a_lock_is_held_by_one_and_free_again_when_released(tmp_path):
    lock = take_lock(tmp_path / "lock")
    assert take_lock(tmp_path / "lock", seconds=0) is None
    lock.release()
    assert take_lock(tmp_path / "lock", seconds=0) is not None


def left(folder, age):
    """A temporary folder with the mark of whoever used it so many seconds ago."""
    mark = folder / IN_USE
    folder.mkdir()
    mark.touch()
    os.utime(mark, (time.time() - age,) * 2)
    return mark


def test_a_temporary_folder_goes_and_so_do_those_of_killed_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    marks = [left(tmp_path / f"vlbench-{age}", age) for age in (3600, 3600 * 24, 1)]
    (tmp_path / "vlbench-boards").mkdir()
    lock = take_lock(marks[1])
    with temporary_folder() as folder:
        assert folder.is_dir()
        assert [mark.exists() for mark in marks] == [False, True, True]
    lock.release()
    names = {"vlbench-86400", "vlbench-1", "vlbench-boards"}
    assert {one.name for one in tmp_path.iterdir()} == names


def test_a_killed_process_leaves_its_folder_and_the_next_one_removes_it(tmp_path):
    code = (
        "import os, signal\nfrom vlbench.system.files import IN_USE, temporary_folder\n"
        "with temporary_folder() as folder:\n    os.utime(folder / IN_USE, (0, 0))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for _ in range(2):
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", code], check=False, env=environment)
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_gets_a_file_with_a_lifetime(tmp_path, monkeypatch, number):
    def without_locks(*_):
        raise OSError(number, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", without_locks)
    lock = take_lock(tmp_path / "lock")
    assert (tmp_path / "lock.lease").exists()
    assert take_lock(tmp_path / "lock", seconds=0) is None
    lock.release()
    assert take_lock(tmp_path / "lock", seconds=0) is not None


@pytest.mark.parametrize(
    ("name", "fits"),
    [("a b", True), ("$x$", True), ("", False), ("a\n", False), ("x" * 201, False)],
)
def test_a_model_is_named_by_printable_characters(name, fits):
    assert is_model_name(name) == fits


def test_the_cache_is_where_the_environment_says_or_below_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path / "scratch"))
    assert default_cache() == tmp_path / "scratch"
    monkeypatch.setenv("VLBENCH_CACHE_DIR", "")
    assert default_cache() == tmp_path / "cache" / "vlbench"


def test_a_file_is_read_up_to_its_size_and_refused_unread_beyond(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    os.truncate(tmp_path / "a", 1 << 40)
    with pytest.raises(OSError, match="it has 1099511627776 bytes; at most 4 are read"):
        read_bytes(tmp_path / "a", 4)


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch):
    for name in ("old", "new, and longer"):
        (tmp_path / name[:3]).write_text(name)
    stat, waiting = os.stat, [tmp_path / "new"]

    def replace_afterwards(*given, **options):
        size = stat(*given, **options)
        while waiting:
            waiting.pop().rename(tmp_path / "old")
        return size

    monkeypatch.setattr(os, "stat", replace_afterwards)
    assert read_bytes(tmp_path / "old", 99) == b"old"


def test_a_device_without_an_end_is_refused():
    with pytest.raises(OSError, match="it grows or is endless; at most 10 bytes are read"):
        read_bytes(Path("/dev/zero"), 10)


def test_a_text_has_the_line_breaks_of_python(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\rthr\xc3\xa9e\n")
    assert read_text(tmp_path / "a", 99) == (tmp_path / "a").read_text("utf-8")


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-1", "@x", "\tx", "\rx", "\n=x", "\uff1dx"])
def test_a_text_that_could_be_a_formula_begins_with_an_apostrophe(text):
    assert harmless(text).startswith("'")


@pytest.mark.parametrize("value", [-0.5, 3, None, "a=b", "", "'x"])
def test_numbers_and_other_texts_are_left_alone(value):
    assert harmless(value) == value
