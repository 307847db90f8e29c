"""Answers of a server that are kept, in memory and in a file."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from vlbench.adapter_kit.answers import Answers
from vlbench.errors import OutputError


def unasked():
    raise AssertionError("it is asked again")


def test_an_answer_is_asked_for_once(tmp_path):
    known = Answers()
    assert known.get({"a": 1}, lambda: [["Yes", -0.5]]) == [["Yes", -0.5]]
    assert known.get({"a": 1}, unasked) == [["Yes", -0.5]]
    assert known.get({"a": 2}, lambda: "no") == "no"
    assert [*tmp_path.iterdir()] == []


def test_an_error_is_no_answer():
    known = Answers()
    with pytest.raises(AssertionError):
        known.get("a", unasked)
    assert known.get("a", lambda: 1) == 1


def test_later_runs_read_the_file(tmp_path):
    file = tmp_path / "new" / "v1.jsonl"
    Answers(file).get({"a": "é\n"}, lambda: "ü\n")
    assert Answers(file).get({"a": "é\n"}, unasked) == "ü\n"


@pytest.mark.parametrize("cut", range(1, 80, 7))
def test_a_torn_record_spoils_no_other(tmp_path, cut):
    file = tmp_path / "v1.jsonl"
    first, last = Answers(file), Answers(file)
    first.get("a", lambda: 1)
    first.get("b", lambda: 2)
    file.write_bytes(file.read_bytes()[:-cut])
    last.get("c", lambda: 3)
    again = Answers(file)
    assert (again.get("a", unasked), again.get("c", unasked)) == (1, 3)
    assert again.get("b", lambda: 4) == 4


@pytest.mark.parametrize("line", [b"\xff", b"[1]", b"7", b"[[], 1]", b"[" * 100_000])
def test_lines_of_another_form_are_passed_over(tmp_path, line):
    (tmp_path / "v1.jsonl").write_bytes(line)
    assert Answers(tmp_path / "v1.jsonl").get("a", lambda: 1) == 1


def test_several_append_to_one_file(tmp_path):
    several = [Answers(tmp_path / "v1.jsonl") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda i: several[i % 4].get(i, lambda: "a" * 1000 * i), range(80))]
    again = Answers(tmp_path / "v1.jsonl")
    assert [again.get(i, unasked) for i in range(80)] == ["a" * 1000 * i for i in range(80)]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*/file/v1\.jsonl: "):
        Answers(tmp_path / "file" / "v1.jsonl").get("a", lambda: 1)
