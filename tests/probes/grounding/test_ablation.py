"""vlbench/probes/grounding/ablation.py on models of which it is known which heads they need."""

from collections import Counter

import pytest
import torch
from cut_fakes import Sum
from grounding_fakes import HEADS, LAYERS, Needs, foils_and_scenes, numbered
from PIL import Image

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, SpecError, TooFewRows
from vlbench.probes.grounding.ablation import _donors, ablation
from vlbench.probes.grounding.rank_tests import (
    Ranked,
    adjusted,
    best_heads_test,
    layers_test,
    notes_of_tests,
    other_draws,
    verdicts_by_cut,
)

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


class SaysOne(Sum):
    """Its first head says which text fits, and "1" less by 2; its second head says "1" by 2."""

    def read(self, pictures, texts):
        ones = torch.tensor([2.0 * (text == "1") for text in texts])
        reds = [str(one.image.getpixel((0, 0))[0]) for one in pictures]
        fits = torch.tensor([float(a == b) for a, b in zip(reds, texts, strict=True)])
        return torch.stack([fits - ones, ones], 1)


def red_pictures(count=40):
    """Return images that are 0 or 1 red, and a caption and a foil of each."""
    reds = [i % 2 for i in range(count)]
    made = [Picture(Image.new("RGB", (2, 2), (red, 0, 0)), None) for red in reds]
    columns = {
        "image": numbered([*range(count)], "image"),
        "picture": Column("red", "picture", made, range(count)),
        "caption": value_column([str(red) for red in reds], "text"),
        "foils": value_column([[str(1 - red)] for red in reds]),
    }
    return Data(splits={"test": Split(columns)})


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
    # The two other heads of the layer cost nothing; of two halves of all heads, one has the head.
    assert values(outcome, "p_of_drop") == {("best heads",): 1 / 3, ("largest layer",): 1}


def test_a_head_that_grounds_and_is_not_needed_costs_nothing_nor_if_the_model_never_looks():
    outcome = ablate(Needs((0, 0), looks=[SEEN]), each=(), windows=0)
    assert values(outcome, "drop") == {("best heads",): 0}
    assert values(outcome, "p_of_drop") == {("best heads",): 1}
    outcome = ablate(Needs(looks=[SEEN]))
    assert values(outcome, "accuracy") == {(): 0.5}
    assert {*values(outcome, "drop").values()} == {0}
    assert {*values(outcome, "p_of_drop").values()} == {1}


def test_heads_that_stand_in_for_each_other_are_missed_only_together():
    outcome = ablate(Needs((0, 1), SEEN), best_heads=2)
    drops = values(outcome, "drop")
    assert drops.pop(("best heads",)) == 0.5
    assert {*drops.values()} == {0}
    assert "best heads, layer-head from 0: 0-1, 1-2" in outcome.notes


def test_a_sweep_of_heads_is_a_curve_without_p():
    outcome = ablate(Needs(SEEN), each=["head"], best_heads=0, windows=0)
    assert {at for at, drop in values(outcome, "drop").items() if drop} == {("head", *SEEN)}
    assert {score.metric for score in outcome.scores} == {"accuracy", "drop"}
    assert outcome.counts["passes"] == 1 + LAYERS * HEADS


def test_layers_have_one_p_and_windows_none():
    outcome = ablate(Needs(SEEN), best_heads=0)
    assert {*values(outcome, "p_of_drop")} == {("largest layer",)}
    told = "single layers, heads and windows have no"
    assert any(note.startswith(told) for note in outcome.notes)
    (curve,) = [note for note in outcome.notes if note.startswith("layer, drop")]
    assert curve.startswith("layer, drop in points by (first) layer from 0: 0: 0.0 [")
    assert "1: 50.0 [" in curve


def test_p_and_the_verdict_are_in_the_notes():
    outcome = ablate(Needs(SEEN), each=(), windows=0)
    assert outcome.notes[-1] == (
        "best heads: drop of 50.0 points; random heads, 2 draws: mean 0.0, largest 0.0; p = 0.333: "
        "no verdict, since p cannot be below 0.333"
    )


@pytest.mark.parametrize(
    ("by", "drops"), [("zero", [0.5, 0.5]), ("other_image", [0.5, 0]), ("mean", [0.5, 0])]
)
def test_a_head_that_says_nothing_of_the_image_costs_nothing_with_another_image(by, drops):
    params = {"each": ["head"], "best_heads": 0, "windows": 0, "items": 20, "by": by}
    outcome = ablate(SaysOne(), red_pictures(), **params)
    assert values(outcome, "accuracy") == {(): 1}
    assert [*values(outcome, "drop").values()] == pytest.approx(drops, abs=0.2)
    assert values(outcome, "drop")["head", 0, 1] == 0 or by == "zero"
    assert any("also scores 4 other images" in note for note in outcome.notes) == (by == "mean")


def test_a_model_that_ignores_other_images_is_refused():
    with pytest.raises(CannotDo, match="its score_pairs cannot put in the outputs of heads"):
        ablate(Needs(SEEN), by="mean")
    with pytest.raises(CannotDo, match="its score_answers cannot put in"):
        ablate(NeedsToAnswer(SEEN), asked(), best_heads=0, by="other_image")


def test_other_images_are_no_test_images_and_of_other_clusters():
    data = red_pictures(10)
    clusters = value_column([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    every = Split({**data.splits["test"].columns, "cluster": clusters})
    donors = _donors(every.select([0, 2]), every.select([1, 3, 5, 6, 8]), 2)
    assert [one.image.getpixel((0, 0))[0] for one in donors.pictures] == [1, 0]
    with pytest.raises(DataError, match="missing: 1 with 2 x 2 pixels; reduce items"):
        _donors(every.select([0, 2]), every.select([1, 3, 5]), 2)


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
    options = {"best_heads": 0, "items": 6}
    items = [ablate(Needs(SEEN), **options, seed=seed).items for seed in (0, 0, 1)]
    chosen = [own["id"].to_pylist() for own in items]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len({*chosen[0]}) == 6


def test_random_sets_have_as_many_heads_in_each_layer_and_may_share_some_with_the_best():
    best = [(1, 2), (0, 1), (1, 0)]
    (own,), random = best_heads_test(best, (4, 4), 100, 0)[1:]
    drawn = [heads for (heads,) in random]
    assert own == ((0, 1), (1, 0), (1, 2))
    assert len({*drawn}) == len(drawn) == 4 * 6 - 1  # each other set once
    assert own not in drawn
    assert all(Counter(layer for layer, _ in heads) == {0: 1, 1: 2} for heads in drawn)


def test_layers_are_compared_with_other_ways_to_divide_the_heads():
    layers = [((0, 0), (0, 1)), ((1, 0), (1, 1))]
    test = layers_test(layers, 100, 0)
    assert sorted(test.random) == [
        (((0, 0), (1, 0)), ((0, 1), (1, 1))), (((0, 0), (1, 1)), ((0, 1), (1, 0))),
    ]  # fmt: skip
    # Layers of 1, 2 and 2 heads: 5! / (1! 2! 2!) / 2! ways, of which the layers are one.
    uneven = [((0, 0),), ((1, 0), (1, 1)), ((2, 0), (2, 1))]
    assert len({*layers_test(uneven, 100, 0).random}) == 15 - 1


def test_draws_are_distinct_and_uniform():
    drawn = [other_draws(0, lambda rng: int(rng.integers(5)), 5, 2, seed) for seed in range(2000)]
    assert all(len({*some} - {0}) == 2 for some in drawn)
    counts = Counter(one for some in drawn for one in some)
    assert all(abs(counts[one] - 1000) < 100 for one in (1, 2, 3, 4))


def test_p_is_adjusted_among_the_tests_that_can_reach_the_level():
    many = [0.1] * 79
    ranked = [Ranked("a", 0.2, many), Ranked("b", 0.3, [0.4, *many[1:]]), Ranked("c", 0.5, [0.1])]
    assert adjusted(ranked) == [2 / 80, 2 / 80, 1 / 2]
    first, second, last = [note.rpartition("p = ")[2] for note in notes_of_tests(ranked)]
    assert first == second == "0.025 by Holm's rule over 2 tests: more than random heads"
    assert last == "0.500: no verdict, since p cannot be below 0.500"
    few = [Ranked("a", 0.2, [0.1] * 19), Ranked("b", 0.0, [0.1] * 19)]
    end = "p = 0.100 by Holm's rule over 2 tests: no verdict, since p cannot be below 0.100"
    assert notes_of_tests(few)[0].endswith(end)


def test_drops_have_no_direction_and_those_that_are_tested_have_a_verdict_and_p():
    outcome = ablate(Needs(SEEN))
    assert {score.higher_is_better for score in outcome.scores} == {True, None}
    drops = scores(outcome, "drop")
    assert drops["best heads",].verdict == "no verdict, p 0.333"
    assert {score.verdict for at, score in drops.items() if at != ("best heads",)} == {""}
    assert scores(outcome, "p_of_drop")["best heads",].verdict == "no verdict"


@pytest.mark.parametrize(
    ("random", "verdict"),
    [([0.1] * 39, "finding"), ([0.3] * 39, "no finding"), ([0.1], "no verdict")],
)
def test_a_verdict_is_a_finding_only_by_p(random, verdict):
    assert verdicts_by_cut([Ranked("a", 0.2, random)]) == {"a": verdict}


def test_without_draws_there_is_no_p():
    outcome = ablate(Needs(SEEN), draws=0)
    assert values(outcome, "p_of_drop") == {}
    assert scores(outcome, "drop")["best heads",].verdict == "no verdict"
    assert any("best heads: compared with no random heads" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"each": (), "best_heads": 0, "windows": 0}, "no part is removed:"),
        ({"best_heads": 7}, "7 best heads requested; the model has 6"),
        ({"windows": 3}, "windows of 3 layers requested; the model has 2"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(params, match):
    with pytest.raises(SpecError, match=match):
        ablate(Needs(SEEN), **params)


def test_heads_ranked_on_test_images_and_one_cluster_are_refused():
    splits = foils_and_scenes().splits
    phrases = splits["phrases"].columns | {"image": numbered([*range(6)], "image")}
    shared = Data(splits={**splits, "phrases": Split(phrases)})
    with pytest.raises(DataError, match="6 images of phrases, on which heads are ranked, are test"):
        ablate(Needs(SEEN), shared)
    with pytest.raises(TooFewRows, match="1 image to ask about"):
        ablate(Needs(SEEN), Data(splits={**splits, "test": splits["test"].select([0])}))
