"""What probes keep in the store is found again by the same rules alone."""

import pytest
import torch
from grounding_fakes import Planted, data_of, two_things
from named_world import StaticWords

from vlbench.engine import Engine
from vlbench.engine.passes import Place
from vlbench.engine.store import Store
from vlbench.probes.grounding import attention as grounding
from vlbench.probes.grounding.entity_grounding import entity_grounding
from vlbench.probes.vsep import object_label_alignment as alignment


@pytest.fixture
def engine_for(tmp_path):
    """Return what makes an engine that keeps what a model does."""
    store = Store(tmp_path)

    def make(model):
        return Engine(Place(torch.device("cpu")), store=store, identities={id(model): "a fake"})

    return make


def test_another_rule_for_a_words_token_looks_again(monkeypatch, engine_for):
    def first_token(spans, start, stop):
        return next(t for t, span in enumerate(spans) if span[0] < stop and start < span[1])

    def best():
        outcome = entity_grounding(model, data, engine_for(model), examples=0)
        (score,) = [s for s in outcome.scores if s.metric == "best_head_accuracy"]
        return score.value

    model, data = Planted(), data_of([two_things(i, i % 4, (i + 1) % 4) for i in range(8)])
    assert best() == 1.0
    monkeypatch.setattr(grounding, "last_token", first_token)
    assert best() == 0.25


def test_another_mean_over_tokens_reads_prompts_again(monkeypatch, engine_for):
    words = StaticWords({"dog": torch.ones(2)})
    before = alignment.template_vectors(words, ["dog"], engine_for(words))
    monkeypatch.setattr(alignment, "mean_over", lambda *_: torch.zeros(2))
    after = alignment.template_vectors(words, ["dog"], engine_for(words))
    assert [before["dog"].tolist(), after["dog"].tolist()] == [[1, 1], [0, 0]]
