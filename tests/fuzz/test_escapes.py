"""Control characters in any text of a file never reach a terminal: they are printed spelled out."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout, suppress

import pytest
import yaml
from planted_boards import board, measured, write
from sources import make_source
from trials import failures, rng_of

from vlbench.cli import main

pytestmark = pytest.mark.timeout(0)

# A title for the window, red, and the rest from right to left.
PAYLOADS = ("\x1b]0;x\x07", "\x9b31m", "\u202e", "\x00\r\x7f")

TASK, MODELS = "ours/tasks/few_shot_colours.yaml", "ours/model_adapters/models.yaml"
RUN = {"model": "mean-colour", "tasks": ["few_shot_colours"], "dry_run": True, "no_cache": True}

# The file that is changed, and the commands that read it.
READ = {
    "task": (TASK, [["validate", TASK], ["show", "few_shot_colours"], ["ls", "tasks", "colours"]]),
    "models": (MODELS, [["validate", MODELS], ["show", "mean-colour"], ["ls", "models", "colour"]]),
    "board": (
        "boards/few_shot_colours.json",
        [
            ["items", "few_shot_colours", "m", "--output", "boards"],
            ["leaderboard", "compare", "few_shot_colours", "--output", "boards"],
            ["leaderboard", "export", "--output", "boards"],
        ],
    ),
    "run": ("run.yaml", [["--config", "run.yaml"]]),
    "config": ("net/config.json", [["check", "hf:./net", "--offline"]]),
}


def changed(tree, rng):
    """Return a tree of JSON with one key or text of which a part is what no terminal should get."""

    def spoilt(text):
        start = rng.randrange(len(text) + 1)
        return text[:start] + rng.choice(PAYLOADS) + text[start:] * rng.randrange(2)

    if isinstance(tree, str):
        return spoilt(tree)
    if not isinstance(tree, dict | list) or not tree:
        return rng.choice(PAYLOADS)
    place = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    if isinstance(tree, dict) and rng.random() < 0.3:
        return {spoilt(key) if key == place else key: value for key, value in tree.items()}
    new = changed(tree[place], rng)
    if isinstance(tree, dict):
        return tree | {place: new}
    return [*tree[:place], new, *tree[place + 1 :]]


def said(words):
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told), suppress(SystemExit):
        main(words)
    return told.getvalue()


@pytest.mark.parametrize("name", READ)
def test_no_control_character_is_printed(name, tmp_path, monkeypatch, mutants):
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path / "ours")
    # The shipped files, which no mutant changes, would take nine tenths of the time.
    monkeypatch.setattr("vlbench.catalog.sources.shipped_source", lambda: tmp_path / "ours")
    row = measured(tmp_path / "boards", "m", [1, 0], task="few_shot_colours")
    write(tmp_path / "boards", board(row, task="few_shot_colours"))
    (tmp_path / "run.yaml").write_text(json.dumps(RUN))
    (tmp_path / "net").mkdir()
    (tmp_path / "net/config.json").write_text(json.dumps({"model_type": "no-such-model"}))
    file, commands = READ[name]
    right = (tmp_path / file).read_text()
    tree = yaml.safe_load(right)

    def trial(number):
        rng = rng_of(name, number)
        (tmp_path / file).write_text(json.dumps(changed(tree, rng)))
        raw = {c for c in said(rng.choice(commands)) if not c.isprintable() and c != "\n"}
        return f"prints {raw}" if raw else ""

    assert [said(words) for words in commands]
    assert failures(mutants, trial, tmp_path / "report") == []
