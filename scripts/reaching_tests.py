#!/usr/bin/env python3
"""Prints the test files that reach a changed file, one per line; `scripts/check` runs them.

A test file reaches what it imports, directly or not, as determined by `vlbench.code.identity`.
Commands, probes and adapters are named, not imported: the test files at the mirrored path reach
them. A file that is not Python is reached by the test files that contain its name, and YAML by the
tests of the catalog.

    scripts/reaching_tests.py [FILE ...]    without files: all files that git reports as changed
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vlbench.code import identity

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"


def main(names: Sequence[str]) -> None:
    """Print the test files."""
    for test in reaching_tests({(ROOT / name).resolve() for name in names or _changed()}):
        print(test.relative_to(ROOT))


def reaching_tests(changed: set[Path]) -> list[Path]:
    """Return the test files that reach one of the files."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [test for test in tests if any(_reaches(test, changed))]


def _changed() -> list[str]:
    """Return the files that differ from the last commit, including new files."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--modified", "--others", "--exclude-standard"]
    staged = ["git", "-C", str(ROOT), "diff", "--name-only", "--cached"]
    texts = [subprocess.check_output(one, text=True) for one in (listed, staged)]  # noqa: S603
    return sorted({name for text in texts for name in text.splitlines()})


def _reaches(test: Path, changed: set[Path]) -> Iterator[bool]:
    """Yield whether a test file reaches each of the files."""
    reached, _ = identity._walk([(test, SUPPORT)], set())  # noqa: SLF001 - tests are no functions
    text = test.read_text("utf-8")
    for file in changed:
        named = file.suffix != ".py" and file.stem in text
        listed = file.suffix == ".yaml" and test.parent.name == "catalog"
        yield file in reached or _mirrors(test, file) or named or listed


def _mirrors(test: Path, file: Path) -> bool:
    """Return whether a test file is at the mirrored path of a file."""
    tops = [top for top in (ROOT / "vlbench", ROOT) if file.is_relative_to(top)]
    if not tops or file.suffix != ".py":
        return False
    place = ROOT / "tests" / file.relative_to(tops[0]).with_name(f"test_{file.name}")
    return test == place or (not place.exists() and test.parent == place.parent != ROOT / "tests")


if __name__ == "__main__":
    main(sys.argv[1:])
