"""Seen and held-out categories apart, in each probe that can tell them apart."""

from functools import partial

import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, Reader, labelled_images, labels_in, numbers_in
from scoring import with_scores
from torch.nn.functional import one_hot

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import TooFewRows
from vlbench.probes.generalization import few_shot as few_shot_probe
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.categories import (
    in_parts,
    of_classes,
)
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.linear import LinearTraining
from vlbench.probes.generalization.robustness import robustness
from vlbench.results import Outcome, Score

few_shot = with_scores(few_shot_probe.few_shot)
transfer = with_scores(transfer_probe.transfer)

NAMES = ["dog", "bird", "fish", "car", "boat"]
PARTS = {"seen": ["dog", "bird", "car"], "held_out": ["fish", "boat"]}
PROBES = {
    "few_shot": partial(few_shot, shots=[1, 3], trials=3),
    "clustering": clustering,
    "transfer": partial(transfer, training=LinearTraining(epochs=30, learning_rate=0.1)),
}
every_probe = pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)


def images(*per_class, **more):
    return labelled_images(*(per_class or [10] * 5), classes=NAMES, **more)


def run(probe, model, data=None, **more):
    return probe(model, data or images(), Engine.for_tests(), **more)


class KnowsSomeClasses(Reader):
    """Gives an image of dog, bird and car its unit vector, and every other image the same one."""

    def encode_images(self, pixels):
        own = torch.tensor([0, 1, 3, 2, 3])[labels_in(pixels)]
        return one_hot(own, 4).float()


class CountsImages(KnowsSomeClasses):
    """Remembers the numbers of the images that it has seen."""

    def __init__(self):
        self.seen = []

    def encode_images(self, pixels):
        self.seen += numbers_in(pixels).tolist()
        return super().encode_images(pixels)


def scores(outcome, part):
    return [s for s in outcome.scores if s.at["categories"] == part]


def guessed(score):
    """Return what guessing scores: of images that were trained on, with shuffled labels."""
    return score.floors["shuffled_labels"] if score.chance is None else score.chance


@every_probe
def test_a_model_that_knows_the_seen_classes_alone_is_at_chance_on_the_held_out_ones(probe):
    outcome = run(probe, KnowsSomeClasses(), categories=PARTS)
    seen, held_out = (scores(outcome, part) for part in PARTS)
    assert [s.value for s in seen] == pytest.approx([1.0] * len(seen))
    assert [s.value for s in held_out] == pytest.approx([guessed(s) for s in held_out])


@every_probe
def test_a_part_scores_as_data_of_its_classes_alone(probe):
    data = images(6, 9, 12, 8, 10)
    model = PlantedFeatures(torch.randn(90, 6, generator=torch.Generator().manual_seed(0)))
    found = scores(run(probe, model, data, categories=PARTS), "held_out")
    alone = labelled_images(12, 10)
    # Numbers 15..26 and 35..44 of train, and the same of test, 45 further on.
    rows = [*range(15, 27), *range(35, 45)]
    planted = PlantedFeatures(model.features[[*rows, *(45 + i for i in rows)]])
    assert [(s.metric, s.value, s.n, s.chance, s.floors) for s in found] == [
        (s.metric, s.value, s.n, s.chance, s.floors) for s in run(probe, planted, alone).scores
    ]


@every_probe
def test_the_parts_share_the_features_of_each_image(probe):
    model = CountsImages()
    run(probe, model, categories=PARTS)
    # A few are passed again, to see that outputs depend on their own image alone, and each pass of
    # a part fills up its last batch.
    assert len(model.seen) < len(set(model.seen)) + 8 * REPEATED + 4 * 32
    assert set(range(50, 100)) <= set(model.seen)


@pytest.mark.parametrize(("part", "n", "most"), [("seen", 26, 20), ("held_out", 9, 6)])
def test_n_chance_and_floors_are_those_of_the_part(part, n, most):
    data = images(test=[20, 4, 3, 2, 6])
    (score, *_) = scores(run(transfer, ConstantModel(), data, categories=PARTS), part)
    floors = {"majority_class": most / n}
    assert (score.n, score.chance, score.floors) == (n, 1 / len(PARTS[part]), floors)


def test_counts_are_sums_but_n_is_left_to_the_primary_score():
    outcome = run(transfer, ConstantModel(), categories=PARTS)
    assert outcome.counts == {"ties": 50, "choices": 50}


def test_notes_say_of_which_part_they_are():
    notes = sorted(run(transfer, KnowsSomeClasses(), categories=PARTS).notes)
    assert notes[0].startswith("held_out: all test images have identical features,")
    assert [note.partition(":")[0] for note in notes[1:]] == ["seen", "seen"]
    assert "steps of Adam" in notes[1]


def test_conditions_of_the_probe_stand_beside_the_part():
    one = Outcome([Score("accuracy", 0.5, 2, {"shots": 2})])
    (score,) = in_parts(images(), {"a": ["dog", "car"]}, lambda _: one).scores
    assert [*score.at.items()] == [("categories", "a"), ("shots", 2)]


def test_labels_count_the_names_and_features_stay_shared():
    whole = images(1, 2, 3, 4, 5)
    part = of_classes(whole, ["boat", "bird"])
    assert labels(part.splits["test"]).tolist() == [1] * 2 + [0] * 5
    assert list(part.classes) == ["boat", "bird"]
    assert part.splits["test"]["image"].key == whole.splits["test"]["image"].key
    assert list(part.splits["test"]["image"].rows) == [1, 2, 10, 11, 12, 13, 14]


class NamesFishAndBoats(Reader):
    """A classifier of two classes: what is no fish is a boat."""

    def class_names(self):
        return ["fish", "boat"]

    def logits(self, pixels):
        # A fish has red 2, a boat 4, of 255.
        margin = pixels[:, 0, 0, 0] - 3 / 255
        return torch.stack([-margin, margin], 1)


@pytest.mark.parametrize("categories", [["fish", "boat"], ["boat", "fish"]])
def test_a_classifier_is_attacked_on_images_of_its_own_classes_alone_in_any_order(categories):
    options = {"epsilons": {"linf": [0, 0.5]}, "target_offset": 1, "sample": None}
    outcome = run(robustness, NamesFishAndBoats(), categories=categories, **options)
    clean, *successes = outcome.scores
    assert (clean.value, clean.n, clean.chance) == (1.0, 20, 0.5)
    assert [s.value for s in successes if s.metric == "success"] == [0.0, 1.0, 0.0, 1.0]
    assert outcome.counts["n"] == 20


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"a": ["dog", "bot"]}, "categories: no class is named 'bot'; did you mean boat?"),
        ({"a": ["dog", "car"], "b": ["fish", "dog"]}, "class 'dog' is named twice; name it once"),
        ({"a": ["dog", "car", "dog"]}, "class 'dog' is named twice"),
        ({"a": ["dog"]}, r"categories \['dog'\]: name 2 or more"),
    ],
)
def test_classes_that_make_no_problem_are_refused_before_anything_is_encoded(parts, message):
    model = CountsImages()
    with pytest.raises(ValueError, match=message):
        run(transfer, model, categories=parts)
    assert model.seen == []


@every_probe
def test_a_part_without_test_images_says_so(probe):
    with pytest.raises(TooFewRows, match="the test split has no image of fish, boat"):
        run(probe, ConstantModel(), images(test=[3, 3, 0, 3, 0]), categories=PARTS)
