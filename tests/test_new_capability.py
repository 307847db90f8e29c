"""A capability that a user's own source defines, which no file of vlbench knows of."""

import json

import pytest
from sources import TASK, make_source, write

from vlbench.cli import main

PROBE = '''\
"""Captions that start with the right word."""

from typing import Protocol

from vlbench.results import Outcome, Score


class Captioner(Protocol):
    """Says what a picture shows."""

    def caption(self, images) -> list[str]:
        """Return a caption for each image."""
        ...


def captions(model: Captioner, data, engine) -> Outcome:
    """Return the fraction of captions that name the class."""
    test = data.splits["test"]
    said = engine.map(model.caption, test["image"])
    right = [data.classes[i] in text for i, text in zip(test["label"], said, strict=True)]
    return Outcome(scores=[Score("named", sum(right) / len(right), len(right))])
'''
ADAPTERS = """\
import colours


class Talks:
    def __init__(self, *, device): ...

    def caption(self, images):
        return ["something red" for _ in images]


class Mute(colours.MeanColour): ...
"""
MODELS = """\
talks: {adapter: "talking:Talks"}
mute: {adapter: "talking:Mute"}
silenced: {adapter: "talking:Talks", without: [Captioner]}
"""
CAPTIONS = TASK.replace("few_shot", "captions").replace("{shots: [1], trials: 2}", "{}")
CAPTIONS = CAPTIONS.replace("{metric: accuracy, at: {shots: 1}}", "{metric: named}")


@pytest.fixture
def source(tmp_path):
    folder = make_source(tmp_path / "ours", captions_colours=CAPTIONS)
    write(folder / "probes" / "captions.py", PROBE)
    write(folder / "model_adapters" / "talking.py", ADAPTERS)
    write(folder / "model_adapters" / "models.yaml", MODELS)
    return folder


def rows(source, tmp_path):
    command = ["--model", "talks,mute,silenced", "--tasks", "captions_colours"]
    command += ["--include-path", str(source), "--output", str(tmp_path / "boards"), "--no-cache"]
    assert main(command) == 0
    board = json.loads((tmp_path / "boards" / "captions_colours.json").read_text())
    return {row["model"]: row for row in board["rows"]}


def test_it_runs_and_is_skipped_by_its_name_where_a_model_lacks_it(source, tmp_path):
    found = rows(source, tmp_path)
    assert found["talks"]["scores"][0]["value"] == pytest.approx(1 / 3)
    reasons = {name: found[name]["reason"] for name in ("mute", "silenced")}
    assert set(reasons.values()) == {"the model has no Captioner"}


def test_check_says_that_it_has_no_promises_yet(source, capsys):
    assert main(["check", "talks", "--include-path", str(source)]) == 0
    assert capsys.readouterr().out == "ok     Captioner: has no promises yet\n"


def test_a_file_of_models_may_be_without_it_and_not_without_what_is_nothing(source, capsys):
    models = source / "model_adapters" / "models.yaml"
    assert main(["validate", str(models)]) == 0
    write(models, MODELS.replace("[Captioner]", "[Captionner]"))
    assert main(["validate", str(models)]) == 2
    assert "no capability is named 'Captionner'; did you mean Captioner" in capsys.readouterr().err
