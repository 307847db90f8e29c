"""Matching scores of texts for images, and the another-image control.

If a text is also preferred for another image, the preference does not depend on the image.
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

# The similarity of a model's two towers replaces its `score_pairs` only if the two agree on TRIED
# pairs, up to TOLERANCE times the largest score.
TRIED = 4
TOLERANCE = 1e-5


class PairScorer:
    """Scores texts for the images of a split; the work is spread over the processes.

    If a model's matching score is the similarity of its two towers, it encodes each image once,
    whatever the number of texts and calls. A model that has no matching score is scored by its
    similarity. With a `question`, a text's score is its log-likelihood as the answer. `kind` is
    the kind of the scores, as `score_kind` returns it.
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

        Use these scores for comparisons. The engine counts probabilities of exactly 0 or 1.
        Raises DataError, naming model, image and text, for a score that is not a finite number, and
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
        """Return the model's scores; all texts of an image get the same picture object."""
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

        If all images, or all texts, have the same vector, a single vector is used: rounding of
        several products near zero would make equal scores differ.
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
    """Return scores of a kind as papers print them: log-odds as probabilities, others unchanged."""
    # In float32, as in papers' code: more digits would only show the rounding of the log-odds.
    return scores.float().sigmoid().to(scores.dtype) if kind == LOGIT else scores


def published_kind(kind: str) -> str:
    """Return the kind of `as_published` scores."""
    return PROBABILITY if kind == LOGIT else kind


def other_images(rows: int | Split, seed: int) -> list[int]:
    """Return another row for each row of a split (or of `rows` rows), drawn at random.

    Each is drawn once. Copies of one image in a split share their draw, the first row of the other
    image. Raises TooFewRows for fewer than two images.
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
    """Return for each row the first row of another cluster, the same for all of a cluster.

    Raises TooFewRows for fewer than two clusters.
    """
    first: dict[str, int] = {}
    for row, cluster in enumerate(clusters):
        first.setdefault(cluster, row)
    names, rows = [*first], [*first.values()]
    others = dict(zip(names, other_images(len(names), seed), strict=True))
    return [rows[others[cluster]] for cluster in clusters]
