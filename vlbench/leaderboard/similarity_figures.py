"""Figures of similarity: correlations, dendrogram and map. arXiv:2104.08313, figures 7 to 9.

The distance of two models is 1 - r. The dendrogram joins clusters by average linkage. The map is a
t-SNE with the paper's perplexity of 3, or a lower one for fewer than six models. The paper's map is
not seeded; ours is the best of ten seeded starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import TSNE

from vlbench.leaderboard.charts import COLOURS, blank, erase, save, styled
from vlbench.leaderboard.members import Member
from vlbench.leaderboard.texts import drawn
from vlbench.metrics.rdm_correlation import correlations

Floats = NDArray[np.float64]

PERPLEXITY = 3.0

# One start often ends far from the best map of few models, so the best of several is drawn.
STARTS = 10
FIGURES = ("correlations", "dendrogram", "map")


def draw_similarities(folder: Path, group: str, members: Sequence[Member]) -> list[Path]:
    """Write the three figures of two or more models; for fewer, remove those that are there."""
    if len(members) < 2:
        for figure in FIGURES:
            erase(folder / f"{group}_{figure}")
        return []
    names = [drawn(member.name) for member in members]
    values = correlations(np.stack([member.matrix for member in members]))
    distances = np.clip(1 - values, 0, None)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    order = dendrogram(tree, no_plot=True)["leaves"]
    with styled():
        figures = (
            correlation_figure(values[np.ix_(order, order)], [names[i] for i in order]),
            dendrogram_figure(tree, names),
            map_figure(distances, names),
        )
        files = [save(f, folder / f"{group}_{n}") for f, n in zip(figures, FIGURES, strict=True)]
    return [file for pair in files for file in pair]


def correlation_figure(values: Floats, names: Sequence[str]) -> Figure:
    """Return [K, K] correlations as numbers on shades of one colour, white at 0 and below."""
    side = 2.0 + 0.42 * len(names)
    figure, axes = blank(side + 0.6, side)
    axes.spines[:].set_visible(False)
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    for (i, j), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 else "black"
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(image, ax=axes, shrink=0.6, label="correlation of matrices (Pearson)")
    return figure


def dendrogram_figure(tree: Floats, names: Sequence[str]) -> Figure:
    """Return the tree of a linkage matrix, one line per model, with the distance to the right."""
    drawn = dendrogram(tree, no_plot=True)
    figure, axes = blank(6.0, 0.9 + 0.26 * len(names))
    for across, along in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        axes.plot(along, across, color=COLOURS[0], linewidth=1.2)
    # SciPy puts leaf i at 5 + 10 i.
    axes.set_yticks([5 + 10 * i for i in range(len(names))], [names[i] for i in drawn["leaves"]])
    axes.set_ylim(0, 10 * len(names))
    axes.set_xlim(0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("1 - correlation, average linkage")
    return figure


def map_figure(distances: Floats, names: Sequence[str]) -> Figure:
    """Return the t-SNE map of [K, K] distances. Near models are similar; the axes mean nothing."""
    starts = [_map(distances, seed) for seed in range(STARTS)]
    places = min(starts, key=lambda start: float(start.kl_divergence_)).embedding_
    figure, axes = blank(6.0, 5.0)
    axes.scatter(places[:, 0], places[:, 1], s=18, color=COLOURS[0])
    for place, name in zip(places, names, strict=True):
        axes.annotate(name, place, xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.15)
    axes.set_xlabel("t-SNE of 1 - correlation")
    return figure


def _map(distances: Floats, seed: int) -> TSNE:
    """Return a t-SNE fitted from a random start."""
    map_ = TSNE(
        perplexity=min(PERPLEXITY, len(distances) / 2),
        metric="precomputed",
        init="random",
        method="exact",
        min_grad_norm=0,
        random_state=seed,
    )
    # scikit-learn squares the distances; the version that drew the paper's map did not.
    return map_.fit(np.sqrt(distances))
