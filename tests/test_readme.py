"""Every command of the README is one; each night all run, in the order in which they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from forks import command_server
from sources import make_images

from vlbench.commands.parser import parser_of, spelled

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"(?:^`([\w/.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    """Return (file, language, text) of each block; a file's name stands above its block."""
    return BLOCK.findall(README)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which a reader runs the page."""
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def results(folder, scenes_cache, tmp_path_factory):
    """Run the page from top to bottom, as a reader would, and return how each command ended."""
    make_images(folder / "my_images", count=5)
    shims = folder / "bin"
    shims.mkdir()
    for name, words in (("vlbench", " -m vlbench"), ("python", "")):
        (shims / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        (shims / name).chmod(0o755)
    path = f"{shims}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XDG_CACHE_HOME": str(scenes_cache)}
    with command_server(tmp_path_factory.mktemp("streams")) as vlbench:
        return _run_page(folder, environment, vlbench)


def _run_page(folder, environment, vlbench):
    ended = {}
    for file, language, text in blocks():
        if file:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        elif language == "python":
            ended[text] = _run([sys.executable, "-c", text], folder, environment)
        elif language == "bash":
            for line in [line for line in text.splitlines() if not line.startswith("make")]:
                plain = line.startswith("vlbench ") and not set(line) & set("|>&$")
                ended[line] = (
                    vlbench(line, folder, environment)
                    if plain
                    else _run(["sh", "-c", line], folder, environment)
                )
    return ended


def _run(command, folder, environment):
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_command_of_the_readme_is_one():
    texts = [text for _, language, text in blocks() if language == "bash"]
    lines = [shlex.split(line, comments=True) for text in texts for line in text.splitlines()]
    ours = [words[1:] for words in lines if words and words[0] == "vlbench"]
    assert len(ours) >= 12
    for words in ours:
        assert parser_of().parse_args(spelled(words)).answer


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_command_of_the_readme_ends_well_and_python_prints_a_score(results):
    failed = {line: done.stderr for line, done in results.items() if done.returncode}
    assert failed == {}
    assert len(results) >= 12
    (python,) = [done for line, done in results.items() if "import vlbench" in line]
    assert python.stdout.startswith("few_shot_scenes ok 0.")


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("results")
def test_the_readme_adds_no_row_to_the_boards_of_a_clone(folder):
    assert not (folder / "leaderboards").exists()
    assert ("few_shot_scenes", "MeanColour") in rows(folder / "results")


def rows(boards):
    """Return the (task, model) of every row of a folder of boards."""
    files = {file.stem: json.loads(file.read_text("utf-8")) for file in boards.glob("*.json")}
    return {(task, row["model"]) for task, board in files.items() for row in board["rows"]}


def test_the_readmes_model_is_a_class_of_under_40_lines():
    (model,) = [text for file, _, text in blocks() if file.endswith("colours.py")]
    assert len(model.splitlines()) < 40


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_make_demo_writes_boards_and_never_into_leaderboards(scenes_cache):
    if not (ROOT / ".venv" / "installed").exists():
        pytest.skip("make demo would install first: this is not the environment of make test")
    before = sorted((ROOT / "leaderboards").glob("*")) if (ROOT / "leaderboards").exists() else []
    # Two of the demo's seven models: what each scores is asked where its boards are tested.
    models = "DEMO=raw-pixels,tiny-uniter"
    command = ["make", "demo", models, f"DEMO_CACHE={scenes_cache / 'vlbench'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "few_shot_scenes" in done.stdout
    assert (ROOT / "build" / "demo" / "few_shot_scenes.json").exists()
    after = sorted((ROOT / "leaderboards").glob("*")) if (ROOT / "leaderboards").exists() else []
    assert before == after
