import pytest
import torch
from sklearn.decomposition import PCA
from torch.nn.functional import normalize

from vlbench.errors import CannotDo, TooFewRows
from vlbench.probes.generalization.visual_words import (
    _components,
    nearest_words,
    nearest_words_of_shuffled_labels,
    visual_words,
)


def randoms(n, width):
    return torch.randn(n, width, generator=torch.Generator().manual_seed(0))


def test_a_words_vector_is_the_mean_of_its_classes_not_of_its_images():
    # Class 0 has one image, class 1 three; both are called crane. The mean of classes is (0.5, 0.5)
    # and (0, -1) is the boat's: their distance is sqrt(0.25 + 2.25), whatever the axes of the PCA.
    features = torch.tensor([[2.0, 0], [0, 1], [0, 3], [0, 5], [0, -7]])
    label = torch.tensor([0, 1, 1, 1, 2])
    found = visual_words(features, label, ["crane"] * 4 + ["boat"], size=2)
    assert found.words == ["boat", "crane"]
    assert torch.dist(*found.vectors).item() == pytest.approx(2.5**0.5)


def test_the_scale_of_features_changes_nothing():
    features, label = randoms(30, 7), torch.arange(30) % 5
    words = [f"word{y}" for y in label.tolist()]
    found, tiny = (visual_words(s * features, label, words, size=4) for s in (1, 2.0**-45))
    assert torch.equal(found.vectors, tiny.vectors)


@pytest.mark.parametrize(("n", "width"), [(60, 7), (30, 40)])
def test_images_are_reduced_as_by_scikit_learn_up_to_the_sign(n, width):
    features, label = randoms(n, width), torch.arange(n) % 5
    found = visual_words(features, label, [f"word{y}" for y in label.tolist()], size=4)
    expected = PCA(4, svd_solver="full").fit_transform(normalize(features).double().numpy())
    assert found.images.abs().numpy() == pytest.approx(abs(expected), abs=1e-6)


def test_pca_may_be_fitted_on_the_words():
    features, label = randoms(60, 7), torch.arange(60) % 6
    words = [f"word{y}" for y in label.tolist()]
    found = visual_words(features, label, words, size=3, fitted_on="classes")
    means = [normalize(features)[label == y].mean(0).numpy() for y in range(6)]
    expected = PCA(3, svd_solver="full").fit_transform(means)
    assert found.vectors.abs().numpy() == pytest.approx(abs(expected), abs=1e-6)


def test_an_image_without_a_word_counts_for_pca_alone():
    features, label = randoms(60, 7), torch.arange(60) % 3
    word = ["", "dog", "cat"] * 20
    found = visual_words(features, label, word, size=4)
    every = visual_words(features, label, ["mat", "dog", "cat"] * 20, size=4)
    assert torch.equal(found.images, every.images[label != 0])
    assert torch.equal(found.vectors, every.vectors[:2])


def test_the_visual_words_of_a_constant_model_are_all_zero():
    features = torch.tensor([[0.1, 0.7, 0.2]]).expand(9, -1)
    found = visual_words(features, torch.arange(9) % 3, ["a", "b", "c"] * 3, size=2)
    assert not found.vectors.any()
    choice = nearest_words(found.images, found.vectors, found.right)
    assert choice.credit.tolist() == pytest.approx([1 / 3] * 9)
    assert choice.tied.all()


def test_the_nearest_word_is_that_of_the_highest_cosine():
    images, words = torch.tensor([[5.0, 1], [0.1, 0.3]]), torch.tensor([[0.2, 0], [0, 9]])
    assert nearest_words(images, words, torch.tensor([0, 1])).credit.tolist() == [1, 1]
    assert nearest_words(images, words, torch.tensor([1, 0])).credit.tolist() == [0, 0]


def test_many_images_are_compared_in_blocks_to_the_same_result(monkeypatch):
    images, words, right = randoms(50, 4), randoms(5, 4), torch.arange(50) % 5
    whole = nearest_words(images, words, right)
    monkeypatch.setattr("vlbench.probes.generalization.visual_words.BLOCK", 7)
    assert torch.equal(nearest_words(images, words, right).credit, whole.credit)


def test_shuffled_labels_are_found_by_chance():
    label = torch.arange(2000) % 4
    features = torch.eye(4)[label] + 0.01 * randoms(2000, 4)
    found = visual_words(features, label, [f"word{y}" for y in label.tolist()], size=3)
    assert nearest_words(found.images, found.vectors, found.right).credit.mean() == 1
    shuffled = nearest_words_of_shuffled_labels(found, seed=0).credit.mean()
    assert shuffled == pytest.approx(0.25, abs=0.15)


@pytest.mark.parametrize(
    ("width", "n", "params", "error", "message"),
    [
        (3, 9, {"size": 4}, CannotDo, "features of 3 dimensions cannot be reduced to 4"),
        (9, 6, {"size": 8}, TooFewRows, "PCA to 8 dimensions cannot be fitted on 6 images"),
        (9, 9, {"size": 4, "fitted_on": "classes"}, TooFewRows, "cannot be fitted on 3 classes"),
    ],
)
def test_more_dimensions_than_there_can_be_are_refused(width, n, params, error, message):
    word = ["a", "b", "c"] * 3
    with pytest.raises(error, match=message):
        visual_words(randoms(n, width), torch.arange(n) % 3, word[:n], **params)


def test_as_many_points_as_dimensions_are_enough_for_a_pca_and_one_word_is_too_few():
    points = torch.eye(3, 4)
    assert _components(points, 3, "means").directions.shape == (4, 3)
    with pytest.raises(TooFewRows, match="PCA to 3 dimensions cannot be fitted on 2 means"):
        _components(points[:2], 3, "means")
    with pytest.raises(TooFewRows, match="the images have 1 visual words; 2 or more are needed"):
        visual_words(randoms(4, 3), torch.arange(4) % 2, ["", "cat"] * 2, size=2)
