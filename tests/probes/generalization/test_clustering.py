import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, ReadsTheLabel, labelled_images
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, confusion_matrix, normalized_mutual_info_score
from sklearn.metrics.pairwise import cosine_similarity

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.generalization import clustering as module
from vlbench.probes.generalization.clustering import clustering

ACCURACIES = ["accuracy", "accuracy_code_rule", "accuracy_hungarian"]


def probe(model, data, **params):
    return clustering(model, data, Engine.for_tests(), **params)


def by_metric(outcome):
    return {score.metric: score for score in outcome.scores}


def blobs(*per_class, spread=6.0):
    """Return data whose classes overlap, and the planted features of both splits."""
    data = labelled_images(*per_class)
    points, _ = make_blobs(
        list(per_class), n_features=8, cluster_std=spread, shuffle=False, random_state=0
    )
    features = torch.tensor(points, dtype=torch.float32)
    return data, torch.cat([torch.zeros_like(features), features])


def by_scikit_learn(features, k, seed):
    affinity = np.abs(cosine_similarity(features.double()))
    spectral = SpectralClustering(n_clusters=k, affinity="precomputed", random_state=seed)
    return spectral.fit_predict(affinity)


def test_a_model_that_reads_the_label_finds_every_class():
    outcome = probe(ReadsTheLabel(), labelled_images(12, 7, 9))
    assert [score.value for score in outcome.scores] == pytest.approx([1.0] * 5)


@pytest.mark.parametrize("counts", [(20, 20, 20), (40, 12, 8)])
@pytest.mark.parametrize("vector", [(0.3, -0.7, 0.1), (0.0, 0.0, 0.0)])
def test_a_constant_model_scores_chance_by_every_metric(counts, vector):
    outcome = probe(ConstantModel(vector), labelled_images(*counts))
    assert [s.value for s in outcome.scores] == pytest.approx([s.chance for s in outcome.scores])
    assert outcome.counts == {"n": 60, "ties": 60}
    assert outcome.notes == [module.PARALLEL_NOTE]


def test_a_constant_model_on_two_equal_classes_scores_little_above_one_half():
    # The larger share of a fair coin in 100 throws: 0.5 + 0.4 / sqrt(100)
    scores = by_metric(probe(ConstantModel(), labelled_images(50, 50)))
    assert scores["accuracy_hungarian"].value == pytest.approx(0.54, abs=0.01)


def test_the_clusters_are_scikit_learns():
    data, features = blobs(40, 30, 20)
    scores = by_metric(probe(PlantedFeatures(features), data, seed=3))
    truth, found = labels(data.splits["test"]), by_scikit_learn(features[90:], 3, 3)
    assert scores["adjusted_rand"].value == adjusted_rand_score(truth, found)
    information = scores["normalized_mutual_information"].value
    assert information == normalized_mutual_info_score(truth, found)


def test_accuracy_is_the_mean_of_the_diagonal_in_the_best_order():
    data, features = blobs(40, 30, 20)
    scores = by_metric(probe(PlantedFeatures(features), data))
    truth, found = labels(data.splits["test"]), by_scikit_learn(features[90:], 3, 0)
    table = confusion_matrix(truth, found)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    best = max(table[:, order].trace() for order in orders) / 90
    assert scores["accuracy_hungarian"].value == pytest.approx(best)
    assert best < 1


def test_two_runs_are_the_same():
    data, features = blobs(20, 20, spread=20.0)
    model = PlantedFeatures(features)
    assert probe(model, data, seed=1) == probe(model, data, seed=1)


def test_each_accuracy_has_the_floors_of_guessing():
    data, features = blobs(60, 30, 10)
    scores = by_metric(probe(PlantedFeatures(features), data))
    floors = [scores[metric].floors for metric in ACCURACIES]
    assert [floor["majority_class"] for floor in floors] == [0.6] * 3
    assert all(floor["shuffled_labels"] < scores["accuracy"].value for floor in floors)


def test_every_score_has_an_interval_around_it():
    data, features = blobs(60, 30, 30)
    for score in probe(PlantedFeatures(features), data).scores:
        assert score.ci95[0] < score.value < score.ci95[1]
        assert score.stderr > 0


def test_an_interval_of_an_index_narrows_with_the_images():
    few, many = (
        by_metric(probe(PlantedFeatures(features), data))["adjusted_rand"]
        for data, features in (blobs(20, 20, 20), blobs(180, 180, 180))
    )
    assert few.stderr / many.stderr == pytest.approx(3, rel=0.5)


def test_what_scikit_learn_warns_of_is_a_note():
    outcome = probe(ReadsTheLabel(), labelled_images(9, 9))
    assert any("Graph is not fully connected" in note for note in outcome.notes)


def test_fewer_images_than_classes_are_too_few():
    data = labelled_images(2, 2, 2, test=[1, 1, 0])
    with pytest.raises(TooFewRows, match="the test split has 2 images, 3 clusters asked"):
        probe(ReadsTheLabel(), data)


def test_as_many_images_as_classes_are_a_class_each():
    assert probe(ReadsTheLabel(), labelled_images(1, 1, 1)).scores[0].value == 1.0


@pytest.mark.parametrize(
    ("images", "free", "fits"),
    [(12_000, 0, True), (20_000, 15e9, True), (20_000, 13e9, False), (20_000, 2e9, False)],
)
def test_scikit_learns_path_is_taken_wherever_it_fits(images, free, fits):
    assert module.fits_sklearn(images, free) == fits


def test_what_fits_nowhere_says_what_is_needed_and_what_is_free():
    message = "clustering 26032 images needs 3.0 GB of memory, 1.5 GB are free"
    with pytest.raises(DataError, match=message):
        module.fits_sklearn(26_032, 1.5e9)


def test_little_memory_takes_the_float32_path_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 10)
    digits = torch.tensor(load_digits().data[:500], dtype=torch.float32)
    lean = module.cluster(digits, 10, seed=0, free=2e6)
    assert lean["notes"] == [module.FLOAT32_NOTE]
    assert lean["labels"].tolist() == by_scikit_learn(digits, 10, 0).tolist()


def test_the_float32_path_bears_an_image_without_any_neighbour():
    features = torch.eye(3).repeat_interleave(torch.tensor([5, 4, 1]), 0)
    found = module._by_float32(features, 3, 0)
    assert adjusted_rand_score([0] * 5 + [1] * 4 + [2], found) == 1.0


@pytest.mark.slow
def test_the_float32_path_gives_scikit_learns_labels_on_2000_images():
    points, _ = make_blobs(2000, n_features=64, centers=10, cluster_std=15.0, random_state=0)
    features = torch.tensor(points, dtype=torch.float32)
    lean = module._by_float32(features, 10, 0)
    assert lean.tolist() == by_scikit_learn(features, 10, 0).tolist()
