import os
import sys

import pytest
from planted_splits import snapshot

from vlbench.errors import OutputError
from vlbench.files import take_lock
from vlbench.leaderboard.merging import swapping
from vlbench.leaderboard.merging.swapping import held, rewritten


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "boards" / "deep").mkdir(parents=True)
    (tmp_path / "boards" / "deep" / "a").write_text("old")
    (tmp_path / "boards" / ".lock").touch()
    return tmp_path / "boards"


def rewrite(folder, *, occupied=True):
    with rewritten(folder, occupied=occupied) as copy:
        (copy / "b").write_text("new")


def test_a_rewritten_folder_has_the_old_files_and_the_new_and_leaves_nothing_beside(folder):
    rewrite(folder)
    assert snapshot(folder) == {"deep/a": b"old", "b": b"new"}
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("made", [True, False])
def test_an_empty_and_an_absent_folder_appear_complete(tmp_path, made):
    if made:
        (tmp_path / "new").mkdir()
    with held(tmp_path / "new", "boards") as occupied:
        rewrite(tmp_path / "new", occupied=occupied)
    assert snapshot(tmp_path) == {"new/b": b"new"}


def test_a_folder_that_others_filled_meanwhile_is_left_alone(folder):
    with pytest.raises(OutputError, match=r"cannot replace .*boards in one step: Directory not em"):
        rewrite(folder, occupied=False)
    assert snapshot(folder) == {"deep/a": b"old"}


def test_an_error_in_the_block_leaves_the_folder_as_it_was(folder):
    with pytest.raises(FileNotFoundError), rewritten(folder, occupied=True) as copy:
        (copy / "deep" / "a").rename(copy / "absent" / "a")
    assert snapshot(folder.parent) == {"boards/deep/a": b"old"}


def test_what_a_killed_call_left_is_removed_though_nothing_is_to_be_written(folder):
    (folder.parent / ".boards.merging-0").mkdir()
    with held(folder, "boards"):
        pass
    assert list(folder.parent.iterdir()) == [folder]


def test_a_link_to_a_folder_stays_a_link(folder):
    link = folder.with_name("link")
    link.symlink_to(folder)
    rewrite(link)
    assert link.is_symlink()
    assert snapshot(folder) == {"deep/a": b"old", "b": b"new"}


def test_the_lock_is_held_across_the_exchange(folder):
    with held(folder, "boards"):
        rewrite(folder)
        assert take_lock(folder / ".lock", seconds=0) is None
    lock = take_lock(folder / ".lock", seconds=0)
    assert lock.is_locked
    lock.release()


def test_without_hard_links_files_are_copied(folder, monkeypatch):
    monkeypatch.setattr(os, "link", refused)
    rewrite(folder)
    assert snapshot(folder) == {"deep/a": b"old", "b": b"new"}


def refused(*_, **__):
    raise OSError


def test_the_current_folder_is_not_replaced(folder, monkeypatch):
    monkeypatch.chdir(folder / "deep")
    with pytest.raises(OutputError, match=r"cannot replace .*boards from inside it; go to another"):
        rewrite(folder)


@pytest.mark.parametrize(("platform", "flag"), [("win32", 2), ("linux", 999)])
def test_where_folders_cannot_be_exchanged_the_way_out_is_told(folder, monkeypatch, platform, flag):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(swapping, "RENAME_EXCHANGE", flag)
    words = (
        r"in one step: (Function not impl|Invalid arg).*; merge into a new folder \(--output NEW"
    )
    with pytest.raises(OutputError, match=words):
        rewrite(folder)
    assert snapshot(folder.parent) == {"boards/deep/a": b"old"}
