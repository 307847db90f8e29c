import numpy as np
import pytest
import torch
from fakes import PlantedFeatures, ReadsTheLabel, labelled_images, random_features
from scoring import with_scores
from sklearn.neighbors import KNeighborsClassifier

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization import knn as knn_probe

knn = with_scores(knn_probe.knn)


def probe(model, data, **params):
    return knn(model, data, Engine.for_tests(), **params)


def values(outcome):
    return {s.at["k"]: s.value for s in outcome.scores}


def by_scikit_learn(features, data, k, temperature):
    """Return the credit of each test image."""
    model = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=lambda far: np.exp((1 - far) / temperature)
    )
    first, (train, test) = len(data.splits["train"]), map(labels, data.splits.values())
    model.fit(features[:first].double().numpy(), train)
    return model.predict(features[first:].double().numpy()) == test


def test_a_model_that_reads_the_label_is_always_right():
    outcome = probe(ReadsTheLabel(), labelled_images(5, 4), k=[1, 3])
    assert values(outcome) == {1: 1.0, 3: 1.0}


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_each_answer_is_scikit_learns_on_random_features(temperature):
    data = labelled_images(30, 50, 40, test=[20, 20, 20])
    features = random_features(data)
    outcome = probe(PlantedFeatures(features), data, k=[1, 8, 120], temperature=temperature)
    credit = np.array(outcome.items["credit"]).reshape(3, 60)
    expected = [by_scikit_learn(features, data, k, temperature) for k in (1, 8, 120)]
    assert credit.tolist() == np.array(expected, float).tolist()
    assert [s.value for s in outcome.scores] == pytest.approx(credit.mean(1).tolist())


def test_a_near_image_outvotes_two_that_are_far_at_a_low_temperature():
    # Similarities 1 of class 0, and .6 twice of class 1: exp(.4 / T) against 2, equal at T = .577.
    train, test = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]]), torch.tensor([[1.0, 0.0]])
    model, data = PlantedFeatures(train, test), labelled_images(1, 2, test=[1, 0])
    cold, warm = (values(probe(model, data, k=[3], temperature=t)) for t in (0.5, 0.6))
    assert (cold, warm) == ({3: 1.0}, {3: 0.0})


def test_train_images_tied_for_the_last_place_share_it():
    # The nearest is of class 1. Four tie for the second place, three of them of class 0: each class
    # gets .75 and .25 of a vote, so that with the nearest class 1 wins whatever the order of rows.
    test = torch.tensor([[1.0, 0.0]])
    train = torch.tensor([[0.6, 0.8], [0.6, -0.8], [0.6, 0.8], [0.6, -0.8], [0.8, 0.6]])
    model, data = PlantedFeatures(train, test), labelled_images(3, 2, test=[0, 1])
    assert values(probe(model, data, k=[2], temperature=100.0)) == {2: 1.0}
    # Of three places, these get 1.5 and .5 votes: both classes have 1.5.
    outcome = probe(model, data, k=[3], temperature=1e6)
    assert (values(outcome), outcome.counts["ties"]) == ({3: 0.5}, 1)


@pytest.mark.parametrize("counts", [(25, 16), (15, 26)])
def test_of_many_tied_train_images_none_is_left_out(counts):
    # Forty tie for the nearest. The last one, of class 1, is another.
    train = torch.tensor([[1.0, 0.0]] * 40 + [[0.0, 1.0]])
    test = torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 1.0]])
    outcome = probe(PlantedFeatures(train, test), labelled_images(*counts, test=[2, 1]), k=[1])
    of_ties = float(counts[0] > counts[1])
    assert outcome.items["credit"].to_pylist() == [of_ties, of_ties, 1.0]


def test_the_order_of_train_images_does_not_matter():
    base = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    train = base.repeat(2, 1)
    test = torch.randn(10, 4, generator=torch.Generator().manual_seed(4))
    data = labelled_images(6, 6, test=[5, 5])
    # The same vectors in both classes: every test image is tied.
    assert values(probe(PlantedFeatures(train, test), data, k=[1, 3])) == {1: 0.5, 3: 0.5}


def test_the_length_of_a_feature_does_not_matter():
    data = labelled_images(20, 20, 20)
    features = random_features(data)
    found = values(probe(PlantedFeatures(features * 2.0**-40), data, k=[5]))
    assert found == values(probe(PlantedFeatures(features), data, k=[5]))


def test_a_large_test_set_is_judged_in_blocks_alike(monkeypatch):
    data = labelled_images(10, 10, 10)
    model = PlantedFeatures(random_features(data))
    whole = probe(model, data, k=[1, 4])
    monkeypatch.setattr("vlbench.probes.generalization.knn.BLOCK", 70)
    assert probe(model, data, k=[1, 4]) == whole


def test_each_score_says_what_it_takes_to_judge_it():
    (score,) = probe(ReadsTheLabel(), labelled_images(5, 5, test=[3, 7]), k=[2]).scores
    assert (score.metric, score.at, score.n) == ("accuracy", {"k": 2}, 10)
    assert (score.chance, score.floors) == (0.5, {"majority_class": 0.7})
    assert score.ci95 == pytest.approx((0.72247, 1.0), abs=1e-5)


def test_more_neighbours_than_train_images_are_too_many():
    with pytest.raises(TooFewRows, match=r"7 train images for the 9 nearest \(k 9\); .* 9 rows"):
        probe(ReadsTheLabel(), labelled_images(3, 4), k=[1, 9])


@pytest.mark.parametrize("params", [{"k": []}, {"k": [0, 1]}, {"k": [1], "temperature": 0.0}])
def test_no_neighbours_and_no_temperature_are_refused(params):
    with pytest.raises(ValueError, match=r"each k must be 1 or more, and the temperature above 0"):
        probe(ReadsTheLabel(), labelled_images(2, 2), **params)
