import sys
from types import SimpleNamespace

import pytest
import torch

from vlbench.data.coco_files import Arc
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import DataAbsent, DataError
from vlbench.probes.grounding import syntactic_grounding

ROWS = Split(
    {"captions": value_column([["dogs bark"]]), "words": value_column([[["dogs", "bark"]]])}
)


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
    install(monkeypatch, "nsubj", "3.8")
    assert syntactic_grounding.parse_captions(ROWS, "any", engine) == [[[Arc("nsubj", 1, 0)]]]
    install(monkeypatch, "dobj", "3.8")
    assert syntactic_grounding.parse_captions(ROWS, "any", engine) == [[[Arc("nsubj", 1, 0)]]]
    install(monkeypatch, "dobj", "3.9")
    assert syntactic_grounding.parse_captions(ROWS, "any", engine) == [[[Arc("dobj", 1, 0)]]]


def test_texts_without_a_parser_are_refused(engine):
    with pytest.raises(DataError, match="give `parser`, the name of a spaCy pipeline"):
        syntactic_grounding.parse_captions(ROWS, None, engine)


def test_a_pipeline_that_is_not_installed_is_absent(monkeypatch, engine):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataAbsent, match="the spaCy pipeline 'any' not found"):
        syntactic_grounding.parse_captions(ROWS, "any", engine)
