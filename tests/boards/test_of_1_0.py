"""A board that vlbench 1.0.0 wrote, four of its rows, in the commands of today."""

import json
import shutil
from pathlib import Path

import pytest

import vlbench
from vlbench.cli import main

TASK = "zero_shot_scenes"
FILE = Path(__file__).parent / f"{TASK}_1.0.json"


@pytest.fixture
def folder(tmp_path):
    shutil.copy(FILE, tmp_path / f"{TASK}.json")
    return tmp_path


def test_its_rows_have_the_scores_that_the_file_has(folder):
    rows = {row["model"]: row for row in json.loads(FILE.read_text("utf-8"))["rows"]}
    read = {row.model: row for row in vlbench.load(folder).rows}
    assert {name: row.status for name, row in read.items()} == {
        "tiny-clip": "ok", "tiny-uniter": "ok", "raw-pixels": "skipped", "constant": "ok",
    }  # fmt: skip
    for name, row in read.items():
        assert [s.value for s in row.scores] == [s["value"] for s in rows[name].get("scores", [])]


def test_it_is_shown_exported_and_drawn(folder, capsys):
    for words in ("show", f"show {TASK}", "export --format csv", "build", "page"):
        assert main(["leaderboard", *words.split(), "--output", str(folder)]) == 0
    assert "tiny-clip" in capsys.readouterr().out
    assert "tiny-clip" in (folder / "page/index.html").read_text("utf-8")
