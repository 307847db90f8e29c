import numpy as np
import pytest
from canvases import beyond
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import TSNE

from vlbench.drawing.looks import looks
from vlbench.report.figures import similarity_figures
from vlbench.report.figures.similarity_figures import (
    correlation_figure,
    dendrogram_figure,
    draw_similarities,
    map_figure,
)

VALUES = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.3], [0.2, 0.3, 1.0]])
LOOKS = looks("abcdef")
MODELS = list(LOOKS.items())


def test_six_models_have_three_figures_fewer_no_map_and_none_nothing(square, tmp_path, monkeypatch):
    monkeypatch.setattr(similarity_figures, "STARTS", 1)
    for models, values, figures in (
        (MODELS, 1 - square, ("correlations", "dendrogram", "map")),
        (MODELS[:3], VALUES, ("correlations", "dendrogram")),
    ):
        files = draw_similarities(tmp_path, "rsa", "RSA", models, values)
        kinds = ("svg", "png", "pdf")
        assert [file.name for file in files] == [
            f"rsa_{f}.{kind}" for f in figures for kind in kinds
        ]
        assert sorted(tmp_path.iterdir()) == sorted(files)
    assert draw_similarities(tmp_path, "rsa", "RSA", [], None) == []
    assert list(tmp_path.iterdir()) == []


def test_the_correlations_are_told_in_two_digits():
    axes = correlation_figure("title", np.array([[1.0, 0.126], [0.126, 1.0]]), ["a", "b"]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1.00", "0.13", "0.13", "1.00"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_the_dendrogram_puts_the_nearest_models_beside_each_other():
    tree = linkage([1.0, 0.1, 1.0], "average")  # a and c are near
    axes = dendrogram_figure("title", tree, MODELS[:3]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "c"]
    assert max(line.get_xdata().max() for line in axes.lines) == 1.0


def test_leaves_of_the_dendrogram_and_points_of_the_map_look_as_their_models(square, monkeypatch):
    monkeypatch.setattr(similarity_figures, "STARTS", 1)
    tree = linkage([1.0, 0.1, 1.0], "average")
    leaves = dendrogram_figure("title", tree, MODELS[:3]).axes[0].lines[-3:]
    assert [line.get_color() for line in leaves] == [LOOKS[name].colour for name in "bac"]
    points = map_figure("title", square, MODELS).axes[0].lines
    assert [(line.get_color(), line.get_marker()) for line in points] == [
        (look.colour, look.mark) for look in LOOKS.values()
    ]


@pytest.mark.parametrize("long", ["name of weights " * 6, "$x$" * 30])
def test_nothing_is_cut_however_long_the_names_are(square, long, monkeypatch):
    monkeypatch.setattr(similarity_figures, "STARTS", 1)
    models = [(f"{name} {long}", look) for name, look in MODELS]
    names = [name for name, _ in models]
    tree = linkage(squareform(square), "average")
    place = map_figure(long * 9, square, models)
    assert beyond(correlation_figure(long * 9, 1 - square, names)) == [0, 0, 0, 0]
    assert beyond(dendrogram_figure(long * 9, tree, models)) == [0, 0, 0, 0]
    assert beyond(place) == [0, 0, 0, 0]
    boxes = [text.get_window_extent() for text in place.axes[0].texts]
    assert all(place.bbox.contains(*box.min) and place.bbox.contains(*box.max) for box in boxes)


@pytest.fixture(scope="module")
def square():
    distances = np.full((6, 6), 1.0)
    distances[:3, :3] = distances[3:, 3:] = 0.05
    np.fill_diagonal(distances, 0)
    return distances


def test_the_map_is_the_best_of_ten_starts_of_distances_that_are_not_squared(square, monkeypatch):
    fit, taken = TSNE.fit, []

    def squaring(self, given):
        found = fit(self, given)  # squares in place
        taken.append((given, self.random_state, self.kl_divergence_, self.embedding_))
        return found

    monkeypatch.setattr(TSNE, "fit", squaring)
    lines = map_figure("title", square, MODELS).axes[0].lines
    places = np.array([line.get_xydata()[0] for line in lines])
    np.testing.assert_allclose(taken[0][0], square)
    assert [seed for _, seed, _, _ in taken] == list(range(10))
    np.testing.assert_allclose(places, min(taken, key=lambda start: start[2])[3])
    first, second = places[:3], places[3:]
    apart = np.linalg.norm(first.mean(0) - second.mean(0))
    assert apart > max(np.ptp(first, axis=0).max(), np.ptp(second, axis=0).max())
