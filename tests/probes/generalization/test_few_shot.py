import numpy as np
import pytest
import torch
from fakes import (
    ConstantModel,
    PlantedFeatures,
    ReadsTheLabel,
    labelled_images,
    numbers_in,
    random_features,
)
from scoring import with_scores
from sklearn.neighbors import NearestCentroid

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization import few_shot as few_shot_probe

few_shot = with_scores(few_shot_probe.few_shot)

RULES = ["accuracy", "accuracy_cosine", "accuracy_euclidean"]


def probe(model, data, **params):
    return few_shot(model, data, Engine.for_tests(), **params)


def values(outcome):
    return {(s.metric, s.at["shots"]): s.value for s in outcome.scores}


def test_a_model_that_reads_the_label_is_always_right():
    outcome = probe(ReadsTheLabel(), labelled_images(5, 4), shots=[1, 3])
    assert values(outcome) == {(rule, n): 1.0 for n in (1, 3) for rule in RULES}


def test_dot_product_cosine_and_distance_disagree_where_a_mean_is_short():
    # Means: (1, 0), and (0, 0.6) of two that point apart. The test images are of the second class.
    #                       by dot product   by cosine          by squared distance
    # (0.6, 0.8)            0.6 > 0.48       0.6 < 0.8          0.8 > 0.4
    # (0.8, 0.6)            0.8 > 0.36       0.8 > 0.6          0.4 < 0.64
    # (0.72, 0.694)         0.72 > 0.416     0.72 > 0.694       0.56 > 0.527
    train = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [-0.8, 0.6]])
    test = torch.tensor([[0.6, 0.8], [0.8, 0.6], [0.72, 0.694]])
    model, data = PlantedFeatures(train, test), labelled_images(2, 2, test=[0, 3])
    found = values(probe(model, data, shots=[2], trials=2))
    right = dict(zip(RULES, (0, 1 / 3, 2 / 3), strict=True))
    assert found == pytest.approx({(rule, 2): share for rule, share in right.items()})


def test_the_rules_are_those_of_numpy_on_random_features():
    data = labelled_images(20, 30, 25)
    features = random_features(data)
    outcome = probe(PlantedFeatures(features), data, shots=[1, 4], trials=3, seed=7)
    assert values(outcome) == by_numpy(features.numpy(), data, [1, 4], 3, 7)


def by_numpy(features, data, shots, trials, seed):
    """Return the accuracies with loops over classes, in float64."""
    label = labels(data.splits["train"])
    right = labels(data.splits["test"])
    unit = features.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    n_classes = len(data.classes)
    hits = {(rule, n): 0 for n in shots for rule in RULES}
    for _ in range(trials):
        order = rng.permutation(len(label))
        for n in shots:
            chosen = [[i for i in order if label[i] == c][:n] for c in range(n_classes)]
            means = np.stack([unit[rows].mean(0) for rows in chosen])
            queries = unit[len(label) :]
            dots = queries @ means.T
            distances = np.linalg.norm(queries[:, None] - means, axis=2)
            ranked = [dots, dots / np.linalg.norm(means, axis=1), -distances]
            for rule, scores in zip(RULES, ranked, strict=True):
                hits[rule, n] += (scores.argmax(1) == right).sum()
    return {key: count / (trials * len(right)) for key, count in hits.items()}


def test_euclidean_with_all_images_is_scikit_learns_nearest_centroid():
    data = labelled_images(20, 20, test=[30, 30])
    features = random_features(data)
    unit = torch.nn.functional.normalize(features).numpy()
    model = NearestCentroid().fit(unit[:40], labels(data.splits["train"]))
    found = values(probe(PlantedFeatures(features), data, shots=[20], trials=1))
    expected = model.score(unit[40:], labels(data.splits["test"]))
    assert found["accuracy_euclidean", 20] == expected


def test_more_shots_than_asked_alone_draw_the_same_examples():
    data = labelled_images(9, 9)
    model = PlantedFeatures(random_features(data))
    both = values(probe(model, data, shots=[2, 6]))
    assert values(probe(model, data, shots=[2])).items() <= both.items()


class CountsImages(PlantedFeatures):
    """Remembers the numbers of the images that it has seen."""

    def __init__(self, features):
        super().__init__(features)
        self.seen = []

    def encode_images(self, pixels):
        self.seen += numbers_in(pixels).tolist()
        return super().encode_images(pixels)


def test_only_train_images_that_a_trial_draws_pass_through_the_model():
    data = labelled_images(90, 120, test=[4, 6])
    model = CountsImages(random_features(data))
    outcome = probe(model, data, shots=[1, 3], trials=2, seed=5)
    rng, label = np.random.default_rng(5), labels(data.splits["train"])
    orders = [rng.permutation(210) for _ in range(2)]
    drawn = {i for order in orders for c in (0, 1) for i in order[label[order] == c][:3].tolist()}
    assert sorted(set(model.seen)) == sorted(drawn) + list(range(210, 220))
    assert values(outcome) == by_numpy(model.features.numpy(), data, [1, 3], 2, 5)


def test_another_seed_draws_other_examples():
    data = labelled_images(30, 30)
    model = PlantedFeatures(random_features(data))
    draws = [probe(model, data, shots=[1], seed=seed).scores[0].draws for seed in (0, 0, 1)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_a_large_test_set_is_judged_in_blocks_alike(monkeypatch):
    data = labelled_images(10, 10, 10)
    model = PlantedFeatures(random_features(data))
    whole = probe(model, data, shots=[2])
    monkeypatch.setattr("vlbench.probes.generalization.few_shot.BLOCK", 12)
    assert probe(model, data, shots=[2]) == whole


def test_each_score_says_what_it_takes_to_judge_it():
    data = labelled_images(5, 5, test=[3, 7])
    score = probe(ReadsTheLabel(), data, shots=[2], trials=3).scores[0]
    assert (score.n, score.chance, score.floors) == (10, 0.5, {"majority_class": 0.7})
    assert score.draws == [1.0] * 3
    # A constant model's interval is Wilson's, not a point.
    (score, *_) = probe(ConstantModel(), labelled_images(50, 50), shots=[1]).scores
    assert score.stderr == pytest.approx(0.05)
    assert score.ci95 == pytest.approx((0.40383, 0.59617), abs=1e-5)


def test_too_few_examples_name_the_class():
    data = labelled_images(5, 3, classes=["dog", "cat"])
    with pytest.raises(TooFewRows, match="class 'cat' has 3 examples, 5 shots asked"):
        probe(ReadsTheLabel(), data, shots=[1, 5])


@pytest.mark.parametrize("params", [{"shots": []}, {"shots": [0, 1]}, {"shots": [1], "trials": 0}])
def test_nothing_to_draw_is_refused(params):
    with pytest.raises(ValueError, match=r"shots .* and trials .*: all must be 1 or more"):
        probe(ReadsTheLabel(), labelled_images(2, 2), **params)


@pytest.mark.parametrize("lengths", [2.0**-49, 2.0**46, torch.logspace(-12, 12, 120)[:, None]])
def test_the_length_of_a_feature_does_not_matter(lengths):
    data = labelled_images(20, 20, 20)
    features = random_features(data) * lengths
    found = values(probe(PlantedFeatures(features), data, shots=[2], trials=3, seed=5))
    assert found == by_numpy(features.double().numpy(), data, [2], 3, 5)
