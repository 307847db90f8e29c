import multiprocessing

import pytest

from vlbench.data.scenes.rows import row
from vlbench.data.scenes.storage import open_rows, read_digests, write_once
from vlbench.errors import DataError, OutputError


def one_row():
    return [row("objects", 0, 7)]


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_stored_rows_are_read_from_the_disk(tmp_path):
    digests = write_once(tmp_path / "rows", one_row)
    assert read_digests(tmp_path / "rows") == digests
    table = open_rows(tmp_path / "rows")
    assert table.column("nouns").to_pylist() == [["goldfish"]]
    assert table.column("image")[0].as_py() == one_row()[0][0]["image"]


def test_stored_rows_that_are_damaged_are_named_without_their_path(tmp_path):
    write_once(tmp_path / "scenes" / "2-0-objects", one_row)
    file = tmp_path / "scenes" / "2-0-objects" / "rows.arrow"
    file.write_bytes(file.read_bytes()[:2000])
    message = r"^scenes/2-0-objects in the cache cannot be read \(.*delete it and run again"
    with pytest.raises(DataError, match=message):
        open_rows(file.parent)
    file.unlink()
    with pytest.raises(DataError, match=message):
        open_rows(file.parent)


def test_a_single_changed_byte_of_stored_rows_is_named(tmp_path):
    write_once(tmp_path / "scenes" / "rows", one_row)
    file = tmp_path / "scenes" / "rows" / "rows.arrow"
    file.write_bytes(file.read_bytes().replace(b"goldfish", b"goldfisk"))
    with pytest.raises(DataError, match=r"scenes/rows in the cache cannot be read"):
        open_rows(file.parent)


def test_what_is_stored_is_not_drawn_again(tmp_path):
    first = write_once(tmp_path / "rows", one_row)
    assert write_once(tmp_path / "rows", lambda: pytest.fail("drawn again")) == first
    assert names(tmp_path) == ["rows"]


def test_a_folder_without_rows_has_no_digests(tmp_path):
    assert read_digests(tmp_path / "rows") is None


def draw_and_count(folder):
    def rows():
        with (folder / "drawn").open("a") as file:
            file.write("once\n")
        return one_row()

    write_once(folder / "rows", rows)


def test_of_several_processes_one_draws_and_the_others_wait(tmp_path):
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=draw_and_count, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "drawn").read_text() == "once\n"


def test_a_run_that_is_cut_off_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_once(tmp_path / "rows", lambda: (1 / 0 for _ in range(1)))
    assert names(tmp_path) == []


def test_what_a_killed_run_left_is_replaced(tmp_path):
    (tmp_path / ".part-rows").mkdir()
    (tmp_path / ".part-rows" / "rows.arrow").write_text("half")
    write_once(tmp_path / "rows", one_row)
    assert names(tmp_path) == ["rows"]


def test_a_cache_that_may_only_be_read_is_read(tmp_path, monkeypatch):
    digests = write_once(tmp_path / "rows", one_row)
    # Root may write to any folder: a lock that fails stands for the missing right.
    monkeypatch.setattr("fcntl.flock", None)
    assert write_once(tmp_path / "rows", one_row) == digests


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*file/rows"):
        write_once(tmp_path / "file" / "rows", list)


def test_a_folder_in_the_way_is_named(tmp_path):
    (tmp_path / "rows" / "other").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"cannot write .*rows"):
        write_once(tmp_path / "rows", one_row)
