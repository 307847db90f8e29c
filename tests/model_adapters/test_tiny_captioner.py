"""The small captioner of `scenes`: what its card says is true."""

import importlib
import json
from pathlib import Path

import pytest

from vlbench.data.scenes import VERSION
from vlbench.data.scenes.world import HELD_OUT, HIERARCHY, NOUNS
from vlbench.probes.captioning.captioner_files import read_captioner

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "model_adapters" / "tiny" / "captioner"
ROWS = 120


@pytest.fixture
def card():
    return json.loads((FOLDER / "card.json").read_text("utf-8"))


def test_it_is_small_and_knows_the_words_of_its_world():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_000_000
    _, vocabulary, about = read_captioner(FOLDER)
    held_out = {
        noun for one in HIERARCHY.values() for name in HELD_OUT for noun in one.get(name, ())
    }
    assert {*NOUNS, "."} - set(vocabulary.words) <= held_out
    assert about["regions"] == "sum"
    assert about["region_encoder"] == "tiny-eyes"
    assert about["widths"] == [128]


def test_its_card_says_what_was_done(card, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    model = importlib.import_module("train_tiny").MODELS["tiny-captioner"]
    assert (card["learns"], card["cannot"]) == (model.learns, list(model.cannot))
    known = {"name": "scenes", "version": VERSION, "seed": 0, "split": "train"}
    assert known.items() <= card["data"].items()
    assert not {"fish", "boat", "flower", "cup"} & {*card["data"]["categories"]}
    assert card["data"]["texts"] == 5 * card["data"]["images"]
    assert card["training"]["last_loss"] < card["training"]["first_loss"]


def test_its_captions_fit_their_images(card):
    for measure in ("cider", "noun_precision"):
        test = card["held_out"][measure]["test"]
        assert test["value"] - 4 * test["stderr"] > 1.5 * test["chance"]
    assert card["held_out"]["noun_precision"]["test"]["value"] > 0.3


@pytest.mark.usefixtures("scenes_drawn")
def test_a_slice_of_the_test_split_scores_what_the_card_says(card, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    world = importlib.import_module("tiny.world").read("test", ROWS)
    measured = importlib.import_module("tiny.captioner").measure_captioner(FOLDER, world)
    for name, found in measured.items():
        said = card["held_out"][name]["test"]
        error = 4 * said["stderr"] * (said["n"] / found.n) ** 0.5
        assert found.value == pytest.approx(said["value"], abs=error)
