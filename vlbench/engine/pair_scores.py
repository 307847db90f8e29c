"""Matching scores of texts for images, and the control of another image.

What is preferred for another image as well is no matter of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from vlbench.capabilities import (
    LOG_LIKELIHOOD,
    LOGIT,
    PROBABILITY,
    Answerer,
    AnswerScorer,
    DualEncoder,
    ImageTextScorer,
    is_log_odds,
    score_kind,
)
from vlbench.data.records import Split, derangement, same_images
from vlbench.engine.engine import Engine
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.ranking import all_equal

# A row of a split, and a text.
Pair = tuple[int, str]

# On TRIED pairs the two towers of a model must give what its `score_pairs` gives, up to this
# fraction of the largest score, before they replace it.
TRIED = 4
TOLERANCE = 1e-5


class PairScorer:
    """Scores texts for the images of a split; the work is spread over the processes.

    A model of two towers whose similarity is its matching score sees each image once, however many
    texts are scored for it, now or in later calls. One without matching scores goes by its
    similarity. With a `question`, a text's score is its log-likelihood as the answer. `kind` is
    that of the scores, as `score_kind` says.
    """

    def __init__(
        self,
        model: ImageTextScorer | DualEncoder | AnswerScorer | Answerer,
        split: Split,
        engine: Engine,
        question: str = "",
    ) -> None:
        self.rows, self.kind = split, LOG_LIKELIHOOD if question else score_kind(model)
        self._model, self._engine, self._question = model, engine, question
        self._by_towers: bool | None = None
        if question or not (isinstance(model, DualEncoder) and isinstance(model, ImageTextScorer)):
            self._by_towers = isinstance(model, DualEncoder) and not question
        self._images: Tensor | None = None

    def __call__(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the score of each text for the image of its row of the split, float32 [N].

        These are the scores to compare. Probabilities of exactly 0 or 1 are counted in the engine.
        Raises DataError, naming model, image and text, for a score that is no finite number, and
        ValueError for a wrong number of scores.
        """
        scores = self._of_pairs(rows, texts)
        self._engine.count_saturated(self.kind, scores)
        return scores

    def published(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the same scores as papers print them, float32 [N]; see `as_published`."""
        return as_published(self._of_pairs(rows, texts), self.kind)

    @property
    def log_odds(self) -> bool:
        """Whether the scores are on a logarithmic scale."""
        return is_log_odds(self.kind)

    def _of_pairs(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        wanted = list(zip(rows, texts, strict=True))
        pairs = sorted(dict.fromkeys(wanted), key=lambda pair: pair[0])
        scores = dict(zip(pairs, self._score(pairs), strict=True))
        return torch.tensor([scores[pair] for pair in wanted], dtype=torch.float32)

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        if self._by_towers is None and pairs:
            self._by_towers = self._agree(pairs[:TRIED])
        if self._by_towers:
            return self._cosines(pairs)
        return self._engine.spread(self._own_scores, pairs, "scores of texts")

    def _agree(self, pairs: Sequence[Pair]) -> bool:
        """Return whether the similarity of the two towers is the matching score."""
        own = torch.tensor(self._engine.spread(self._own_scores, pairs))
        gap = (own - torch.tensor(self._cosines(pairs))).abs().max()
        return bool(gap <= TOLERANCE * own.abs().max())

    def _own_scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Return what the model gives, the texts of an image with the same picture."""
        rows = dict.fromkeys(row for row, _ in pairs)
        pictures = {row: self.rows["picture"][row] for row in rows}
        texts = [text for _, text in pairs]
        model: Any = self._model
        method = model.score_answers if self._question else model.score_pairs
        asked = [[self._question] * len(pairs)] if self._question else []
        score = self._engine.checked(method)
        scores = score([pictures[row] for row, _ in pairs], *asked, texts)
        if scores.shape != (len(pairs),):
            gave = f"gave {list(scores.shape)} for {len(pairs)} pairs"
            raise ValueError(f"{method.__name__} of {self._name} {gave}")
        return self._require_finite(pairs, scores)

    @torch.no_grad()
    def _cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the similarity of each text's vector and its image's.

        If all images, or all texts, have the same vector, one is used for all: the rounding of
        several products would tell them apart where they are near zero.
        """
        model, device = self._model, self._engine.device
        assert isinstance(model, DualEncoder)
        if self._images is None:
            self._images = self._engine.features(model.encode_images, self.rows["image"])
        texts = list(dict.fromkeys(text for _, text in pairs))
        encode_texts = self._engine.checked(model.encode_texts)
        encoded = self._engine.spread(lambda some: list(encode_texts(some).cpu()), texts)
        vectors = dict(zip(texts, encoded, strict=True))
        one_image = all_equal(self._images)
        one_text = bool(encoded) and all_equal(torch.stack(encoded))
        meant = [(0 if one_image else r, texts[0] if one_text else t) for r, t in pairs]
        distinct = sorted(dict.fromkeys(meant), key=lambda pair: pair[0])
        scores = [
            model.similarity(
                self._images[[row]].to(device),
                torch.stack([vectors[text] for _, text in group]).to(device),
            )[0].cpu()
            for row, group in groupby(distinct, key=lambda pair: pair[0])
        ]
        known = dict(zip(distinct, torch.cat(scores).tolist(), strict=True))
        return self._require_finite(pairs, torch.tensor([known[pair] for pair in meant]))

    def _require_finite(self, pairs: Sequence[Pair], scores: Tensor) -> list[float]:
        values = scores.float().cpu()
        bad = (~values.isfinite()).nonzero()
        if len(bad):
            row, text = pairs[int(bad[0])]
            shown = "picture" if "picture" in self.rows.columns else "image"
            image = self.rows[shown].examples().ids[row]
            raise DataError(
                f"{self._name} gave the score {values[bad[0]].item()} to image {image} with the "
                f"text {text!r:.80}; a score must be a finite number"
            )
        return values.tolist()

    @property
    def _name(self) -> str:
        return self._engine.name_of(self._model)


def as_published(scores: Tensor, kind: str) -> Tensor:
    """Return scores of a kind as papers print them: the probability of log-odds, others as is."""
    # In float32, as papers' code computes it: more digits would only say how log-odds round.
    return scores.float().sigmoid().to(scores.dtype) if kind == LOGIT else scores


def published_kind(kind: str) -> str:
    """Return what scores of a kind are as papers print them."""
    return PROBABILITY if kind == LOGIT else kind


def other_images(rows: int | Split, seed: int) -> list[int]:
    """Return another row for each of so many rows, or of a split, drawn at random.

    Each is drawn once; of rows of a split that are copies of one image, the first is drawn for all
    copies of another. Raises TooFewRows for fewer than two images.
    """
    images = [[row] for row in range(rows)] if isinstance(rows, int) else same_images(rows)
    if len(images) < 2:
        raise TooFewRows(f"{counted(len(images), 'image')}; the another-image control needs two")
    others = derangement(len(images), seed).tolist()
    drawn = {
        row: images[other][0] for own, other in zip(images, others, strict=True) for row in own
    }
    return [drawn[row] for row in range(len(drawn))]


def rows_of_other_clusters(clusters: Sequence[str], seed: int) -> list[int]:
    """Return for each row the first one of another cluster, the same for all of a cluster.

    Raises TooFewRows for fewer than two clusters.
    """
    first: dict[str, int] = {}
    for row, cluster in enumerate(clusters):
        first.setdefault(cluster, row)
    names, rows = [*first], [*first.values()]
    others = dict(zip(names, other_images(len(names), seed), strict=True))
    return [rows[others[cluster]] for cluster in clusters]
