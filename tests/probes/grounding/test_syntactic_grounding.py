import sys
from types import SimpleNamespace

import pytest
import torch
from grounding_fakes import (
    ARCS,
    REGIONS,
    Constant,
    Plan,
    Planted,
    Scene,
    data_of,
    score,
    two_things,
)

from vlbench.data.coco_files import Arc, Phrase
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.grounding.reports import AMONG_THINGS
from vlbench.probes.grounding.syntactic_grounding import (
    pairs,
    syntactic_grounding,
    syntactic_grounding_things,
)

SCENES = [two_things(i, i % 4, (i + 1 + i // 4) % 4) for i in range(10)]
RELATIONS = {"det": 20, "nsubj": 10, "dobj": 10}


class Neighbours(Planted):
    """From `sees`, (0, 0) looks at the subject, and (1, 1) at the object."""

    def plant(self, weights, text, spans):
        words = text.split(" ")
        place = len(" ".join(words[:3])) - 1
        token = next(t for t, (start, _) in enumerate(spans) if start == place)
        for head, word in (((0, 0), words[1]), ((1, 1), words[4])):
            weights[head][token] = 0.02
            weights[(*head, token, int(word[5:]))] = 0.9


def probe(model, data, batch=4, of=syntactic_grounding, **params):
    engine = Engine(ComputeSettings(torch.device("cpu"), batch_size=batch))
    return of(model, data, engine, **{"examples": 0} | params)


def test_arcs_count_in_either_direction_and_inside_the_phrase_and_between_two_twice():
    phrases = [Phrase(0, 2, (0,)), Phrase(3, 5, (2,)), Phrase(2, 3, ())]
    found = pairs(ARCS[:4], phrases)
    assert found == [("det", 0, (0,)), ("nsubj", 2, (0,)), ("det", 3, (2,)), ("dobj", 2, (2,))]
    both = [Phrase(0, 1, (0,)), Phrase(1, 2, (1,))]
    assert pairs([Arc("conj", 0, 1)], both) == [("conj", 1, (0,)), ("conj", 0, (1,))]


def test_planted_heads_are_found_relation_by_relation():
    outcome = probe(Neighbours(), data_of(SCENES))
    assert score(outcome, "split_half_accuracy", relation="nsubj").value == 1.0
    rows = outcome.artifacts["heads"].to_pylist()
    best = {(r["relation"], r["layer"], r["head"]) for r in rows if r["accuracy"] == 1.0}
    assert best == {("nsubj", 0, 0), ("dobj", 1, 1)}
    assert "nsubj 0-0" in outcome.notes[0]
    assert "dobj 1-1" in outcome.notes[0]


def test_the_verbs_attention_to_its_subject_has_the_subjects_baseline():
    first = [two_things(i, 0, 2) for i in range(4)]
    outcome = probe(Constant(), data_of(first))
    floors = [score(outcome, "best_head_accuracy", relation=r).floors for r in RELATIONS]
    assert [own["most_confident_region"] for own in floors] == [0.5, 1.0, 0.0]


def test_each_relation_filters_heads_by_its_own_words():
    # Only `sees` looks at the image: of det, no head is active.
    class Verbs(Neighbours):
        image_share = 0.1

    outcome = probe(Verbs(), data_of(SCENES))
    active = {r["relation"] for r in outcome.artifacts["heads"].to_pylist() if r["active"]}
    assert active == {"nsubj", "dobj"}
    assert score(outcome, "best_active_head_accuracy", relation="nsubj").value == 1.0


def test_constant_attention_scores_a_random_region_for_each_relation():
    outcome = probe(Constant(), data_of(SCENES))
    found = {s.at["relation"]: s for s in outcome.scores if s.metric == "split_half_accuracy"}
    assert {name: s.n for name, s in found.items()} == RELATIONS
    assert {(s.value, s.chance) for s in found.values()} == {(0.25, 0.25)}


def beside_background(i):
    """Return a scene whose things are the first and the third region."""
    words = two_things(i, *((0, 2) if i % 2 else (2, 0))).words
    phrases = [(0, 2, (1 - i % 2,)), (3, 5, (i % 2,))]
    return Scene(words, phrases, REGIONS, [REGIONS[0], REGIONS[2]])


BESIDE_BACKGROUND = [beside_background(i) for i in range(10)]


class TellsThings(Constant):
    """Looks at the regions of things, whatever the word."""

    def plant(self, weights, text, spans):
        weights[..., [1, 3]] /= 5


def halves(outcome):
    found = [s for s in outcome.scores if s.metric == "split_half_accuracy"]
    return {s.at["relation"]: (s.value, s.chance) for s in found}


def test_a_head_that_tells_things_from_background_gets_chance_among_things():
    data = data_of(BESIDE_BACKGROUND)
    every = probe(TellsThings(), data)
    things = probe(TellsThings(), data, of=syntactic_grounding_things)
    assert halves(every) == dict.fromkeys(RELATIONS, (0.5, 0.25))
    assert halves(things) == dict.fromkeys(RELATIONS, (0.5, 0.5))
    assert AMONG_THINGS in things.notes
    assert AMONG_THINGS not in every.notes


def test_among_things_the_head_that_reads_the_relation_is_found():
    outcome = probe(Neighbours(), data_of(BESIDE_BACKGROUND), of=syntactic_grounding_things)
    assert halves(outcome) == {"det": (0.5, 0.5), "nsubj": (1.0, 0.5), "dobj": (1.0, 0.5)}
    nsubj = score(outcome, "split_half_accuracy", relation="nsubj")
    # Of ten subjects five are the first region, which is the most confident, and as large.
    assert nsubj.floors == {
        "random_region": 0.5, "largest_region": 0.5, "most_confident_region": 0.5,
    }  # fmt: skip


def test_only_the_commonest_relations_are_scored():
    outcome = probe(Constant(), data_of(SCENES), relations=1)
    assert {s.at["relation"] for s in outcome.scores} == {"det"}
    assert outcome.counts["pairs_of_rarer_relations"] == 20


def test_a_relation_on_one_image_has_no_split_half():
    lone = Scene(SCENES[0].words, [(0, 2, (0,))])
    rest = [Scene(s.words, [(3, 5, (1,))], REGIONS) for s in SCENES[1:]]
    outcome = probe(Constant(), data_of([lone, *rest]))
    halved = {s.at["relation"] for s in outcome.scores if s.metric == "split_half_accuracy"}
    assert "nsubj" not in halved
    assert score(outcome, "best_head_accuracy", relation="nsubj").n == 1


def test_no_arc_at_an_entity_is_too_few():
    with pytest.raises(TooFewRows, match="no word with boxes has a dependency"):
        probe(Constant(), data_of([Scene(s.words, []) for s in SCENES]))


def test_captions_without_arcs_need_a_parser():
    with pytest.raises(DataError, match="give `parser`, the name of a spaCy pipeline"):
        probe(Constant(), data_of(SCENES, arcs=False))


DEPENDENCIES, HEADS = ("det", "nsubj", "ROOT", "det", "dobj", "punct"), (1, 2, 2, 4, 2, 2)


def test_a_parser_gives_the_arcs_that_the_data_lack(monkeypatch):
    class Word(SimpleNamespace):
        def __len__(self):
            return len(self.text)

    def parse(text):
        start, parsed = 0, []
        for word, dep, head in zip(text.split(" "), DEPENDENCIES, HEADS, strict=True):
            own = {"text": word, "idx": start, "head": SimpleNamespace(i=head)}
            parsed.append(Word(tag_="NN", dep_=dep, **own))
            start += len(word) + 1
        return parsed

    pipeline = SimpleNamespace(meta={"version": "1"}, pipe=lambda texts: map(parse, texts))
    spacy = SimpleNamespace(load=lambda _: pipeline, __version__="1")
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    model = Neighbours({(0, 0): Plan()})
    parsed = probe(model, data_of(SCENES, arcs=False), parser="any")
    assert parsed.scores == probe(model, data_of(SCENES)).scores
