"""LLaVA's published F1 on the shipped board of POPE."""

import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_the_shipped_board_has_the_published_values():
    task = yaml.safe_load((ROOT / "tasks/matching/pope.yaml").read_text("utf-8"))
    (row,) = json.loads((ROOT / "leaderboards/pope.json").read_text("utf-8"))["rows"]
    found = {(s["metric"], s["at"].get("category")): s["value"] for s in row["scores"]}
    assert len(task["reference"]) == 3
    for one in task["reference"]:
        assert round(found[one["metric"], one["at"]["category"]], 3) == pytest.approx(one["value"])
