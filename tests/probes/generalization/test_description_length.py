from dataclasses import replace
from math import log2

import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, ReadsTheLabel, labelled_images
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization.description_length import (
    OnlineCoding,
    description_length,
    train_probe,
)
from vlbench.probes.generalization.transfer import EQUAL_FEATURES_NOTE

FEW = {"percent": [5, 10, 20, 50, 100], "seeds": 2}


def probe(model, data, *, types=None, **coding):
    more = {"coding": OnlineCoding(**(FEW | coding)), "types": types}
    return description_length(model, data, Engine.for_tests(), **more)


def score_of(outcome, metric):
    (score,) = [s for s in outcome.scores if s.metric == metric]
    return score


def accuracies(outcome):
    return {s.at["train_images"]: s.value for s in outcome.scores if s.metric == "accuracy"}


def gaussian(n, d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d))).float()


def signal(data, noise=0.3, width=8):
    """Return features that hold the label linearly, among noise."""
    label = torch.tensor([x for s in data.splits.values() for x in s["label"]])
    features = noise * gaussian(len(label), width)
    features[torch.arange(len(label)), label] += 1
    return features


def with_types(data, types):
    """Return the data with these types of the train images, then of the test images."""
    n, splits = len(data.splits["train"]), {}
    for name, own in (("train", types[:n]), ("test", types[n:])):
        kinds = value_column([f"type {x}" for x in own])
        splits[name] = Split({**data.splits[name].columns, "type": kinds})
    return replace(data, splits=splits)


def test_a_linear_signal_is_coded_shorter_than_shuffled_labels_and_than_noise():
    data = labelled_images(60, 60, 60)
    found = score_of(probe(PlantedFeatures(signal(data)), data), "compression")
    noise = score_of(probe(PlantedFeatures(gaussian(360, 8)), data), "compression")
    assert found.value > 2
    assert noise.value < 1
    assert found.value > 2 * found.floors["shuffled_labels"]
    assert found.floors["class_frequencies"] == pytest.approx(1, abs=0.05)
    assert found.floors["class_frequencies"] == noise.floors["class_frequencies"]


def test_memorised_images_are_not_compressed():
    data = labelled_images(40, 40)
    model = PlantedFeatures(torch.eye(160))
    label = torch.tensor([*data.splits["train"]["label"]])
    fitted = train_probe(torch.eye(160)[:80], label, 2, 1.0)(torch.eye(160)[:80])
    assert (fitted.argmax(1) == label).all()
    assert score_of(probe(model, data), "compression").value <= 1.05


def test_accuracy_rises_to_that_of_the_planted_signal():
    data = labelled_images(100, 100, test=[150, 150])
    found = accuracies(probe(PlantedFeatures(signal(data, noise=1.0, width=20)), data))
    # Two classes whose means are sqrt(2) apart: Phi(.707) = .76 of images are on the right side.
    assert list(found) == [10, 20, 40, 100, 200]
    assert found[10] + 0.05 < found[200] == pytest.approx(0.76, abs=0.06)


def by_scikit_learn(x, y, points, classes):
    """Return probabilities of all classes, mixed with uniform ones as one image among n."""
    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.5, max_iter=1000).fit(scaler.transform(x), y)
    found = np.full((len(points), classes), 1 / classes)
    found[:, model.classes_] += len(x) * model.predict_proba(scaler.transform(points))
    return found / (len(x) + 1)


def test_code_and_accuracy_are_those_of_scikit_learn():
    data = labelled_images(12, 12, 12)
    features = signal(data, noise=1.0)
    x, test = features[:36].double().numpy(), features[36:].double().numpy()
    y = np.repeat([0, 1, 2], 12)
    order = np.random.default_rng(4).permutation(36)
    x, y, right = x[order], y[order], y
    first = by_scikit_learn(x[:18], y[:18], np.concatenate([x[18:], test]), 3)
    bits = 18 * log2(3) - np.log2(first[np.arange(18), y[18:]]).sum()
    last = by_scikit_learn(x, y, test, 3)
    outcome = probe(PlantedFeatures(features), data, c=0.5, percent=[50, 100], seed=4, seeds=1)
    assert score_of(outcome, "compression").value == pytest.approx(36 * log2(3) / bits, rel=1e-3)
    assert score_of(outcome, "bits_per_label").value == pytest.approx(bits / 36, rel=1e-3)
    means = [float((p.argmax(1) == right).mean()) for p in (first[18:], last)]
    assert accuracies(outcome) == pytest.approx({18: means[0], 36: means[1]})


def test_a_constant_model_codes_class_frequencies():
    outcome = probe(ConstantModel(), labelled_images(20, 60, 10))
    for score in outcome.scores[:2]:
        assert score.value == pytest.approx(score.floors["class_frequencies"], rel=1e-12)
    assert outcome.counts["ties"] == outcome.counts["choices"] > 0
    assert outcome.notes == [EQUAL_FEATURES_NOTE]


def test_classes_that_a_probe_has_not_seen_keep_some_probability():
    logs = train_probe(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 2]), 4, 1.0)
    found = logs(torch.tensor([[0.5]])).exp()
    # (n p + 1/4) / (n + 1): half the way, both known classes have p = .5.
    assert found.tolist() == [pytest.approx([1.25 / 3, 0.25 / 3, 1.25 / 3, 0.25 / 3], abs=1e-4)]
    one = train_probe(gaussian(3, 2), torch.tensor([1, 1, 1]), 2, 1.0)(gaussian(1, 2)).exp()
    assert one.tolist() == [pytest.approx([0.125, 0.875])]


def test_dimensions_constant_among_train_images_do_not_count():
    x, y = gaussian(40, 3), torch.arange(40) % 2
    more = torch.cat([x, torch.full((40, 1), 0.1)], 1)
    odd = torch.cat([x, torch.full((40, 1), 7.0)], 1)
    expected = train_probe(x, y, 2, 1.0)(x)
    assert train_probe(more, y, 2, 1.0)(odd).tolist() == expected.tolist()


def test_a_label_told_by_features_is_selective_and_one_told_by_the_type_is_not():
    # Types 0 to 29 in turn, of label type % 2.
    data = labelled_images(150, 150)
    label = np.array([x for s in data.splits.values() for x in s["label"]])
    types = 2 * (np.arange(600) % 15) + label
    typed = with_types(data, types.tolist())
    linear = score_of(probe(PlantedFeatures(signal(data)), typed, types="type"), "selectivity")
    by_type = PlantedFeatures(torch.eye(30)[torch.from_numpy(types)])
    memorised = score_of(probe(by_type, typed, types="type"), "selectivity")
    assert linear.value > 0.3
    assert (memorised.value, linear.chance, linear.n) == (0.0, 0.0, 300)


def test_images_of_types_without_train_images_are_not_in_selectivity():
    data = labelled_images(20, 20)
    typed = with_types(data, [i % 4 for i in range(40)] + [i % 5 for i in range(40)])
    score = score_of(probe(ReadsTheLabel(), typed, types="type"), "selectivity")
    assert (score.n, score.range) == (32, (-1.0, 1.0))


def test_types_that_train_and_test_images_do_not_share_are_too_few():
    typed = with_types(labelled_images(10, 10), [*range(40)])
    with pytest.raises(TooFewRows, match="0 types of 'type' in both train and test images;"):
        probe(ReadsTheLabel(), typed, types="type")


def test_each_score_says_what_it_takes_to_judge_it():
    outcome = probe(ReadsTheLabel(), labelled_images(40, 40, test=[30, 10]), seeds=3)
    compression, bits, *accuracy = outcome.scores
    assert (compression.unit, compression.n, bits.unit, bits.n) == ("ratio", 80, "bits", 80)
    assert bits.value == pytest.approx(1 / compression.value)
    assert (bits.higher_is_better, len(bits.draws), len(compression.draws)) == (False, 3, 3)
    assert compression.draws == pytest.approx([1 / value for value in bits.draws])  # of two classes
    assert all(s.ci95[0] < s.value < s.ci95[1] for s in (compression, bits))
    told = [(s.n, s.chance, s.floors) for s in accuracy]
    assert told == [(40, 0.5, {"majority_class": 0.75})] * 5


def test_too_few_images_for_two_blocks_say_how_many_it_takes():
    with pytest.raises(TooFewRows, match=r"3 train images in one block; 2 are needed; .* 8 rows"):
        probe(ReadsTheLabel(), labelled_images(2, 1), percent=[25, 100])
    with pytest.raises(TooFewRows, match=r"6 train images in one block; 2 are needed$"):
        probe(ReadsTheLabel(), labelled_images(3, 3), percent=[100])


def test_a_probe_that_did_not_converge_is_told(monkeypatch):
    monkeypatch.setattr("vlbench.probes.generalization.description_length.ITERATIONS", 1)
    data = labelled_images(20, 20)
    outcome = probe(PlantedFeatures(gaussian(80, 8)), data, percent=[50, 100], seeds=1)
    assert outcome.notes == ["3 probes had not converged after 1 iterations"]


def test_lengths_of_images_in_types_vary_by_type():
    data = labelled_images(90, 90)
    types = np.repeat(range(12), 15).tolist() * 2
    easy = torch.from_numpy(np.random.default_rng(1).permutation([0.0, 4.0] * 6))
    features = signal(data) * easy[torch.tensor(types)][:, None].float() + 0.3 * gaussian(360, 8)
    typed = with_types(data, types)
    by_type, by_image = (
        probe(PlantedFeatures(features), one, types=kind, seeds=1)
        for one, kind in ((typed, "type"), (data, None))
    )
    for metric in ("bits_per_label", "compression"):
        one, other = (score_of(found, metric) for found in (by_type, by_image))
        assert one.value == pytest.approx(other.value)
        assert one.stderr > 1.5 * other.stderr
    rows = [row for row in by_type.items.to_pylist() if row["metric"] == "bits_per_label"]
    assert {row["cluster"] for row in rows} == {f"type {i}" for i in range(12)}


def test_copies_of_noise_are_not_coded_shorter():
    data = labelled_images(40, 40, 40)
    column = data.splits["train"]["image"]
    copied = replace(column, digests=[str(row // 2) for row in column.rows])
    train = Split({**data.splits["train"].columns, "image": copied})
    data = replace(data, splits={**data.splits, "train": train})
    features = gaussian(60, 200, seed=3).repeat_interleave(2, 0)
    model = PlantedFeatures(torch.cat([features, gaussian(120, 200, seed=4)]))
    assert score_of(probe(model, data, seeds=4, c=0.01), "compression").value < 1
