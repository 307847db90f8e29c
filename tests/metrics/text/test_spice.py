import json
from pathlib import Path

import numpy as np
import pytest

from vlbench.errors import DataAbsent, DataError
from vlbench.metrics.text import spice as module
from vlbench.metrics.text.spice import PARSER, find_spice, spice

PAIRS = [("a dog", ["a brown dog"]), ("a cat", ["a grey cat", "cats"])]


@pytest.fixture
def says(monkeypatch):
    """SPICE that writes these F, an image each, and keeps what it was asked."""
    asked = []

    def start(scores):
        def run(_, words, **__):
            given, said = Path(words[4]), Path(words[6])
            asked.extend(json.loads(given.read_text()))
            rows = [{"image_id": i, "scores": {"All": {"f": f}}} for i, f in scores.items()]
            said.write_text(json.dumps(rows))

        monkeypatch.setattr(module, "run_java", run)
        return asked

    return start


def test_without_its_parser_spice_is_absent(tmp_path):
    with pytest.raises(DataAbsent, match=r"stanford-corenlp-full-2015-12-09\.zip.*put it at"):
        find_spice(tmp_path)


def test_the_parser_lies_below_the_data(tmp_path, monkeypatch):
    folder = tmp_path / "spice" / "unpacked"
    folder.mkdir(parents=True)
    [(folder / name).touch() for name in PARSER]
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    assert find_spice(None) == [folder / name for name in PARSER]


def test_scores_come_in_the_order_of_the_captions(says):
    asked = says({1: 0.5, 0: 0.25})
    assert np.array_equal(spice(PAIRS, jars=[]), [[0.25], [0.5]])
    assert asked[1] == {"image_id": 1, "test": "a cat", "refs": ["a grey cat", "cats"]}


@pytest.mark.parametrize("scores", [{0: 0.5}, {0: 0.5, 1: float("nan")}])
def test_a_caption_left_out_is_an_error(says, scores):
    says(scores)
    with pytest.raises(DataError, match=r"SPICE scored 1 of 2 captions"):
        spice(PAIRS, jars=[])
