import pytest
import torch
from fakes import PlantedFeatures, ReadsTheLabel, labelled_images
from scoring import with_scores
from sklearn.metrics import recall_score, top_k_accuracy_score

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.probes.generalization import classification as classification_probe

classification = with_scores(classification_probe.classification)

PER_CLASS = [3, 7, 5, 2, 4, 9, 1]


class Classifies:
    """Takes the vector of a fake encoder for logits."""

    def __init__(self, encoder, names):
        self.encoder, self.names = encoder, names
        self.preprocess = encoder.preprocess

    def logits(self, pixels):
        return self.encoder.encode_images(pixels)

    def class_names(self):
        return self.names


def run(encoder, *, per_class=PER_CLASS, **options):
    data = labelled_images(*per_class)
    model = Classifies(encoder, options.get("categories") or list(data.classes))
    return classification(model, data, Engine.for_tests(), **options)


def values(outcome, metric):
    return {tuple(s.at.values()): s.value for s in outcome.scores if s.metric == metric}


def test_scores_are_those_of_scikit_learn():
    total = 2 * sum(PER_CLASS)
    logits = torch.randn(total, len(PER_CLASS), generator=torch.Generator().manual_seed(1))
    outcome = run(PlantedFeatures(logits))
    right, shown = labels(labelled_images(*PER_CLASS).splits["test"]), logits[total // 2 :].numpy()
    every = list(range(len(PER_CLASS)))
    for metric, k in (("accuracy", 1), ("accuracy_top5", 5)):
        expected = top_k_accuracy_score(right, shown, k=k, labels=every)
        assert values(outcome, metric)[()] == pytest.approx(expected)
    recalls = recall_score(right, shown.argmax(1), average=None, labels=every)
    assert list(values(outcome, "class_accuracy").values()) == pytest.approx(recalls.tolist())
    assert values(outcome, "class_accuracy").keys() == {(f"class {i}",) for i in every}


def test_one_that_knows_the_classes_is_always_right():
    outcome = run(ReadsTheLabel(len(PER_CLASS)))
    assert {score.value for score in outcome.scores} == {1.0}
    floor = max(PER_CLASS) / sum(PER_CLASS)
    assert outcome.scores[0].floors == {"majority_class": pytest.approx(floor)}


def test_five_guesses_at_five_classes_are_no_score():
    outcome = run(ReadsTheLabel(5), per_class=[2] * 5)
    assert {score.metric for score in outcome.scores} == {"accuracy", "class_accuracy"}


def test_images_of_some_categories_alone_are_classified():
    outcome = run(ReadsTheLabel(3), categories=["class 0", "class 1", "class 2"])
    assert outcome.counts["n"] == sum(PER_CLASS[:3])
    assert outcome.scores[0].value == 1
