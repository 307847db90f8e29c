"""What no probe of labelled images may score: one class, and numbers that are none."""

import numpy as np
import pytest
import torch

import vlbench
from vlbench.metrics.ranking import all_equal, all_parallel
from vlbench.metrics.representation_similarity import cka_debiased, mutual_knn
from vlbench.probes.generalization.classification import classification
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.description_length import description_length, train_probe
from vlbench.probes.generalization.few_shot import few_shot
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.robustness import robustness
from vlbench.probes.generalization.transfer import transfer
from vlbench.probes.generalization.zero_shot import zero_shot

PROBES = {
    few_shot: {"shots": [1]},
    knn: {"k": [1]},
    transfer: {},
    clustering: {},
    classification: {},
    description_length: {},
    robustness: {"epsilons": {"linf": [0.1]}, "target_offset": 1},
    zero_shot: {},
}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["few_shot", "knn", "transfer", "clustering", "rsa"])
def test_arrays_pass_the_check_of_all_features(name, value):
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    features[7, 2] = value
    params = {"few_shot": {"shots": [1]}, "knn": {"k": [1]}}.get(name, {})
    with pytest.raises(ValueError, match="features gave NaN or infinite values for row"):
        vlbench.probe(name, features, [*range(4)] * 10, **params)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    "formula",
    [
        lambda x: cka_debiased(x, torch.randn(20, 4)),
        lambda x: cka_debiased(torch.randn(20, 4), x),
        lambda x: mutual_knn(x, torch.randn(20, 4), 3),
        lambda x: train_probe(x, torch.arange(20) % 2, 2, 1.0),
        all_equal,
        all_parallel,
    ],
)
def test_formulas_refuse_numbers_that_are_not_finite(formula, value):
    x = torch.randn(20, 4)
    x[3, 1] = value
    with pytest.raises(ValueError, match="row 3 has NaN or infinite values"):
        formula(x)
