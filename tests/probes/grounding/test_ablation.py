"""vlbench/probes/grounding/ablation.py on models of which it is known which heads they need."""

from collections import Counter

import numpy as np
import pytest
import torch
from grounding_fakes import HEADS, LAYERS, Needs, foils_and_scenes, numbered

from vlbench.data.records import Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, SpecError, TooFewRows
from vlbench.probes.grounding.ablation import _other_heads, ablation

SEEN = (1, 2)


class NeedsToAnswer:
    """Says yes of even pictures, no of odd ones; without its head, the first option."""

    def __init__(self, *heads):
        self.of = Needs(*heads)

    def parts(self):
        return self.of.parts()

    def cut(self, what):
        other = NeedsToAnswer()
        other.of = self.of.cut(what)
        return other

    def score_answers(self, pictures, questions, answers):
        said = ["no" if self.of.sees() and one.image % 2 else "yes" for one in pictures]
        return torch.tensor([0.0 if a == b else -2.0 for a, b in zip(said, answers, strict=True)])


def asked():
    """Return questions about numbered pictures, half of them even."""
    columns = {
        "image": numbered([*range(12)], "image"),
        "picture": numbered([*range(12)], "picture"),
        "question": value_column(["is it even?"] * 12, "text"),
        "right_answers": value_column([["no" if i % 2 else "yes"] for i in range(12)]),
    }
    return Data(splits={"test": Split(columns), "phrases": foils_and_scenes().splits["phrases"]})


def equal_foils():
    rows = foils_and_scenes().splits["test"]
    texts = [*rows["caption"]]
    foils = [[texts[1]] if i == 1 else list(own) for i, own in enumerate(rows["foils"])]
    return Data(splits={"test": Split(rows.columns | {"foils": value_column(foils)})})


def unasked():
    return Data(splits={"test": Split({"image": numbered([*range(12)], "image")})})


def ablate(model, data=None, **params):
    params = {"each": ["layer"], "best_heads": 1, "windows": 1, "ranked_on": "phrases"} | params
    return ablation(model, data or foils_and_scenes(), Engine.for_tests(), **params)


def scores(outcome, metric):
    return {tuple(s.at.values()): s for s in outcome.scores if s.metric == metric}


def values(outcome, metric):
    return {at: score.value for at, score in scores(outcome, metric).items()}


def test_a_picture_that_enters_by_one_head_is_lost_with_it_alone():
    outcome = ablate(Needs(SEEN))
    assert values(outcome, "accuracy") == {(): 1}
    assert values(outcome, "drop") == {
        ("layer", 0): 0, ("layer", 1): 0.5, ("best heads",): 0.5,
        ("text to image", 0): 0, ("text to image", 1): 0.5,
    }  # fmt: skip
    beyond = scores(outcome, "drop_beyond_random")
    assert beyond[("best heads",)].value == 0.5
    assert beyond[("layer", 1)].value > 0 > beyond[("layer", 0)].value


def test_a_head_that_grounds_and_is_not_needed_costs_nothing():
    outcome = ablate(Needs((0, 0), looks=[SEEN]), each=(), windows=0)
    assert values(outcome, "drop") == {("best heads",): 0}
    score = scores(outcome, "drop_beyond_random")[("best heads",)]
    assert score.ci95[0] <= 0 <= score.ci95[1]


def test_heads_that_stand_in_for_each_other_are_missed_only_together():
    outcome = ablate(Needs((0, 1), SEEN), best_heads=2)
    drops = values(outcome, "drop")
    assert drops.pop(("best heads",)) == 0.5
    assert {*drops.values()} == {0}
    assert "best heads, layer-head from 0: 0-1, 1-2" in outcome.notes


def test_a_model_that_never_looks_loses_nothing():
    outcome = ablate(Needs(looks=[SEEN]))
    assert values(outcome, "accuracy") == {(): 0.5}
    both = {**values(outcome, "drop"), **values(outcome, "drop_beyond_random")}
    assert {*both.values()} == {0}


def test_each_head_is_compared_with_the_others_of_its_layer():
    outcome = ablate(Needs(SEEN), each=["head"], best_heads=0, windows=0)
    drops, beyond = values(outcome, "drop"), values(outcome, "drop_beyond_random")
    assert {at for at, drop in drops.items() if drop} == {("head", *SEEN)}
    # The others of its layer cost nothing; each of them has it among its random heads.
    assert {at: value for at, value in beyond.items() if value} == {
        ("head", *SEEN): 0.5, ("head", 1, 0): -0.25, ("head", 1, 1): -0.25,
    }  # fmt: skip
    assert outcome.counts["passes"] == 1 + LAYERS * HEADS


def test_questions_are_asked_by_the_likelihood_of_their_answers():
    outcome = ablate(NeedsToAnswer(SEEN), asked(), best_heads=0)
    assert values(outcome, "accuracy") == {(): 1}
    assert values(outcome, "drop")["layer", 1] == values(outcome, "drop")["text to image", 1] == 0.5
    assert values(outcome, "drop")["layer", 0] == 0
    items = outcome.items.to_pylist()
    said = {(one["prediction"], one["target"]) for one in items if one["metric"] == "accuracy"}
    assert said == {("yes", "yes"), ("no", "no")}


@pytest.mark.parametrize(
    ("model", "columns", "params", "error", "match"),
    [
        (Needs, asked, {}, CannotDo, "does not implement AnswerScorer"),
        (NeedsToAnswer, foils_and_scenes, {}, CannotDo, "not an ImageTextScorer"),
        (NeedsToAnswer, asked, {"best_heads": 1}, CannotDo, "not a JointAttender"),
        (Needs, equal_foils, {}, DataError, "row 2: a wrong text is the caption itself"),
        (Needs, unasked, {}, DataError, "no `caption` with `foils` and no `question`, but image"),
    ],
)
def test_items_that_a_model_cannot_be_asked_are_refused(model, columns, params, error, match):
    with pytest.raises(error, match=match):
        ablate(model(SEEN), columns(), **{"best_heads": 0} | params)


def test_items_are_drawn_by_the_seed():
    chosen = [
        ablate(Needs(SEEN), best_heads=0, items=6, seed=seed).items["id"].to_pylist()
        for seed in (0, 0, 1)
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len({*chosen[0]}) == 6


def test_random_heads_are_other_heads_of_the_same_layers_if_there_are_enough():
    rng, best = np.random.default_rng(0), [(0, 1), (1, 0), (1, 2)]
    for _ in range(20):
        drawn = _other_heads(best, (4, 3), rng).heads
        assert len({*drawn}) == 3
        assert not {*drawn} & {*best}
        assert Counter(layer for layer, _ in drawn)[0] >= 2


def test_a_window_of_all_layers_has_no_random_windows_beside_it():
    outcome = ablate(Needs(SEEN), each=(), best_heads=0, windows=LAYERS)
    assert values(outcome, "drop") == {("text to image", 0): 0.5}
    assert values(outcome, "drop_beyond_random") == {}


def test_parts_of_one_size_share_their_random_parts():
    outcome = ablate(Needs(SEEN), best_heads=0, windows=0)
    most = 1 + LAYERS + 8 + LAYERS
    assert outcome.counts["passes"] <= most


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"each": (), "best_heads": 0, "windows": 0}, "no part is removed:"),
        ({"best_heads": 4}, "4 best heads requested; the model has 6"),
        ({"windows": 3}, "windows of 3 layers requested; the model has 2"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(params, match):
    with pytest.raises(SpecError, match=match):
        ablate(Needs(SEEN), **params)


def test_heads_ranked_on_test_images_are_refused():
    data = foils_and_scenes()
    shared = data.splits["phrases"].columns | {"image": numbered([*range(6)], "image")}
    data = Data(splits={**data.splits, "phrases": Split(shared)})
    with pytest.raises(DataError, match="6 images of phrases, on which heads are ranked, are test"):
        ablate(Needs(SEEN), data)


def test_one_cluster_is_refused():
    data = foils_and_scenes()
    rows = data.splits["test"].select([0])
    with pytest.raises(TooFewRows, match="1 image to ask about"):
        ablate(Needs(SEEN), Data(splits={**data.splits, "test": rows}))
