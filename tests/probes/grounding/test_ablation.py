"""vlbench/probes/grounding/ablation.py on models of which it is known which heads they need."""

from collections import Counter

import numpy as np
import pytest
from grounding_fakes import LAYERS, Needs, foils_and_scenes, numbered

from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.errors import DataError, SpecError, TooFewRows
from vlbench.probes.grounding.ablation import _other_heads, ablation

SEEN = (1, 2)


def ablate(model, data=None, **params):
    params = {"each_layer": True, "best_heads": 1, "windows": 1, "ranked_on": "phrases"} | params
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
    outcome = ablate(Needs((0, 0), looks=[SEEN]), each_layer=False, windows=0)
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


def test_random_heads_are_other_heads_of_the_same_layers_if_there_are_enough():
    rng, best = np.random.default_rng(0), [(0, 1), (1, 0), (1, 2)]
    for _ in range(20):
        drawn = _other_heads(best, (4, 3), rng).heads
        assert len({*drawn}) == 3
        assert not {*drawn} & {*best}
        assert Counter(layer for layer, _ in drawn)[0] >= 2


def test_a_window_of_all_layers_has_no_random_windows_beside_it():
    outcome = ablate(Needs(SEEN), each_layer=False, best_heads=0, windows=LAYERS)
    assert values(outcome, "drop") == {("text to image", 0): 0.5}
    assert values(outcome, "drop_beyond_random") == {}


def test_parts_of_one_size_share_their_random_parts():
    outcome = ablate(Needs(SEEN), best_heads=0, windows=0)
    most = 1 + LAYERS + 8 + LAYERS
    assert outcome.counts["passes"] <= most


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"each_layer": False, "best_heads": 0, "windows": 0}, "nothing is taken away"),
        ({"best_heads": 4}, "4 best heads asked; the model has 6"),
        ({"windows": 3}, "windows of 3 layers asked; the model has 2"),
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
    with pytest.raises(TooFewRows, match="1 image to choose captions of"):
        ablate(Needs(SEEN), Data(splits={**data.splits, "test": rows}))
