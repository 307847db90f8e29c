import os
import subprocess
import sys

import pytest


@pytest.fixture
def complete(tmp_path):
    """Complete a line as bash does with Tab, and return what it offers."""

    def offered(line):
        out = tmp_path / "offered"
        asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_TYPE": "9"}
        asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(out)}
        asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        command = [sys.executable, "-m", "vlbench"]
        subprocess.run(command, cwd=tmp_path, env=os.environ | asked, check=True)
        return out.read_text().split()

    return offered


def test_commands_and_choices_are_completed(complete):
    assert complete("vlbench it") == ["items"]
    assert complete("vlbench leaderboard export --format t") == ["tex"]


def test_options_of_run_are_completed_without_the_word(complete):
    assert complete("vlbench --mod") == ["--model", "--model-args"]


def test_names_of_models_and_tasks_are_completed_also_after_a_comma(complete):
    assert complete("vlbench --model tiny-clip,tiny-be") == ["tiny-clip,tiny-bert"]
    assert complete("vlbench --tasks embed") == ["embedded"]
    assert complete("vlbench items few_shot_fa") == ["few_shot_fashion_mnist"]


def test_files_are_completed_elsewhere(complete, tmp_path):
    (tmp_path / "my_images").mkdir()
    assert complete("vlbench --images my_") == ["my_images/"]


def test_argcomplete_is_imported_only_to_complete():
    code = (
        "import sys, vlbench.cli as c; c.main(['ls', 'data']); print('argcomplete' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
