import os
import subprocess
import sys
import warnings
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, ReadsTheLabel, labelled_images
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import (
    adjusted_rand_score,
    confusion_matrix,
    normalized_mutual_info_score,
)
from sklearn.metrics.pairwise import cosine_similarity

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.metrics.intervals import wilson
from vlbench.probes.generalization import clustering as module
from vlbench.probes.generalization.clustering import (
    clustering,
    code_rule,
    draw_halves,
    greedy,
    hungarian,
    items_right,
    overlaps,
    values_of,
)

ACCURACIES = ["accuracy", "accuracy_paper_code", "accuracy_hungarian"]
INDICES = {
    "adjusted_rand": adjusted_rand_score,
    "normalized_mutual_information": normalized_mutual_info_score,
}


def probe(model, data, **params):
    return clustering(model, data, Engine.for_tests(), **params)


def by_metric(outcome):
    return {score.metric: score for score in outcome.scores}


@pytest.mark.parametrize(
    ("clusters", "label"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([0, 1, 2, 3], [3, 2, 1, 0]),
        ([0, 0, 0, 0], [0, 1, 2, 3]),
        ([0, 0, 1, 1], [0, 1, 0, 1]),
        ([0], [2]),
        (*np.random.default_rng(0).integers(4, size=(2, 5_000)),),
    ],
)
def test_both_indices_are_scikit_learns(clusters, label):
    expected = [index(label, clusters) for index in INDICES.values()]
    found = values_of(np.array(clusters), np.array(label), 4)[3:]
    assert [*found] == pytest.approx(expected, abs=1e-12)


def blobs(*per_class):
    """Return data whose classes overlap, and the planted features of both splits."""
    data = labelled_images(*per_class)
    drawn = {"n_features": 8, "cluster_std": 6.0, "shuffle": False, "random_state": 0}
    points, _ = make_blobs(list(per_class), **drawn)
    features = torch.tensor(points, dtype=torch.float32)
    return data, torch.cat([torch.zeros_like(features), features])


def by_scikit_learn(features, k, seed):
    affinity = np.abs(cosine_similarity(features.double()))
    spectral = SpectralClustering(n_clusters=k, affinity="precomputed", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of graphs that are not connected
        return spectral.fit_predict(affinity)


def test_a_model_that_reads_the_label_finds_every_class():
    outcome = probe(ReadsTheLabel(), labelled_images(12, 7, 9))
    assert [score.value for score in outcome.scores] == pytest.approx([1.0] * 5)


def test_a_constant_model_on_two_equal_classes_scores_little_above_one_half():
    # The larger share of a fair coin in 100 throws: 0.5 + 0.4 / sqrt(100)
    scores = by_metric(probe(ConstantModel(), labelled_images(50, 50)))
    assert scores["accuracy_hungarian"].value == pytest.approx(0.54, abs=0.01)


def test_the_clusters_are_scikit_learns():
    data, features = blobs(40, 30, 20)
    scores = by_metric(probe(PlantedFeatures(features), data, seed=3))
    truth, found = labels(data.splits["test"]), by_scikit_learn(features[90:], 3, 3)
    for metric, index in INDICES.items():
        assert scores[metric].value == pytest.approx(index(truth, found), abs=1e-12)


def test_accuracy_is_the_mean_of_the_diagonal_in_the_best_order():
    data, features = blobs(40, 30, 20)
    scores = by_metric(probe(PlantedFeatures(features), data))
    truth, found = labels(data.splits["test"]), by_scikit_learn(features[90:], 3, 0)
    table = confusion_matrix(truth, found)
    best = max(table[:, order].trace() for order in permutations(range(3))) / 90
    assert scores["accuracy_hungarian"].value == pytest.approx(best)
    assert best < 1


def test_every_score_has_an_interval_around_it_and_accuracies_the_floors_of_guessing():
    data, features = blobs(60, 30, 10)
    outcome = probe(PlantedFeatures(features), data)
    for score in outcome.scores:
        assert score.ci95[0] < score.value < score.ci95[1]
        assert score.stderr > 0
    scores = by_metric(outcome)
    floors = [scores[metric].floors for metric in ACCURACIES]
    assert [floor["majority_class"] for floor in floors] == [0.6] * 3
    assert all(floor["shuffled_labels"] < scores["accuracy"].value for floor in floors)


def test_fewer_images_than_classes_are_too_few_and_as_many_are_a_class_each():
    data = labelled_images(2, 2, 2, test=[1, 1, 0])
    with pytest.raises(TooFewRows, match="the test split has 2 images, fewer than 3 clusters"):
        probe(ReadsTheLabel(), data)
    assert probe(ReadsTheLabel(), labelled_images(1, 1, 1)).scores[0].value == 1.0


def test_what_does_not_fit_says_what_is_needed_and_what_is_free(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1.5e9))
    message = "clustering 26032 images needs 2.7 GB of memory, 1.5 GB are free"
    with pytest.raises(DataError, match=message):
        module.cluster(torch.ones(26_032, 1), 10, seed=0)


def noise(rng):
    return rng.normal(size=(500, 64))


def near_duplicates(rng):
    return rng.normal(size=(20, 32))[rng.integers(20, size=400)] + 1e-4 * rng.normal(size=(400, 32))


def nearly_constant(rng):
    return 1 + 1e-3 * rng.normal(size=(400, 16))


def random_network(rng):
    hidden = np.maximum(load_digits().data[:600] @ rng.normal(size=(64, 128)), 0)
    return hidden @ rng.normal(size=(128, 32))


# In float32 the eigenvectors of noise and of many clusters are others.
@pytest.mark.parametrize(
    ("draw", "k"),
    [(noise, 10), (near_duplicates, 30), (nearly_constant, 10), (random_network, 50)],
)
def test_labels_are_scikit_learns_where_eigenvalues_are_close(draw, k):
    features = torch.tensor(draw(np.random.default_rng(0)), dtype=torch.float32)
    found = module.cluster(features, k, seed=0)["labels"]
    assert adjusted_rand_score(found, by_scikit_learn(features, k, 0)) == 1.0


# The last class of each has no image like its own: an eigenvalue of zero among the largest.
@pytest.mark.parametrize("counts", [(5, 4, 1), (500, 400, 1), (50, 40, 30, 1, 1), (200,) * 10])
def test_parts_of_a_graph_without_a_link_are_clusters(counts):
    classes = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    found = module.cluster(torch.eye(len(counts))[classes], len(counts), seed=0)
    assert adjusted_rand_score(classes, found["labels"]) == 1.0
    assert found["notes"] == [module.DISCONNECTED_NOTE]


def test_images_without_a_feature_are_scikit_learns_too():
    features = torch.tensor(load_digits().data[:300], dtype=torch.float32)
    features[:3] = 0
    found = module.cluster(features, 10, seed=0)
    assert adjusted_rand_score(found["labels"], by_scikit_learn(features, 10, 0)) == 1.0
    assert found["notes"] == [module.DISCONNECTED_NOTE]


def test_fewer_distinct_images_than_clusters_are_nearly_scikit_learns():
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal(size=(20, 32))[rng.integers(20, size=400)])
    found = module.cluster(features.float(), 30, seed=0)["labels"]
    assert adjusted_rand_score(found, by_scikit_learn(features.float(), 30, 0)) > 0.9


@pytest.mark.parametrize(
    ("images", "width", "k", "expected"),
    [
        # 8 bytes of 50,000 x 50,064 / 2 pairs, 50,000 x (2,001 + 2 x 1,000) and 2,001 x 2,001.
        (50_000, 512, 1_000, 10_012_800_000 + 1_600_400_000 + 32_032_008),
        # The features are larger than 41 vectors: 8 bytes of 20,000 x 2,048, and of 21 x 21.
        (20_000, 2_048, 10, 1_605_120_000 + 327_680_000 + 3_528),
        # At least 20 vectors of ARPACK, and 2 x 4 others, but no more than there are images.
        (100, 1, 4, 65_600 + 22_400 + 3_200),
        (10, 1, 7, 2_960 + 1_920 + 800),
    ],
)
def test_the_memory_is_that_of_the_pairs_and_of_what_stands_beside_them(images, width, k, expected):
    assert module.peak_bytes(images, width, k) == expected


PEAK = """
import torch
from pathlib import Path
from vlbench.probes.generalization.clustering import cluster, peak_bytes
torch.set_num_threads(1)

# Not ru_maxrss: that may be the peak of the program that started this one.
status = Path("/proc/self/status")
peak = lambda: int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
cluster(torch.eye(4).repeat(50, 1), 4, seed=0)
before = peak()
for images, k in ((1_000, 150), (4_000, 4)):
    cluster(torch.randn(images, 64, generator=torch.Generator().manual_seed(0)), k, seed=0)
    print((peak() - before) / peak_bytes(images, 64, k))
"""


@pytest.mark.nightly
def test_the_memory_is_the_peak_of_a_process():
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    grown = subprocess.check_output([sys.executable, "-c", PEAK], env=env, text=True).split()
    assert [float(one) for one in grown] == pytest.approx([1, 1], abs=0.15)


def test_overlaps_count_clusters_in_rows_and_classes_in_columns():
    found = overlaps(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 1]), 3)
    assert found.tolist() == [[0, 2, 0], [1, 0, 0], [0, 1, 0]]


# Greedy: 9 at (0, 0), 7 at (2, 2), 2 at (1, 1). Code: classes 0 and 1 both take cluster 0, which
# goes to class 1 (8); class 2 takes cluster 2 (7); cluster 1 falls to class 0 (0).
# Best: 8 at (0, 1), 5 at (1, 2), 6 at (2, 0).
@pytest.mark.parametrize(
    ("rule", "classes", "right"),
    [(greedy, [0, 1, 2], 18), (code_rule, [1, 0, 2], 15), (hungarian, [1, 2, 0], 19)],
)
def test_each_rule_on_a_table_worked_by_hand(rule, classes, right):
    counts = np.array([[9, 8, 0], [0, 2, 5], [6, 0, 7]])
    assert rule(counts).tolist() == classes
    assert items_right(counts, rule(counts)) == right


# Greedy: 2 at (0, 0), then 0 at (1, 1). Code: both classes take cluster 0, which goes to class 1
# (2); cluster 1 falls to class 0 (2).
@pytest.mark.parametrize(("rule", "right"), [(greedy, 2), (code_rule, 4), (hungarian, 4)])
def test_of_equal_overlaps_the_lower_cluster_then_the_lower_class_goes_first(rule, right):
    counts = np.array([[2, 2], [2, 0]])
    assert items_right(counts, rule(counts)) == right


@pytest.mark.parametrize("rule", [greedy, code_rule, hungarian])
def test_clusters_that_are_the_classes_in_another_order_are_all_right(rule):
    counts = np.array([[0, 4, 0], [0, 0, 2], [7, 0, 0]])
    assert items_right(counts, rule(counts)) == 13


@pytest.mark.parametrize("rule", [greedy, hungarian])
def test_one_cluster_for_everything_gets_the_largest_class(rule):
    counts = np.array([[0, 0, 0], [3, 5, 1], [0, 0, 0]])
    assert items_right(counts, rule(counts)) == 5


def test_a_cluster_that_overlaps_no_class_that_is_left_has_none():
    assert greedy(np.array([[2, 0], [1, 0]])).tolist() == [0, -1]


def test_the_error_is_that_of_halves_that_are_clustered_anew():
    data, features = blobs(40, 30, 20)
    score = by_metric(probe(PlantedFeatures(features), data, seed=3))["adjusted_rand"]
    test = data.splits["test"]
    halves, truth = draw_halves(test["image"].examples().ids, 3), labels(test)
    assert (halves.shape, {len(set(half)) for half in halves.tolist()}) == ((20, 45), {45})
    clusters = [by_scikit_learn(features[90:][half], 3, 3) for half in halves]
    drawn = [adjusted_rand_score(truth[h], c) for h, c in zip(halves, clusters, strict=True)]
    assert score.halves == pytest.approx(drawn)
    assert score.stderr == pytest.approx(np.std(drawn, ddof=1))
    assert score.ci95[1] == pytest.approx(score.value + 2.093024 * score.stderr)


def test_accuracies_have_wilsons_interval_of_as_many_items_as_vary_so_much():
    data, features = blobs(60, 30, 30)
    score = by_metric(probe(PlantedFeatures(features), data))["accuracy"]
    variance = np.var(score.halves, ddof=1)
    t, n = 2.093024, score.value * (1 - score.value) / variance
    half = t / (1 + t**2 / n) * np.sqrt(variance + t**2 / (4 * n**2))
    assert score.stderr == pytest.approx(np.sqrt(variance))
    assert score.ci95[1] - score.ci95[0] == pytest.approx(2 * half)


def test_halves_are_those_of_the_ids_in_any_order():
    ids = [f"{i:02}" for i in range(30)]
    turned = ids[::-1]
    first, other = draw_halves(ids, 0), draw_halves(turned, 0)
    assert [[ids[i] for i in half] for half in first] == [[turned[i] for i in h] for h in other]
    assert not np.array_equal(first, draw_halves(ids, 1))


def test_images_that_make_no_halves_leave_the_clusters_as_they_are_and_say_so():
    outcome = probe(ReadsTheLabel(), labelled_images(2, 2, 1))
    assert outcome.notes[-1] == module.FEW_NOTE
    scores = by_metric(outcome)
    assert scores["accuracy"].ci95 == wilson(5, 5).ci95
    assert scores["adjusted_rand"].ci95 is None
