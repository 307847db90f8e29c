from dataclasses import replace

import pytest
import torch
from fakes import ConstantModel, Reader, labelled_images

from vlbench.engine import Engine
from vlbench.errors import CannotDo, UnknownNameError
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.description_length import OnlineCoding, description_length
from vlbench.probes.generalization.few_shot import few_shot
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.linear import PAPER_TRAINING
from vlbench.probes.generalization.rsa import rsa
from vlbench.probes.generalization.transfer import transfer

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
    (note,) = [note for note in outcome.notes if "best layer" in note]
    assert "first for accuracy, shots 1 (n 9)" in note


@pytest.mark.parametrize(("shots", "held_out"), [(2, 9), (4, 4), (5, 2)])
def test_so_many_train_images_are_held_out_that_each_class_keeps_its_shots(shots, held_out):
    outcome = run(few_shot, shots=[shots], trials=2, layers="all")
    assert best_of(outcome).value == 1
    assert f"shots {shots} (n {held_out})" in outcome.notes[-1]


def test_without_train_images_to_hold_out_a_note_says_why_there_is_no_best_layer():
    outcome = run(few_shot, shots=[6], trials=2, layers="all")
    assert not [s for s in outcome.scores if s.metric.endswith("_best_layer")]
    (note,) = outcome.notes
    assert note.startswith(
        "no best layer, too few train rows to hold some out: class 'class 0' has"
    )


def test_one_layer_is_no_choice():
    outcome = run(few_shot, shots=[2], trials=2, layers=["second"])
    assert [s.metric for s in outcome.scores if "best" in s.metric] == []
    assert outcome.notes == []


def test_the_score_on_the_rows_that_train_has_no_best_layer():
    training = PAPER_TRAINING._replace(epochs=2)
    outcome = run(transfer, training=training, layers="all")
    best = {s.metric for s in outcome.scores if s.metric.endswith("_best_layer")}
    assert best == {"accuracy_best_layer"}


def test_code_lengths_have_no_best_layer():
    outcome = run(description_length, coding=HALVES, layers="all")
    best = {s.metric for s in outcome.scores if s.metric.endswith("_best_layer")}
    assert best == {"accuracy_best_layer"}


def test_where_layers_know_nothing_the_best_of_them_is_at_chance():
    class Noise(KnowsInTheMiddle):
        def layers(self):
            return [f"{i}" for i in range(40)] + ["output"]

        def encode_images_at(self, pixels, layers):
            number = pixels[:, 1, 0, 0] * 255
            rows = [torch.sin(number * (i + 3) * 7.1)[:, None] for i in range(len(layers))]
            return dict(zip(layers, (torch.cat([x, x**2], 1) for x in rows), strict=True))

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


def test_a_model_without_layers_is_told_what_it_lacks():
    with pytest.raises(CannotDo, match="ConstantModel gives no layers: it has no encode_images_at"):
        few_shot(ConstantModel(), DATA, Engine.for_tests(), shots=[1], layers="all")


def test_a_layer_that_there_is_not_is_refused():
    with pytest.raises(UnknownNameError, match="no layer is named 'third'"):
        run(few_shot, shots=[1], layers=["third"])
