"""What no probe of labelled images may score: untrained classes, and numbers that are none."""

from functools import partial

import numpy as np
import pytest
import torch
from fakes import ReadsTheLabel, labelled_images

import vlbench
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.metrics.ranking import all_equal, all_parallel
from vlbench.metrics.representation_similarity import cka_debiased, mutual_knn
from vlbench.probes.generalization.description_length import description_length, train_probe
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.transfer import transfer


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_arrays_pass_the_check_of_all_features(value):
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    features[7, 2] = value
    with pytest.raises(DataError, match="features gave NaN or infinite values for row"):
        vlbench.probe("transfer", features, [*range(4)] * 10)


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
def test_formulas_refuse_numbers_that_are_not_finite(formula):
    x = torch.randn(20, 4)
    x[3, 1] = torch.inf
    with pytest.raises(ValueError, match="row 3 has NaN or infinite values"):
        formula(x)


@pytest.mark.parametrize("probe", [partial(knn, k=[1]), description_length, transfer])
def test_a_class_without_train_images_is_named(probe):
    data = labelled_images(5, 0, 4, test=[1, 2, 3], classes=["cat", "dog", "eel"])
    with pytest.raises(TooFewRows, match="class 'dog' has 2 test images, but no train image"):
        probe(ReadsTheLabel(), data, Engine.for_tests())
