import ast
import io
import runpy
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "size"

# Eleven lines of code and five of imports.
BY_HAND = '''\
"""A module.

Its docstring has three lines."""

from a import (
    b,
    c,
)

# a comment
TEXT = """no docstring

# no comment
"""


def f(x):  # a remark
    """Return it."""
    import g
    y = [

        # a comment
        x,
    ]
    return y


class C:
    "A docstring."

    z = 1
'''

NO_CODE = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER", "ENCODING"}


@pytest.fixture(scope="module")
def python_size():
    return runpy.run_path(str(SCRIPT))["python_size"]


def test_a_file_counted_by_hand_is_counted_the_same(python_size):
    assert python_size(BY_HAND) == (11, 5)


def by_tokens(text):
    """Return the lines that a token touches, less the lines of docstrings and imports."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    touched = [(t.start[0], t.end[0]) for t in tokens if tokenize.tok_name[t.type] not in NO_CODE]
    lists = [b.body for b in ast.walk(ast.parse(text)) if isinstance(getattr(b, "body", 0), list)]
    others = [(n.lineno, n.end_lineno) for nodes in lists for n in nodes if is_no_code(n)]
    return len(numbers(touched) - numbers(others))


def is_no_code(node):
    if isinstance(node, ast.Expr):
        return isinstance(getattr(node.value, "value", None), str)
    return isinstance(node, ast.Import | ast.ImportFrom)


def numbers(spans):
    return {number for first, last in spans for number in range(first, last + 1)}


@pytest.mark.parametrize("name", ["cli.py", "schema.py", "commands/printing.py", "results.py"])
def test_tokens_give_the_same_count(python_size, name):
    text = (ROOT / "vlbench" / name).read_text("utf-8")
    assert python_size(text).code == by_tokens(text)


def test_nothing_is_larger_than_size_toml_allows():
    allowed = tomllib.loads((ROOT / "size.toml").read_text("utf-8"))
    found = runpy.run_path(str(SCRIPT))["figures"](ROOT)
    larger = {name: size for name, size in found.items() if size > allowed[name]}
    assert larger == {}, "make it smaller, or raise it in size.toml and write there what for"


def test_the_table_counts_code_by_folder_and_words_of_prose(tmp_path):
    texts = {
        "vlbench/a.py": BY_HAND,
        "vlbench/deep/b.py": "import a\n",
        "scripts/run": "#!/usr/bin/env python3\nx = 1\n",
        "scripts/check": "#!/usr/bin/env bash\nls\n",
        "tasks/t.yaml": "# why\nversion: 1\n\nprobe: p  # one\n",
        "docs/deep/a.md": "three short words\n",
        "docs/generated/a.md": "not counted\n",
        "README.md": "# One\n",
        "CHANGELOG.md": "two words",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["vlbench", "2", "11", "6", "0"],
        ["model_adapters", "0", "0", "0", "0"],
        ["examples", "0", "0", "0", "0"],
        ["benchmarks", "0", "0", "0", "0"],
        ["scripts", "1", "1", "0", "0"],
        ["tests", "0", "0", "0", "0"],
        ["tasks", "1", "2", "0", "0"],
        ["docs", "2", "0", "0", "5"],
        ["CHANGELOG", "1", "0", "0", "2"],
    ]


def test_since_prints_the_change_against_a_revision(tmp_path):
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "vlbench").mkdir()
    (tmp_path / "vlbench" / "a.py").write_text(BY_HAND)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"], ["tag", "v1"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "vlbench" / "a.py").write_text("x = 1\n")
    (tmp_path / "vlbench" / "b.py").write_text("x = 1\n")
    command = [sys.executable, SCRIPT, tmp_path, "--since", "v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()[:3]] == [
        ["since", "v1", "files", "code", "lines", "import", "lines", "words"],
        ["vlbench", "+1", "-9", "-5", "+0"],
        ["model_adapters", "+0", "+0", "+0", "+0"],
    ]


def test_a_folder_that_is_no_checkout_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"{tmp_path} is no checkout: it has no folder vlbench\n",
    )
