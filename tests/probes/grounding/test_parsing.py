import sys
from types import SimpleNamespace

import pytest
import torch

from vlbench.data.annotations import Arc
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.passes import Place
from vlbench.engine.store import Store
from vlbench.probes.grounding import parsing

ROWS = Split(
    {"captions": value_column([["dogs bark"]]), "words": value_column([[["dogs", "bark"]]])}
)


def word(i, start, text, relation, head):
    """Return what of a token of spaCy is read."""

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
    return Engine(Place(torch.device("cpu")), store=Store(tmp_path))


def test_what_one_version_of_spacy_parsed_is_kept_for_it_alone(monkeypatch, engine):
    install(monkeypatch, "nsubj", "3.8")
    assert parsing.parsed(ROWS, "any", engine) == [[[Arc("nsubj", 1, 0)]]]
    install(monkeypatch, "dobj", "3.8")
    assert parsing.parsed(ROWS, "any", engine) == [[[Arc("nsubj", 1, 0)]]]
    install(monkeypatch, "dobj", "3.9")
    assert parsing.parsed(ROWS, "any", engine) == [[[Arc("dobj", 1, 0)]]]


def test_another_mapping_to_stanfords_relations_parses_again(monkeypatch, engine):
    install(monkeypatch, "nsubj", "3.8")
    parsing.parsed(ROWS, "any", engine)
    install(monkeypatch, "dobj", "3.8")
    monkeypatch.setattr(parsing, "source_digest", lambda _: "another dependencies.py")
    assert parsing.parsed(ROWS, "any", engine) == [[[Arc("dobj", 1, 0)]]]
