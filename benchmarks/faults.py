"""Protection: planted faults that the tests find. Each is tried with the test files that reach it.

Draws faults from the syntax trees of vlbench, one each in as many files: a sign, a comparison, an
index, a default, a dropped raise. Each is planted in a copy of the last commit and tried with the
test files that reach its file, the mirrored one first, to the first failure, for at most 60 s. With
`--old COMMIT`, survivors are tried with the tests of that commit, for at most 120 s.

    python benchmarks/faults.py [--seed 0] [--count 40] [--old COMMIT]
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS, OLD_SECONDS = 60, 120

COMPARED: dict[type, str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


class Fault(NamedTuple):
    """A place in a file, as lines and columns, and the text that takes its place."""

    kind: str
    line: int
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def faults_in(source: str) -> Iterator[Fault]:
    """Yield every fault that can be planted in a file."""
    for node in _executed(ast.parse(source)):
        if isinstance(node, ast.BinOp):
            yield from _signs(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield _replaced("comparison", node, f"({left}) {COMPARED[type(node.ops[0])]} ({right})")
        elif isinstance(node, ast.Subscript) and _is_number(node.slice):
            yield _replaced("index", node.slice, str(node.slice.value + 1))
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield _replaced("raise", node, "pass")
        elif isinstance(node, ast.FunctionDef):
            yield from _defaults(node)


def _signs(node: ast.BinOp) -> Iterator[Fault]:
    texts = any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right))
    if isinstance(node.op, ast.Add | ast.Sub) and not texts:
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        text = f"({ast.unparse(node.left)}) {sign} ({ast.unparse(node.right)})"
        yield _replaced("sign", node, text)


def _defaults(node: ast.FunctionDef) -> Iterator[Fault]:
    for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield _replaced("default", default, str(not default.value))
        elif _is_number(default):
            yield _replaced("default", default, str(default.value + 1))


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one that run: neither annotations nor what is for type checkers."""
    skipped = {"annotation", "returns"}
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            checked = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if isinstance(child, ast.AST) and name not in skipped and not checked:
                yield child
                yield from _executed(child)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def _replaced(kind: str, node: Any, text: str) -> Fault:
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return Fault(kind, node.lineno, start, end, text)


def planted(source: str, fault: Fault) -> str:
    """Return a file's text with a fault; columns count bytes, as `ast` counts them."""
    lines = source.encode().split(b"\n")
    (first, start), (last, end) = fault.start, fault.end
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    changed = [*lines[: first - 1], head + fault.text.encode() + tail, *lines[last:]]
    return b"\n".join(changed).decode()


def draw(seed: int, count: int) -> list[tuple[Path, Fault]]:
    """Return `count` files, each with one fault: of each kind as many, where there are any."""
    rng = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    files = sorted((ROOT / "vlbench").rglob("*.py"))
    rng.shuffle(files)
    kinds = ["sign", "comparison", "index", "default", "raise"]
    drawn: list[tuple[Path, Fault]] = []
    for file in files:
        wanted = kinds[len(drawn) % len(kinds)]
        there = [one for one in faults_in(file.read_text("utf-8")) if one.kind == wanted]
        if there and len(drawn) < count:
            drawn.append((file.relative_to(ROOT), rng.choice(there)))
    return drawn


def copy_of(commit: str, folder: Path) -> Path:
    """Return a clone of a commit in a folder."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", commit], check=True)
    return folder


def first_failure(copy: Path, tests: list[Path], seconds: float) -> str:
    """Return the first test of a copy that fails, or nothing where none does in the time.

    One file after the other: the suite starts what takes minutes first.
    """
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "--no-header"]
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    end = time.monotonic() + seconds
    for test in tests:
        if not (copy / test).exists():
            continue
        try:
            done = subprocess.run(
                [*words, str(test)],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=max(1, end - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
        if done.returncode not in {0, 5}:  # 5: all tests of this file run each night
            lines = [line for line in done.stdout.splitlines() if line[:5] in {"FAILE", "ERROR"}]
            return (lines or [f"exit code {done.returncode} of {test}"])[0]
    return ""


def reaching(file: Path) -> list[Path]:
    """Return the test files that reach a file: the mirrored ones first, then the least ones."""
    place = ROOT / "scripts" / "reaching_tests.py"
    spec = importlib.util.spec_from_file_location("reaching_tests", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = module.reaching_tests({ROOT / file})
    mirrored = {test: test.name == f"test_{file.name}" for test in tests}
    order = sorted(tests, key=lambda test: (not mirrored[test], test.stat().st_size))
    return [test.relative_to(ROOT) for test in order]


def try_fault(copy: Path, file: Path, fault: Fault, seconds: float) -> str:
    """Return the test that finds a fault in a copy, which is left as it was."""
    source = (copy / file).read_text("utf-8")
    try:
        (copy / file).write_text(planted(source, fault), "utf-8")
        return first_failure(copy, reaching(file), seconds)
    finally:
        (copy / file).write_text(source, "utf-8")


def main() -> None:
    """Try the faults, and print what finds each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--old", default="", help="a commit whose tests try the survivors")
    arguments = parser.parse_args()
    if not (ROOT / ".git").exists():
        sys.exit("needs a git clone, whose last commit it copies")
    drawn = draw(arguments.seed, arguments.count)
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of("HEAD", Path(folder, "new"))
        old = copy_of(arguments.old, Path(folder, "old")) if arguments.old else None
        survivors = 0
        for file, fault in drawn:
            start = time.monotonic()
            test = try_fault(copy, file, fault, SECONDS)
            took = f"{time.monotonic() - start:.0f} s"
            place = f"{file}:{fault.line} {fault.kind} -> {fault.text[:60]!r}"
            print(f"{place}: {f'found in {took} by {test}' if test else 'SURVIVED'}", flush=True)
            survivors += not test
            if old and not test:
                print(f"  old tests: {try_old(copy, old, file, fault)}", flush=True)
    times = os.times()
    print(f"{len(drawn) - survivors} of {len(drawn)} found; CPU s {sum(times[:4]):.0f}")


def try_old(copy: Path, old: Path, file: Path, fault: Fault) -> str:
    """Return which test of the old commit finds a fault; its file must be the same there."""
    if not (old / file).exists() or (old / file).read_text() != (copy / file).read_text():
        return "the file is another one there"
    return try_fault(old, file, fault, OLD_SECONDS) or "none"


if __name__ == "__main__":
    main()
