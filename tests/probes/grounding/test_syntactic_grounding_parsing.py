import sys
from types import SimpleNamespace

import pytest
import torch

from vlbench.data.coco_files import Arc
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import DataAbsent
from vlbench.probes.grounding.syntactic_grounding import parse_captions

OWN = {"captions": [["dogs bark"]], "words": [[["dogs", "bark"]]]}
ROWS = Split({name: value_column(values) for name, values in OWN.items()})


def word(i, start, text, relation, head):
    """Return a token of spaCy, with the attributes that are read."""

    class Word(SimpleNamespace):
        def __len__(self):
            return len(text)

    return Word(i=i, idx=start, tag_="NN", dep_=relation, head=SimpleNamespace(i=head))


def install(monkeypatch, relation, version):
    """Make a spaCy of this version that finds one arc of this relation."""
    parse = [word(0, 0, "dogs", relation, 1), word(1, 5, "bark", "ROOT", 1)]
    pipeline = SimpleNamespace(meta={"version": "1"}, pipe=lambda texts: [parse for _ in texts])
    spacy = SimpleNamespace(load=lambda _: pipeline, __version__=version)
    monkeypatch.setitem(sys.modules, "spacy", spacy)


@pytest.fixture
def engine(tmp_path):
    return Engine(ComputeSettings(torch.device("cpu")), store=Store(tmp_path))


def test_the_arcs_of_one_version_of_spacy_are_stored_for_it_alone(monkeypatch, engine):
    for found, version, kept in (
        ("nsubj", "3.8", "nsubj"),
        ("dobj", "3.8", "nsubj"),
        ("dobj", "3.9", "dobj"),
    ):
        install(monkeypatch, found, version)
        assert parse_captions(ROWS, "any", engine) == [[[Arc(kept, 1, 0)]]]


def test_a_pipeline_that_is_not_installed_is_absent(monkeypatch, engine):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataAbsent, match="the spaCy pipeline 'any' not found"):
        parse_captions(ROWS, "any", engine)
