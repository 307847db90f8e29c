"""A model, a data set and a probe of one's own, from YAML to a board, its table and its page.

vlbench knows nothing of them: even what the probe needs of a model, a capability, is the source's.
"""

import json
from pathlib import Path

import pytest
from sources import write

from vlbench.cli import main

MODEL = '''\
class Talks:
    """Says the same of every picture."""

    def __init__(self, *, device): ...

    def caption(self, images) -> list[str]:
        return ["something red" for _ in images]


class Mute:
    def __init__(self, *, device): ...

    def encode_texts(self, texts): ...
'''
PROBE = '''\
from typing import Protocol

import numpy as np
from vlbench.data.images import array_images, labelled
from vlbench.data.records import Data
from vlbench.results import Outcome, Score

COLOURS = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}


class Captioner(Protocol):
    """Says what a picture shows."""

    def caption(self, images) -> list[str]:
        """Return a caption for each image."""
        ...


def colours(*, side: int = 8) -> Data:
    """Return an image of each colour."""
    pixels = [np.full((side, side, 3), colour, np.uint8) for colour in COLOURS.values()]
    test = labelled(array_images(np.stack(pixels)), range(3), classes=3, where="colours")
    return Data(splits={"test": test}, classes=list(COLOURS))


def captions(model: Captioner, data, engine) -> Outcome:
    """Return the fraction of captions that name the class."""
    test = data.splits["test"]
    said = engine.map(model.caption, test["image"])
    right = [data.classes[i] in text for i, text in zip(test["label"], said, strict=True)]
    named = sum(right) / len(right)
    return Outcome(scores=[Score("named", named, len(right), unit="fraction")])
'''
TASK = """\
version: 1
probe: "captioning:captions"
data: {loader: "captioning:colours", side: 4}
primary: {metric: named}
"""
MODELS = """\
talks: {adapter: "talking:Talks"}
mute: {adapter: "talking:Mute"}
silenced: {adapter: "talking:Talks", without: [Captioner]}
"""


@pytest.fixture
def ours(tmp_path):
    """The option that names a folder of one's own, whose layout is the format of plug-ins."""
    folder = tmp_path / "ours"
    write(folder / "model_adapters/talking.py", MODEL)
    write(folder / "model_adapters/models.yaml", MODELS)
    write(folder / "tasks/captioning.py", PROBE)
    write(folder / "tasks/captions_colours.yaml", TASK)
    return ["--include-path", str(folder)]


def test_from_yaml_to_board_table_and_page(ours, tmp_path, capsys):
    assert main(["validate", ours[1]]) == 0
    boards = ["--output", str(tmp_path / "boards")]
    run = ["--model", "talks,mute,silenced", "--tasks", "captions_colours", "--no-cache"]
    assert main([*run, *ours, *boards, "-v"]) == 0
    board = json.loads((tmp_path / "boards/captions_colours.json").read_text())
    (row,) = board["rows"]
    assert (row["model"], row["scores"][0]["value"]) == ("talks", pytest.approx(1 / 3))
    printed = capsys.readouterr().out
    assert "skipped: the model has no Captioner\n  mute, silenced: captions_colours\n" in printed

    assert main(["leaderboard", "show", *ours, *boards]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "talks" in line]
    assert "33.3 %" in row

    assert main(["leaderboard", "page", str(tmp_path / "site"), *ours, *boards]) == 0
    page = (tmp_path / "site/index.html").read_text().splitlines()
    (row,) = [line for line in page if 'id="row-captions_colours.talks"' in line]
    assert ">33.3<" in row


def test_check_says_that_a_capability_of_ones_own_has_no_promises_yet(ours, capsys):
    assert main(["check", "talks", *ours]) == 0
    assert capsys.readouterr().out == "ok     Captioner: has no promises yet\n"


def test_a_capability_of_ones_own_that_is_misspelt_gets_the_nearest_name(ours, capsys):
    models = Path(ours[1]) / "model_adapters/models.yaml"
    write(models, MODELS.replace("[Captioner]", "[Captionner]"))
    assert main(["validate", str(models)]) == 2
    assert "no capability is named 'Captionner'; did you mean Captioner" in capsys.readouterr().err
