import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform

from vlbench.errors import TooFewRows
from vlbench.probes.generalization import rdm as module
from vlbench.probes.generalization.rdm import (
    CLASS_RULES,
    rdm_of_classes,
    rdm_of_vectors,
    squared_distances,
)

COUNTS = (3, 7, 5, 4)
# Terms of the matrix per dimension are float32.
DIGITS = {"scalar": 1e-12, "per_dimension": 1e-6}
NAMES = ["ant", "bee", "cat", "dog"]


def random_classes(width=6, counts=COUNTS):
    features = torch.randn(sum(counts), width, generator=torch.Generator().manual_seed(3)) + 0.5
    return features, list(torch.arange(sum(counts)).split(list(counts)))


def by_loops(features, rows, rule):
    """Return the condensed matrix with the loops of the paper's code, in float64."""
    unit = features.numpy().astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    blocks = [unit[row.numpy()] for row in rows]
    found = []
    for i in range(len(blocks)):
        for j in range(i + 1, len(blocks)):
            a, b = blocks[i], blocks[j]
            gap = a.mean(0) - b.mean(0)
            s, t = (x.std() if rule == "scalar" else x.std(0) + 1e-6 for x in (a, b))
            found.append(np.linalg.norm(gap / np.sqrt(s**2 / len(a) + t**2 / len(b))))
    return np.array(found)


@pytest.mark.parametrize("rule", ["scalar", "per_dimension"])
@pytest.mark.parametrize("order", [range(19), np.random.default_rng(1).permutation(19)])
def test_the_matrix_is_that_of_the_double_loop_wherever_the_images_of_a_class_lie(rule, order):
    features, _ = random_classes()
    rows = list(torch.tensor(order).split(list(COUNTS)))
    found = rdm_of_classes(features, rows, NAMES, rule).numpy()
    assert found == pytest.approx(by_loops(features, rows, rule), rel=DIGITS[rule])


@pytest.mark.parametrize(("width", "common"), [(1, 0.0), (16, 0.0), (40, 1e3), (2_048, 30.0)])
def test_the_matrix_per_dimension_keeps_the_digits_that_features_have(width, common):
    features, rows = random_classes(width)
    # What all vectors have in common would leave float32 no digits for their gaps.
    features += common * torch.linspace(1, 2, width)
    found = rdm_of_classes(features, rows, NAMES, "per_dimension").numpy()
    assert found == pytest.approx(by_loops(features, rows, "per_dimension"), rel=2e-7)


@pytest.mark.parametrize("block", [1, 9, 60, 1_000])
def test_the_matrix_per_dimension_is_the_same_however_many_rows_a_block_has(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    features, rows = random_classes(counts=(3,) * 9)
    found = rdm_of_classes(features, rows, [*"abcdefghi"], "per_dimension").numpy()
    assert found == pytest.approx(by_loops(features, rows, "per_dimension"), rel=1e-6)


@pytest.mark.parametrize("rule", ["cosine", "correlation"])
def test_distances_of_means_are_scipys(rule):
    features, rows = random_classes()
    unit = torch.nn.functional.normalize(features.double())
    means = torch.stack([unit[row].mean(0) for row in rows]).numpy()
    found = rdm_of_classes(features, rows, NAMES, rule).numpy()
    assert found == pytest.approx(pdist(means, rule), rel=1e-6)


@pytest.mark.parametrize("rule", ["euclidean", "cosine", "correlation"])
def test_distances_of_vectors_are_scipys(rule):
    vectors, _ = random_classes(counts=(4,))
    found = rdm_of_vectors(vectors, NAMES, rule).numpy()
    assert found == pytest.approx(pdist(vectors.double().numpy(), rule), rel=1e-10)


def test_a_small_matrix_is_that_computed_by_hand():
    # Class a: (1, 0) twice; its four entries 1, 0, 1, 0 have mean 1/2 and variance 1/4.
    # Class b: (0, 1) and (0, -1), mean (0, 0); entries 0, 1, 0, -1: mean 0, variance 1/2.
    # |m_a - m_b| = 1, s^2 / n = 1/8 and 1/4: the distance is 1 / sqrt(3/8).
    features = torch.tensor([[2.0, 0.0], [5.0, 0.0], [0.0, 3.0], [0.0, -0.1]])
    rows = list(torch.arange(4).split(2))
    found = rdm_of_classes(features, rows, ["a", "b"], "scalar")
    assert found.tolist() == pytest.approx([(8 / 3) ** 0.5])


@pytest.mark.parametrize("points", [1, 2, 128, 129, 300])
def test_squared_distances_are_scipys_however_many_rows_there_are(points):
    vectors, _ = random_classes(width=40, counts=(points,))
    found = squared_distances(vectors.double(), 1.0).numpy()
    assert found == pytest.approx(pdist(vectors.double().numpy(), "sqeuclidean"), rel=1e-12)


def test_a_matrix_has_one_row_a_class_in_the_order_of_classes():
    features, rows = random_classes()
    turned = rdm_of_classes(features, rows[::-1], NAMES[::-1], "scalar").numpy()
    straight = squareform(rdm_of_classes(features, rows, NAMES, "scalar").numpy())
    assert squareform(turned)[::-1, ::-1] == pytest.approx(straight)


@pytest.mark.parametrize("rule", CLASS_RULES)
def test_classes_with_the_same_mean_are_at_distance_zero_exactly(rule):
    features, rows = random_classes(width=300)
    # The same images in another order: float32 sums would differ.
    rows[1] = rows[0].flip(0)
    found = rdm_of_classes(features, rows, NAMES, rule)
    assert (found == 0).nonzero().tolist() == [[0]]


def test_the_length_of_a_feature_does_not_matter():
    features, rows = random_classes()
    lengths = torch.logspace(-20, 18, len(features))[:, None]
    found = rdm_of_classes(features * lengths, rows, NAMES, "scalar")
    assert found.numpy() == pytest.approx(by_loops(features, rows, "scalar"), rel=1e-6)


def test_a_class_of_one_image_has_the_deviation_of_its_entries():
    features, rows = random_classes(counts=(1, 7, 5, 4))
    found = rdm_of_classes(features, rows, NAMES, "scalar").numpy()
    assert found == pytest.approx(by_loops(features, rows, "scalar"), rel=1e-12)


def test_a_class_of_too_few_images_is_named():
    with pytest.raises(TooFewRows, match="class 'bee' has 1 image, 2 needed for 'per_dimension'"):
        rdm_of_classes(*random_classes(counts=(3, 1, 5, 4)), NAMES, "per_dimension")
    with pytest.raises(TooFewRows, match="class 'bee' has 0 images, 1 needed for 'scalar'"):
        rdm_of_classes(*random_classes(counts=(3, 0, 5, 4)), NAMES, "scalar")


def test_dimensions_that_never_vary_are_divided_by_the_papers_millionth():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = rdm_of_classes(features, list(torch.arange(4).split(2)), ["a", "b"], "per_dimension")
    # Each of two dimensions: 1 / sqrt(1e-12 / 2 + 1e-12 / 2) = 1e6.
    assert found.tolist() == pytest.approx([2**0.5 * 1e6])


def test_different_classes_without_deviation_are_named_and_the_same_are_at_distance_zero():
    rows, names = list(torch.arange(4).split(2)), ["a", "b"]
    with pytest.raises(ValueError, match="'a' and 'b' differ and have zero deviation; use"):
        rdm_of_classes(torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]), rows, names, "scalar")
    assert rdm_of_classes(torch.zeros(4, 3), rows, names, "scalar").tolist() == [0.0]


@pytest.mark.parametrize(
    ("vector", "rule"), [((0.0, 0.0, 0.0), "cosine"), ((0.2, 0.2, 0.2), "correlation")]
)
def test_a_vector_without_a_direction_is_named(vector, rule):
    vectors = torch.tensor([[1.0, 2.0, 5.0], vector])
    with pytest.raises(ValueError, match=f"class 'b' has a vector without a {rule}"):
        rdm_of_vectors(vectors, ["a", "b"], rule)


def test_an_unknown_rule_says_which_there_are():
    with pytest.raises(ValueError, match="no rule 'welch' for a matrix; there are euclidean, cos"):
        rdm_of_vectors(torch.eye(2), ["a", "b"], "welch")
