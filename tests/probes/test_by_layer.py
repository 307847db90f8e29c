import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import ConstantModel, Reader, labelled_images
from scipy.special import ndtri
from scoring import with_scores

from vlbench.boards.joins import compare, items_of
from vlbench.data.records import Data, Split, overlaps, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, UnknownNameError
from vlbench.metrics.intervals import mean_of_trials
from vlbench.metrics.items import Measured, outcome_of
from vlbench.probes.by_layer import hold_out, layered
from vlbench.probes.generalization import few_shot as few_shot_probe
from vlbench.probes.generalization import knn as knn_probe
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.description_length import OnlineCoding, description_length
from vlbench.probes.generalization.linear import PAPER_TRAINING
from vlbench.probes.generalization.rsa import rsa
from vlbench.results import Score

few_shot = with_scores(few_shot_probe.few_shot)
knn = with_scores(knn_probe.knn)
transfer = with_scores(transfer_probe.transfer)

HALVES = OnlineCoding(percent=[50, 100], seeds=1)

DATA = labelled_images(6, 6, 6, test=(8, 8, 8))


class KnowsInTheMiddle(Reader):
    """Tells classes apart at its second layer alone."""

    def layers(self):
        return ["first", "second", "output"]

    def encode_images_at(self, pixels, layers):
        label = (pixels[:, 0, 0, 0] * 255).round().long()
        known = torch.nn.functional.one_hot(label, 4).float()
        nothing = torch.ones_like(known)
        return {name: known if name == "second" else nothing for name in layers}

    def encode_images(self, pixels):
        return self.encode_images_at(pixels, ["output"])["output"]


def run(probe, **params):
    return probe(KnowsInTheMiddle(), DATA, Engine.for_tests(), **params)


@pytest.mark.parametrize(
    ("probe", "params", "at"),
    [
        (few_shot, {"shots": [2], "trials": 3}, {"shots": 2}),
        (knn, {"k": [3]}, {"k": 3}),
        (clustering, {}, {}),
        (description_length, {"coding": HALVES}, {"train_images": 18}),
        (transfer, {"training": PAPER_TRAINING._replace(learning_rate=0.1)}, {}),
    ],
)
def test_the_layer_that_knows_scores_and_the_others_are_at_chance(probe, params, at):
    outcome = run(probe, layers="all", **params)
    found = {s.at["layer"]: s for s in outcome.scores if s.metric == "accuracy"}
    assert list(found) == ["first", "second", "output"]
    assert all(score.at == {**at, "layer": name} for name, score in found.items())
    assert found["second"].value == 1.0
    assert found["output"].value == pytest.approx(found["output"].chance, abs=0.02)


def test_layers_are_those_that_are_asked_for_in_order_of_depth():
    outcome = run(few_shot, shots=[1], layers=["output", "second"])
    layers = [s.at["layer"] for s in outcome.scores if s.metric == "accuracy"]
    assert layers == ["second", "output"]


def best_of(outcome, metric="accuracy"):
    (best,) = [s for s in outcome.scores if s.metric == f"{metric}_best_layer"]
    return best


def test_the_best_layer_has_the_score_and_the_items_of_that_layer():
    outcome = run(few_shot, shots=[2], trials=2, layers="all", floors={"colour": "image"})
    (own,) = [s for s in outcome.scores if (s.metric, s.at.get("layer")) == ("accuracy", "second")]
    assert best_of(outcome) == replace(own, metric="accuracy_best_layer", at={"shots": 2})
    assert {"majority_class", "colour"} == own.floors.keys()
    items = outcome.items.to_pylist()
    best = [one | {"at": ""} for one in items if one["metric"] == "accuracy_best_layer"]
    assert {one["trial"] for one in best} == {0, 1}
    assert best == [
        one | {"metric": "accuracy_best_layer", "at": ""}
        for one in items
        if one["metric"] == "accuracy" and '"second"' in one["at"]
    ]


class SplitMinds(KnowsInTheMiddle):
    """Tells classes of train images apart at its first layer, of test images at its second."""

    def encode_images_at(self, pixels, layers):
        known = super().encode_images_at(pixels, ["second"])["second"]
        is_test = (pixels[:, 1, 0, :1] * 255).round() >= 18
        at = {"first": torch.where(is_test, 1.0, known), "second": torch.where(is_test, known, 1.0)}
        return {name: at.get(name, torch.ones_like(known)) for name in layers}


def test_test_images_take_no_part_in_the_choice_and_a_note_names_the_layer():
    outcome = few_shot(SplitMinds(), DATA, Engine.for_tests(), shots=[1], trials=2, layers="all")
    assert best_of(outcome).value == pytest.approx(1 / 3)
    note, few = outcome.notes
    assert few.startswith("the best layer was chosen on fewer than 250 train rows: it")
    assert "first for accuracy, accuracy_cosine, accuracy_euclidean, shots 1 (n 9)" in note


@pytest.mark.parametrize(("shots", "held_out"), [(2, 9), (4, 4), (5, 2)])
def test_so_many_train_images_are_held_out_that_each_class_keeps_its_shots(shots, held_out):
    outcome = run(few_shot, shots=[shots], trials=2, layers="all")
    assert best_of(outcome).value == 1
    assert f"shots {shots} (n {held_out})" in outcome.notes[0]


def test_without_train_images_to_hold_out_a_note_says_why_there_is_no_best_layer():
    outcome = run(few_shot, shots=[6], trials=2, layers="all")
    assert not [s for s in outcome.scores if s.metric.endswith("_best_layer")]
    (note,) = outcome.notes
    why = "no best layer: too few train rows to hold some out"
    assert note.startswith(f"{why}: class 'class 0' has")


def test_a_clustering_of_test_images_alone_has_no_best_layer_and_says_why():
    data = Data(splits={"test": DATA.splits["test"]}, classes=DATA.classes)
    outcome = clustering(KnowsInTheMiddle(), data, Engine.for_tests(), layers="all")
    assert not [s for s in outcome.scores if s.metric.endswith("_best_layer")]
    assert "no accuracy_best_layer: its items have no independent halves" in outcome.notes


@pytest.mark.parametrize(
    ("probe", "params"),
    [
        (transfer, {"training": PAPER_TRAINING._replace(epochs=2)}),
        (description_length, {"coding": HALVES}),
    ],
)
def test_the_score_on_the_rows_that_train_and_code_lengths_have_no_best_layer(probe, params):
    outcome = run(probe, layers="all", **params)
    best = {s.metric for s in outcome.scores if s.metric.endswith("_best_layer")}
    assert best == {"accuracy_best_layer"}


def test_where_layers_know_nothing_the_best_of_them_is_at_chance():
    class Noise(KnowsInTheMiddle):
        def layers(self):
            return [f"{i}" for i in range(25)] + ["output"]

        def encode_images_at(self, pixels, layers):
            number = pixels[:, 1, 0, 0] * 255
            rows = [torch.sin(number * (i + 3) * 7.1)[:, None] for i in range(len(layers))]
            return dict(zip(layers, (torch.cat([x, x**2], 1) for x in rows), strict=True))

        def encode_images(self, pixels):
            return self.encode_images_at(pixels, self.layers())["output"]

    data = labelled_images(20, 20, test=(60, 60))
    outcome = few_shot(Noise(), data, Engine.for_tests(), shots=[5], trials=2, layers="all")
    (best,) = [s for s in outcome.scores if s.metric == "accuracy_best_layer"]
    most = max(s.value for s in outcome.scores if s.metric == "accuracy")
    assert best.value < most
    assert best.ci95[0] < 0.5 < best.ci95[1]


def test_each_layer_has_its_matrix():
    data = labelled_images(4, 4, 4, 4, test=(4, 4, 4, 4))
    outcome = rsa(KnowsInTheMiddle(), data, Engine.for_tests(), rdm="cosine", layers=["second"])
    assert set(outcome.artifacts) == {"rdm_0", "classes_0"}


def test_counts_of_ties_are_sums_over_layers():
    one = run(few_shot, shots=[1], trials=2, layers=["first"]).counts
    both = run(few_shot, shots=[1], trials=2, layers=["first", "output"]).counts
    assert both["choices"] == 2 * one["choices"]
    assert "n" not in both


def test_a_model_without_layers_is_told_what_it_lacks_and_a_layer_that_there_is_not_is_refused():
    with pytest.raises(CannotDo, match="ConstantModel gives no layers: it has no encode_images_at"):
        few_shot(ConstantModel(), DATA, Engine.for_tests(), shots=[1], layers="all")
    with pytest.raises(UnknownNameError, match="no layer is named 'third'"):
        run(few_shot, shots=[1], layers=["third"])


EQUAL = "equal"
LAYERS = {
    EQUAL: np.full(5, 0.5),
    "rising": np.linspace(0.3, 0.7, 5),
    "one better": np.array([0.6] + [0.5] * 4),
}


class Planted:
    """Answers rows, in 5 trials, at layers of these accuracies, where items and trials vary."""

    def __init__(self, rng, accuracies, rows):
        self.names = [*map(str, range(len(accuracies)))]
        shared = rng.normal(0, 0.8, rows) + rng.normal(0, 0.6, (5, 1))
        own = rng.normal(0, 0.4, (len(self.names), 1, rows))
        threshold = ndtri(accuracies)[:, None, None] * math.sqrt(1 + 0.64 + 0.36 + 0.16)
        noise = rng.normal(size=(len(self.names), 5, rows))
        self.right = torch.from_numpy(noise < threshold + shared + own).float()

    def layers(self):
        return self.names

    def encode_images_at(self, rows, layers):
        return {name: self.right[int(name)][:, rows].T for name in layers}

    def encode_images(self, rows):
        return self.encode_images_at(rows, self.names[-1:])[self.names[-1]]


@layered()
def planted_accuracy(model, data, engine):
    rows = data.splits["test"]["image"]
    credit = engine.features(model.encode_images, rows).T.double().numpy()
    draws = credit.mean(1).tolist()
    estimate = mean_of_trials(credit)._asdict()
    floors = {"floor": 0.1}
    score = Score("accuracy", n=len(rows), chance=0.0, draws=draws, floors=floors, **estimate)
    return outcome_of([Measured(score, rows.examples(), credit)])


def planted(rng, kind, *, splits=("train", "test"), models=1):
    """Return the outcomes of models on 100 test rows, and the accuracies of their layers."""
    column = replace(value_column(range(400), "text"), digests=[*map(str, range(400))])
    rows = {"train": range(300), "test": range(300, 400)}
    data = Data(splits={name: Split({"image": column.select(rows[name])}) for name in splits})
    several = [Planted(rng, LAYERS[kind], 400) for _ in range(models)]
    return [planted_accuracy(one, data, Engine.for_tests(), layers="all") for one in several]


@pytest.mark.parametrize("splits", [["train", "test"], ["test"]])
def test_the_interval_of_the_best_of_equal_layers_covers_over_draws(splits):
    rng = np.random.default_rng(0)
    ends = [best_of(*planted(rng, EQUAL, splits=splits)).ci95 for _ in range(25)]
    assert np.mean([low <= 0.5 <= high for low, high in ends]) >= 0.88


@pytest.mark.parametrize("kind", [*LAYERS][1:])
def test_the_interval_of_the_best_layer_covers_what_that_layer_scores(kind):
    rng, held, lost = np.random.default_rng(0), [], []
    for _ in range(25):
        (outcome,) = planted(rng, kind)
        best = best_of(outcome)
        (layer,) = re.findall(r": (\d) for accuracy", outcome.notes[0])
        truth = LAYERS[kind][int(layer)]
        held.append(best.ci95[0] <= truth <= best.ci95[1])
        lost.append(LAYERS[kind].max() - truth)
    assert np.mean(held) >= 0.85
    assert np.mean(lost) <= 0.01


@pytest.mark.parametrize("kind", [*LAYERS][1:])
def test_without_train_rows_the_interval_covers_what_the_layers_of_both_halves_score(kind):
    rng, held = np.random.default_rng(0), []
    for _ in range(25):
        (outcome,) = planted(rng, kind, splits=["test"])
        best = best_of(outcome)
        (layers,) = re.findall(r"accuracy_best_layer: (\d) and (\d),", outcome.notes[-1])
        truth = LAYERS[kind][[*map(int, layers)]].mean()
        held.append(best.ci95[0] <= truth <= best.ci95[1])
        assert best.floors == {"floor": pytest.approx(0.1)}
        assert np.mean(best.draws) == pytest.approx(best.value)
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize("splits", [["train", "test"], ["test"]])
def test_two_models_of_equal_layers_are_seldom_told_apart(splits):
    rng, p = np.random.default_rng(0), []
    for _ in range(25):
        outcomes = planted(rng, "rising", splits=splits, models=2)
        a, b = (items_of("m", one.items, best_of(one)) for one in outcomes)
        p.append(compare(a, b, higher_is_better=True).p)
    assert np.mean(np.array(p) < 0.05) <= 0.16


def test_copies_of_held_out_images_are_not_among_the_rest():
    data = labelled_images(20, 20)
    column = data.splits["train"]["image"]
    copied = replace(column, digests=[str(row // 2) for row in column.rows])
    train = Split({**data.splits["train"].columns, "image": copied})
    for part, _ in hold_out(replace(data, splits={"train": train}), {}):
        assert len(part.splits["test"]) in {20, 10, 5}
        assert set(overlaps(part).values()) == {0}
