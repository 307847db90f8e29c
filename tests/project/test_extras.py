"""A small install: vlbench without the packages that are optional."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# A module that is None cannot be imported.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({modules}))
from vlbench.cli import main
sys.argv = ["vlbench", *{words}]
main()
"""


def optional_modules():
    packages = [re.split(r"[\[>]", one)[0] for several in EXTRAS.values() for one in several]
    return sorted(set(packages) - {"vlbench"})


def without(*words):
    code = WITHOUT.format(modules=optional_modules(), words=words)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_a_run_needs_none_of_them(tmp_path):
    words = ["--tasks", "few_shot_digits,robustness_digits", "--limit", "400", "--no-cache"]
    done = without("--model", "raw-pixels", *words, "--output", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "few_shot_digits: ok" in done.stdout


def test_what_a_message_tells_to_install_is_there():
    named = {
        extra
        for file in (ROOT / "vlbench").rglob("*.py")
        for extra in re.findall(r"vlbench\[(\w+)\]", file.read_text("utf-8"))
    }
    assert named == EXTRAS.keys() - {"all"}


def test_all_is_all_of_them():
    (everything,) = EXTRAS["all"]
    assert everything == f"vlbench[{','.join(sorted(EXTRAS.keys() - {'all'}))}]"
