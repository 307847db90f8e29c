"""Figures of similarity: correlations, dendrogram and map. arXiv:2104.08313, figures 7 to 9.

The distance of two models is 1 - r. The dendrogram joins clusters by average linkage. The map is a
t-SNE with the paper's perplexity of 3; fewer than six models have none. The paper's map is not
seeded; ours is the best of ten seeded starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import TSNE

from vlbench.drawing.layouts import drawn, entitle, grid, name_points, text_width
from vlbench.drawing.looks import Look, style
from vlbench.report.figures.charts import erase, save, styled

Floats = NDArray[np.float64]

PERPLEXITY = 3.0

# The fewest models of a map: the places of fewer points are arbitrary at this perplexity.
FEWEST = 6

# A single start often ends far from the best map of few models, so the best of several is drawn.
STARTS = 10
# The font size of names, in points.
NAME = 8

# The side of a cell in the figure of correlations, in inches.
CELL = 0.42

FIGURES = ("correlations", "dendrogram", "map")


def draw_similarities(
    folder: Path,
    group: str,
    title: str,
    models: Sequence[tuple[str, Look]],
    values: Floats | None,
    measure: str = "correlation",
) -> list[Path]:
    """Write the figures of models with correlations [K, K]; remove them if `values` is None.

    There is no map of fewer than six models. `measure` is the name of the correlations.
    """
    for figure in FIGURES:
        erase(folder / f"{group}_{figure}")
    if values is None:
        return []
    distances = np.clip(1 - values, 0, None)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    order = dendrogram(tree, no_plot=True)["leaves"]
    with styled():
        titles = [f"{title}: {figure} of models" for figure in FIGURES]
        names = [models[i][0] for i in order]
        figures = [
            correlation_figure(titles[0], values[np.ix_(order, order)], names, measure),
            dendrogram_figure(titles[1], tree, models, measure),
        ]
        if len(models) >= FEWEST:
            figures.append(map_figure(titles[2], distances, models, measure))
        files = [save(f, folder / f"{group}_{n}") for f, n in zip(figures, FIGURES, strict=False)]
    return [file for pair in files for file in pair]


def correlation_figure(
    title: str, values: Floats, names: Sequence[str], measure: str = "correlation"
) -> Figure:
    """Return a figure of [K, K] correlations: numbers on shades of blue, white at 0 and below."""
    longest = max(text_width(name, NAME) for name in names)
    side = 1.0 + CELL * len(names) + longest
    figure, (axes,) = grid(1, (side + 1.2, side))
    axes.spines[:].set_visible(False)
    shades = ScalarMappable(Normalize(0, 1), "Blues")
    # Colours of one byte each: matplotlib would make several copies of 8 bytes a pixel.
    axes.imshow(shades.to_rgba(values, bytes=True), aspect="auto", interpolation="nearest")
    labels = [drawn(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=90)
    axes.set_yticks(range(len(names)), labels)
    axes.tick_params(length=0, labelsize=NAME)
    for (i, j), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 else "black"
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(shades, ax=axes, shrink=0.6, label=f"{measure} of two models")
    entitle(figure, title)
    return figure


def dendrogram_figure(
    title: str, tree: Floats, models: Sequence[tuple[str, Look]], measure: str = "correlation"
) -> Figure:
    """Return a figure of a linkage matrix, one line per model, with the distance to the right."""
    order = dendrogram(tree, no_plot=True)
    leaves = [models[i] for i in order["leaves"]]
    margin = max(text_width(name, NAME) for name, _ in leaves)
    figure, (axes,) = grid(1, (5.0, 0.6 + 0.26 * len(leaves)), margin)
    for across, along in zip(order["icoord"], order["dcoord"], strict=True):
        axes.plot(along, across, color="#555555", linewidth=1.2)
    # SciPy places leaf i at 5 + 10 i.
    places = [5 + 10 * i for i in range(len(leaves))]
    for place, (_, look) in zip(places, leaves, strict=True):
        axes.plot([0], [place], clip_on=False, zorder=3, **style(look))
    axes.set_yticks(places, [drawn(name) for name, _ in leaves])
    axes.set_ylim(0, 10 * len(leaves))
    axes.set_xlim(0)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=NAME)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"1 - {measure}, average linkage")
    entitle(figure, title)
    return figure


def map_figure(
    title: str, distances: Floats, models: Sequence[tuple[str, Look]], measure: str = "correlation"
) -> Figure:
    """Return a t-SNE map of [K, K] distances. Similar models are near; the axes mean nothing."""
    starts = [_map(distances, seed) for seed in range(STARTS)]
    places = min(starts, key=lambda start: float(start.kl_divergence_)).embedding_
    longest = max(text_width(name, NAME) for name, _ in models)
    figure, (axes,) = grid(1, (max(6.0, 2.5 * longest), 4.5))
    for (x, y), (_, look) in zip(places, models, strict=True):
        axes.plot([x], [y], **style(look))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.1)
    axes.set_xlabel(f"t-SNE of 1 - {measure}")
    entitle(figure, title)
    name_points(axes, places, [name for name, _ in models])
    return figure


def _map(distances: Floats, seed: int) -> TSNE:
    """Return a t-SNE fitted from a random start."""
    map_ = TSNE(
        perplexity=PERPLEXITY,
        metric="precomputed",
        init="random",
        method="exact",
        min_grad_norm=0,
        random_state=seed,
    )
    # scikit-learn squares the distances; the version that drew the paper's map did not.
    return map_.fit(np.sqrt(distances))
