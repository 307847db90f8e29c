"""A classifier that is always right scores 1 whatever the order of its outputs, or is refused."""

import pytest
import torch
from fakes import ReadsTheLabel, labelled_images
from scoring import with_scores

from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.probes.generalization import classification as classification_probe
from vlbench.probes.generalization.robustness import robustness

classification = with_scores(classification_probe.classification)

# As folders are read, by their text, and in their order as numbers.
AS_TEXT = ["0", "1", "10", "11", *"23456789"]
BY_VALUE = [str(i) for i in range(12)]
ANIMALS = ["bird", "cat", "dog"]


class AlwaysRight:
    """Has the highest logit at its own output for the class of an image of `labelled_images`."""

    def __init__(self, names, place_of, order=""):
        self.names, self.places, self.class_order = names, place_of, order
        self.encoder = ReadsTheLabel(len(place_of))
        self.preprocess = self.encoder.preprocess

    def class_names(self):
        if self.names is None:
            raise CannotDo("nobody knows")
        return self.names

    def logits(self, pixels):
        by_class = self.encoder.encode_images(pixels)
        # A gradient that is there, for an attack of nothing.
        nothing = 0 * pixels.mean((1, 2, 3))[:, None] + torch.zeros_like(by_class)
        return nothing.index_copy(1, torch.tensor(self.places), by_class)


def data_of(classes, order=""):
    found = labelled_images(*[2] * len(classes), classes=classes)
    return Data(splits=found.splits, classes=classes, class_order=order)


def by_classification(model, data, **options):
    outcome = classification(model, data, Engine.for_tests(), **options)
    return outcome.scores[0].value, outcome.notes


def by_robustness(model, data, **options):
    attack = {"epsilons": {"linf": [0]}, "target_offset": 1, "sample": None}
    outcome = robustness(model, data, Engine.for_tests(), **attack, **options)
    return outcome.scores[0].value, outcome.notes


both = pytest.mark.parametrize("accuracy", [by_classification, by_robustness])


@both
@pytest.mark.parametrize(
    ("classes", "names", "places"),
    [
        (ANIMALS, ["dog", "cat", "bird"], [2, 1, 0]),
        (ANIMALS, ["Dog", "a, bird", "domestic_cat, CAT"], [1, 2, 0]),
        (["sea lion, seal", "tench", "seal"], ["seal", "sea-lion", "tench, Tinca"], [1, 2, 0]),
        (["bird", "chat", "Hund"], ["Hund", "chat", "oiseau, bird"], [2, 1, 0]),
    ],
)
def test_names_are_paired_by_name(accuracy, classes, names, places):
    value, notes = accuracy(AlwaysRight(names, places), data_of(classes))
    assert value == 1
    assert "outputs and classes are paired by name, not by position" in notes


@both
@pytest.mark.parametrize("names", [BY_VALUE, [f"{i:02}" for i in range(12)]])
def test_numbers_are_paired_by_value(accuracy, names):
    value, notes = accuracy(AlwaysRight(names, list(map(int, AS_TEXT))), data_of(AS_TEXT))
    assert value == 1
    assert "outputs and classes are paired by value, not by position" in notes


@both
def test_a_model_and_data_of_one_published_order_are_paired_by_place(accuracy):
    cranes = ["crane", "crane", "heron"]
    model = AlwaysRight(None, [0, 1, 2], "imagenet")
    value, notes = accuracy(model, data_of(cranes, "imagenet"))
    assert value == 1
    assert "outputs and classes are paired by position: both have imagenet's order" in notes


@both
@pytest.mark.parametrize("names", [None, [f"name {i}" for i in range(12)], ["LABEL_0"] * 12])
def test_classes_are_numbers_of_outputs_where_the_task_says_so(accuracy, names):
    model = AlwaysRight(names, list(map(int, AS_TEXT)))
    value, notes = accuracy(model, data_of(AS_TEXT, "output numbers"))
    assert value == 1
    assert "outputs and classes are paired by numbers of outputs, not by position" in notes


@both
@pytest.mark.parametrize(
    ("names", "classes", "message"),
    [
        (None, ANIMALS, r"nobody knows; give .* classes=FILE"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], ANIMALS, "only the names 'LABEL_0' and so on"),
        (ANIMALS, ["0", "1", "2"], "3 of 3 .* of the model 'bird', 'cat', 'dog'; of the data '0'"),
        (["0", "1", "2"], ANIMALS, r"class_numbers_are_outputs: true"),
        (["0", "1", "3"], ["0", "1", "2"], "of the model '3'; of the data '2'"),
        (["crane", "crane", "cat"], ["crane", "crane ", "cat"], "2 of 3 .*'crane', 'crane'; "),
        (["cat, dog", "eel", "fox"], ["cat", "dog", "eel"], r"'cat, dog', 'fox'; .* 'cat', 'dog'"),
        (["a", "b", "c", "d", "e"], [*"vwxyz"], "'a', 'b', 'c' and 2 more"),
        ([*"abcd"], ANIMALS, "own classifier has 4 classes, but the data have 3"),
    ],
)
def test_anything_else_is_refused_with_what_has_no_partner(accuracy, names, classes, message):
    model = AlwaysRight(names, list(range(len(names or classes))))
    with pytest.raises(CannotDo, match=message):
        accuracy(model, data_of(classes))


def test_another_order_is_paired_by_name_and_another_number_of_names_is_the_models_fault():
    model = AlwaysRight(["dog", "cat", "bird"], [2, 1, 0], "imagenet")
    assert by_classification(model, data_of(ANIMALS))[0] == 1
    with pytest.raises(ValueError, match="2 class names for 3 logits"):
        by_classification(AlwaysRight(["a", "b"], [0, 1, 2]), data_of(ANIMALS))
