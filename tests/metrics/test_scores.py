"""Scores that the harness makes of items; values and floors by hand."""

from inspect import getsource

import pytest
import torch
from foil_fakes import Answers, question_rows
from scipy.stats import ttest_1samp

from vlbench.asking.chooser import Chooser
from vlbench.asking.questions import read_questions
from vlbench.engine import Engine
from vlbench.metrics.intervals import clustered_mean, mean_of_seeds, mean_of_trials, wilson
from vlbench.metrics.items import Examples, Items, Options, class_options, options_among
from vlbench.metrics.ranking import Choice, without_answer
from vlbench.metrics.scores import by_category, macro, measure_items, score_of, scored
from vlbench.results import Outcome, Score

RIGHT = [0, 0, 0, 1, 1, 2]
EXAMPLES = Examples([*"abcdef"], [*"123456"])
CREDIT = torch.tensor([1, 0.5, 0, 0, 0, 0], dtype=torch.float64)


def choice(credit, chosen=None):
    values = torch.as_tensor(credit, dtype=torch.float64)
    said = torch.zeros(values.shape, dtype=torch.long) if chosen is None else torch.tensor(chosen)
    return Choice(values, (values > 0) & (values < 1), said)


def items(credit=CREDIT, guesses=1, **more):
    options = class_options([*"wxyz"], RIGHT, guesses)
    return Items("accuracy", choice(credit), EXAMPLES, options, **more)


def test_a_score_has_the_chance_and_the_floor_of_its_number_of_guesses():
    one, two = (score_of(items(guesses=guesses)) for guesses in (1, 2))
    assert (one.value, one.n, one.chance) == (pytest.approx(0.25), 6, 0.25)
    assert one.floors == {"majority_class": pytest.approx(1 / 2)}
    assert (two.chance, two.floors) == (0.5, {"majority_classes": pytest.approx(5 / 6)})


def test_the_interval_is_over_what_is_random_and_draws_are_the_means_of_trials():
    by_trial = torch.stack([CREDIT, CREDIT.flip(0), torch.ones(6, dtype=torch.float64)])
    clustered = items()._replace(examples=EXAMPLES._replace(clusters=[*"aabbcc"]))
    expected = {
        "items": (items(), wilson(1.5, 6)),
        "clusters": (clustered, clustered_mean(CREDIT.numpy(), [*"aabbcc"])),
        "trials": (items(by_trial, random="trials"), mean_of_trials(by_trial.numpy())),
        "seeds": (items(by_trial, random="seeds"), mean_of_seeds(by_trial.numpy())),
    }
    for name, (given, estimate) in expected.items():
        score = score_of(given)
        assert (score.value, score.stderr, score.ci95) == tuple(estimate), name
    assert score_of(items()).draws == []
    assert score_of(items(by_trial, random="trials")).draws == pytest.approx([0.25, 0.25, 1.0])


def test_seeds_of_items_in_clusters_vary_as_seeds_and_as_clusters():
    # Means of clusters 1/2, 0, 1/4 and of seeds 1/4, 1/4: only the clusters vary.
    by_seed = torch.tensor([[1, 0.5, 0, 0, 0, 0], [0.5, 0, 0, 0, 0.5, 0.5]], dtype=torch.float64)
    given = items(by_seed, random="seeds")
    score = score_of(given._replace(examples=EXAMPLES._replace(clusters=[*"aabbcc"])))
    assert (score.value, score.draws) == (0.25, [0.25, 0.25])
    assert score.stderr == pytest.approx((0.0625 / 3) ** 0.5)


def test_a_difference_has_a_paired_interval_and_may_count_fewer_items():
    credit = [1.0, 1.0, -1.0, 0.0, 0.0, 0.0]
    own = items(torch.tensor(credit), range=(-1.0, 1.0), n=3, higher_is_better=False)
    assert score_of(own._replace(options=Options((), (), None))).chance is None
    score = score_of(own._replace(options=Options((), (), 0.0)))
    interval = ttest_1samp(credit, 0).confidence_interval()
    assert score.ci95 == pytest.approx((interval.low, interval.high))
    assert (score.n, score.chance, score.range) == (3, 0.0, (-1.0, 1.0))
    assert score.higher_is_better is False


def test_a_floor_is_a_number_or_the_choices_of_a_rule():
    floors = {"number": 0.3, "rule": choice([1, 1, 0, 0, 0, 0])}
    found = score_of(items(floors=floors)).floors
    assert found == pytest.approx({"majority_class": 0.5, "number": 0.3, "rule": 1 / 3})


def test_items_give_back_the_score_and_what_was_chosen():
    own = Items("accuracy", choice([1, 0], [0, -1]), Examples(["a", "b"], ["1", "2"]),
                class_options(["cat", "dog"], [0, 1]))  # fmt: skip
    rows = measure_items(own).items.to_pylist()
    assert [(row["credit"], row["prediction"], row["target"]) for row in rows] == [
        (1.0, "cat", "cat"), (0.0, None, "dog"),
    ]  # fmt: skip
    none = own._replace(choice=without_answer(torch.tensor([1.0, 0.0])))
    several = none._replace(options=class_options(["cat", "dog", "fox"], [0, 1], 2))
    assert {row["target"] for row in measure_items(several).items.to_pylist()} == {None}


def test_the_harness_scores_items_before_finished_scores_and_counts_ties():
    more = items(torch.tensor([1, 0.5, 0.5, 0, 0, 0]), at={"k": 3})
    last = Score("index", 0.5, 6)
    found = scored(Outcome(metrics=[items(at={"k": 1}), more], scores=[last], counts={"odd": 1}))
    assert [s.metric for s in found.scores] == ["accuracy", "accuracy", "index"]
    assert [dict(s.at) for s in found.scores] == [{"k": 1}, {"k": 3}, {}]
    assert found.counts == {"n": 6, "ties": 3, "choices": 12, "odd": 1}
    assert (found.metrics, len(found.items)) == ((), 12)
    assert scored(found) == found


def test_categories_have_scores_and_the_first_metric_a_mean_over_them():
    examples = EXAMPLES._replace(categories=[*"xxxxyy"])
    own = items(torch.tensor([1, 1, 1, 1, 0, 1]), floors={"rule": choice([1, 1, 0, 0, 0, 0])})
    found = scored(Outcome(metrics=[own._replace(examples=examples)]))
    told = {(s.metric, s.at.get("category", "")): (s.value, s.floors["rule"]) for s in found.scores}
    assert told == {
        ("accuracy", ""): pytest.approx((5 / 6, 1 / 3)),
        ("accuracy", "x"): pytest.approx((1.0, 0.5)),
        ("accuracy", "y"): pytest.approx((0.5, 0.0)),
        ("accuracy_macro", ""): pytest.approx((0.75, 0.25)),
    }


def chooses(model, data, engine):
    """A probe of choice: any way of asking gives the choice, and the harness the rest."""
    rows = data.splits["test"]
    asked, right, examples, notes = read_questions(rows)
    chooser = Chooser(model, rows, engine, "likelihood")
    choice = chooser.choose(range(len(rows)), asked, right).choice
    chance = [len(true) / len(one.options) for one, true in zip(asked, right, strict=True)]
    first = [true[0] for true in right]
    chosen, options = options_among([one.options for one in asked], choice, first, chance)
    examples = examples._replace(categories=[*rows["category"]])
    return Outcome(metrics=[Items("accuracy", chosen, examples, options)], notes=notes)


def test_a_probe_of_choice_is_short_and_has_chance_intervals_items_and_categories():
    found = scored(chooses(Answers(), question_rows(), Engine.for_tests()))
    values = {s.at.get("category", ""): s for s in found.scores if s.metric == "accuracy"}
    assert {*values} == {"", "object", "colour", "place", "number", "presence"}
    assert {(s.value, s.chance) for s in values.values()} == {(1.0, 0.5)}
    assert all(s.ci95 for s in values.values())
    assert {row["prediction"] for row in found.items.to_pylist()} >= {"yes", "left", "blue"}
    assert len(getsource(chooses).splitlines()) <= 40


def test_trials_of_items_have_categories():
    by_trial = torch.tensor([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 1, 1]], dtype=torch.float64)
    given = items(by_trial, random="trials")
    given = given._replace(examples=EXAMPLES._replace(categories=[*"xxxxyy"]))
    scores = {one.at["category"]: score_of(one) for one in by_category(given, "xy")}
    assert {name: one.value for name, one in scores.items()} == {"x": 3 / 8, "y": 1 / 2}
    assert scores["y"].draws == [0, 1]
    mean = score_of(macro(given, "xy"))
    assert (mean.value, mean.chance) == (pytest.approx(7 / 16), pytest.approx(1 / 4))
    without = macro(given._replace(options=given.options._replace(chance=None)), "xy")
    assert (score_of(without).value, score_of(without).chance) == (pytest.approx(7 / 16), None)


def test_an_interval_that_is_not_known_is_refused():
    by_trial = torch.stack([CREDIT, 1 - CREDIT])
    with pytest.raises(ValueError, match="need `random`"):
        score_of(items(by_trial))
    clustered = items(by_trial, random="trials")
    clustered = clustered._replace(examples=EXAMPLES._replace(clusters=[*"aabbcc"]))
    with pytest.raises(ValueError, match="trials of items in clusters"):
        score_of(clustered)
