"""Answers of a server that are kept, in memory and in a file."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from vlbench.adapter_kit.answers import KeptAnswers
from vlbench.errors import OutputError


def is_text(value):
    return isinstance(value, str)


def test_an_answer_is_kept_in_memory():
    known = KeptAnswers()
    known.keep({"a": 1}, "no")
    assert known.find({"a": 1}, is_text) == "no"
    assert known.find({"a": 2}, is_text) is None


def test_later_runs_read_the_file(tmp_path):
    file = tmp_path / "new" / "v1.jsonl"
    KeptAnswers(file).keep({"a": "é\n"}, "ü\n")
    assert KeptAnswers(file).find({"a": "é\n"}, is_text) == "ü\n"


@pytest.mark.parametrize("cut", range(1, 80, 7))
def test_a_torn_record_spoils_no_other(tmp_path, cut):
    file = tmp_path / "v1.jsonl"
    first, last = KeptAnswers(file), KeptAnswers(file)
    first.keep("a", "1")
    first.keep("b", "2")
    file.write_bytes(file.read_bytes()[:-cut])
    last.keep("c", "3")
    again = KeptAnswers(file, is_text)
    assert [again.find(key, is_text) for key in "abc"] == ["1", None, "3"]


@pytest.mark.parametrize("line", [b"\xff", b"[1]", b"7", b"[[], 1]", b"[" * 100_000])
def test_lines_of_another_form_are_passed_over(tmp_path, line):
    (tmp_path / "v1.jsonl").write_bytes(line)
    assert KeptAnswers(tmp_path / "v1.jsonl").find("a", is_text) is None


@pytest.mark.parametrize("edited", [7, None, True, [], {}, [["Yes"]], 1e400, {"why": "refused"}])
def test_records_of_another_form_are_left_out_and_said_once(tmp_path, caplog, edited):
    file = tmp_path / "v1.jsonl"
    for key in "abc":
        KeptAnswers(file).keep(key, edited if key != "c" else "well")
    known = KeptAnswers(file, is_text)
    assert [known.find(key, is_text) for key in "abc"] == [None, None, "well"]
    assert caplog.messages == [f"{file}: 2 kept answers of another form; requested again"]
    for key in "ab":
        known.keep(key, "B")
    assert KeptAnswers(file, is_text).find("a", is_text) == "B"
    assert len(caplog.messages) == 1


def test_an_answer_of_another_kind_than_requested_is_not_used(caplog):
    known = KeptAnswers()
    known.keep("a", 1)
    assert known.find("a", is_text) is None
    assert len(caplog.messages) == 1


def test_several_append_to_one_file(tmp_path):
    several = [KeptAnswers(tmp_path / "v1.jsonl") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda i: several[i % 4].keep(i, "a" * 1000 * i), range(80))]
    again = KeptAnswers(tmp_path / "v1.jsonl")
    assert [again.find(i, is_text) for i in range(80)] == ["a" * 1000 * i for i in range(80)]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*/file/v1\.jsonl: "):
        KeptAnswers(tmp_path / "file" / "v1.jsonl").keep("a", "1")
