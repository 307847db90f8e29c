"""A smallest working call of each command, in a folder that is planted for all of them.

Whoever adds a command adds a line to `LINES`.
"""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import torch
from judged import fill_all, questions, row_with, sheets
from PIL import Image
from planted_boards import board, measured, result, score, write
from sources import TASK, make_source
from sources import write as write_text

from vlbench.cli import main
from vlbench.data.image_folder import image_folder
from vlbench.engine.store import Store
from vlbench.metrics.items import Examples

# What a stranger may write into a board or a file: it would set a terminal's title and colour.
HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b31m\u202e<b>[red]=1+1\t"

LOOKS = """

class Looks:
    def __init__(self, *, device):
        pass

    def attend(self, pictures, texts):
        from vlbench.capabilities import JointAttention

        boxes = torch.tensor([[0, 0, *pictures[0].image.size]])
        return [JointAttention([(0, 3)], torch.ones(1, 1, 1, 1), boxes, whole=True)]
"""
MODELS = """\
blind: {adapter: "colours:MeanColour", params: {weights: "0"}}
looks: {adapter: "colours:Looks", paper: %s}
"""
RSA = """\
version: 1
probe: rsa
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
params: {rdm: scalar, trials: 2, seed: 0}
primary: {metric: reliability}
"""
FINDINGS = """\
paper: "arXiv:0000.00001"
title: %s
question: Are means of colours told apart?
experiments:
  - {task: few_shot_colours, models: [mean-colour]}
findings:
  - finding: %s
    task: few_shot_colours
    metric: accuracy
    at: {shots: 1}
    greater: [{model: mean-colour}, {model: blind}]
"""
REFERENCE = "reference:\n- {model: blind, metric: accuracy, at: {shots: 1}, value: 0.5, where: %s}"


def plant(folder: Path, texts: str = "") -> Path:
    """Write a source, its boards, filled sheets and a cache; `texts` ends each text of them."""
    quoted = json.dumps(f"a paper{texts}")
    task = TASK.replace('"a paper"', quoted) + REFERENCE % quoted
    source = make_source(folder / "ours", few_shot_colours=task, rsa_colours=RSA)
    with (source / "model_adapters/models.yaml").open("a") as file:
        file.write(MODELS % quoted)
    with (source / "model_adapters/colours.py").open("a") as file:
        file.write(LOOKS)
    findings = FINDINGS % (quoted, json.dumps(f"It is so{texts}."))
    write_text(source / "tasks/findings/mine.yaml", findings)
    (source / "images/test/red/0.png").rename(source / f"images/test/red/0{texts}.png")
    Image.new("RGB", (8, 8)).save(folder / "white.png")
    words = ["--model=mean-colour,blind", "--tasks=few_shot_colours", f"--output={folder}/boards"]
    with redirect_stdout(StringIO()):
        assert main([*words, f"--include-path={source}", "--no-cache"]) == 0
    plant_rows(folder, texts)
    store = Store(folder / "cache/features")
    store.describe("sha256:first", {"models": [f"blind{texts}"], "what": "x", "data": f"y{texts}"})
    store.save("sha256:first", "000000", {"values": torch.zeros(1)})
    return folder


def plant_rows(folder: Path, texts: str) -> None:
    """Rename the row of `blind`, and write rows of other boards, to rate and to merge."""
    file = folder / "boards/few_shot_colours.json"
    content = json.loads(file.read_text())
    for row in content["rows"]:
        row["notes"] = [f"a note{texts}"]
        row["model"] += texts if row["model"] == "blind" else ""
    file.write_text(json.dumps(content))
    examples = Examples([f"{i}{texts}" for i in range(30)], [f"{i:016}" for i in range(30)])
    about = {"task": "others", "examples": examples}
    rows = [
        measured(folder / "boards", model, [1] * right + [0] * (30 - right), **about)
        for model, right in ((f"blind{texts}", 5), ("mean-colour", 25))
    ]
    failed = result("fails", status="failed", reason=f"it broke{texts}")
    write(folder / "boards", board(*rows, failed, task="others", paper=f"a paper{texts}"))
    write(folder / "more", board(result(f"new{texts}", score(0.6)), task="more"))
    test = image_folder(root=folder / "ours/images").splits["test"]["image"]
    asked = questions(digests=test.examples().digests, caption=f"a caption{texts}")
    asks = replace(row_with(folder / "rated", asked, "few_shot_colours"), model=f"asks{texts}")
    write(folder / "rated", board(asks, task="few_shot_colours"))
    fill_all(sheets(folder))


class Line(NamedTuple):
    """A call that works, the names and places among its words, and names that get no hint."""

    words: str
    names: str = ""
    places: str = ""
    unhinted: str = ""

    @property
    def command(self) -> str:
        """The words before those of the call: `ls`, or `leaderboard show`."""
        return " ".join(self.words.split()[: 1 + self.words.startswith("leaderboard ")])


OURS, BOARDS = " --include-path ours", " --output boards"
READ = BOARDS + OURS
RUN = " --include-path ours --no-cache --device cpu"
LINES = [
    Line("attention looks white.png one -o a.png --word one" + OURS, "looks", "white.png"),
    Line("cache show --cache-dir cache"),
    Line("cache prune --model blind --dry-run --cache-dir cache", unhinted="blind"),
    Line("check raw-pixels" + OURS, "raw-pixels"),
    Line("data few_shot_colours" + OURS, "few_shot_colours"),
    Line(
        "features mean-colour few_shot_colours -o f.npz --split test --column image" + RUN,
        "mean-colour few_shot_colours",
    ),
    Line("init new"),
    Line(
        "items few_shot_colours blind --metric accuracy --at shots=1" + READ,
        "few_shot_colours blind accuracy",
        "boards",
    ),
    Line("items others mean-colour --against blind" + READ, "blind", "boards"),
    Line("items few_shot_colours blind --show" + READ, "few_shot_colours blind", "boards"),
    Line("ls tasks few_shot_colours" + OURS, "few_shot_colours"),
    Line("ls models" + OURS),
    Line("ls probes few_shot" + OURS),
    Line("ls data" + OURS),
    Line("papers mine --dry-run" + READ, "mine"),
    Line("papers mine --no-cache" + READ),
    Line("rdm mean-colour rsa_colours -o r.csv" + RUN, "mean-colour rsa_colours"),
    Line(
        "rerun few_shot_colours mean-colour --no-cache" + READ,
        "few_shot_colours mean-colour",
        "boards",
    ),
    Line(
        "run --model mean-colour --tasks few_shot_colours --no-cache" + READ,
        "mean-colour few_shot_colours",
    ),
    Line("show few_shot_colours" + READ),
    Line("show looks" + READ, "looks"),
    Line("show few_shot" + READ),
    Line(
        "similarity mean-colour raw-pixels few_shot_digits -k 3" + RUN,
        "mean-colour raw-pixels few_shot_digits",
    ),
    Line("validate ours/tasks" + OURS, "", "ours/tasks"),
    Line("leaderboard build" + READ, "", "boards"),
    Line(
        "leaderboard compare mean-colour blind --tasks few_shot_colours" + BOARDS,
        "mean-colour blind",
        "boards",
        "few_shot_colours",
    ),
    Line("leaderboard export others --format md --models blind" + READ, "others blind", "boards"),
    Line("leaderboard merge more --into out", "", "more"),
    Line("leaderboard page out" + READ, "", "boards"),
    Line("leaderboard rate judged"),
    Line(
        "leaderboard rate asked --of few_shot_colours asks --images 4 --output rated" + OURS,
        "few_shot_colours asks",
        "rated",
    ),
    Line("leaderboard reproduce mine" + READ, "mine", ""),
    Line(
        "leaderboard scatter few_shot_colours others -o s.png" + READ,
        "few_shot_colours others",
        "boards",
    ),
    Line("leaderboard show" + READ, "", "boards"),
    Line("leaderboard show few_shot_colours" + READ, "few_shot_colours", "boards"),
]
