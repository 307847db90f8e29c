"""Matching scores of texts for images, and the another-image control.

If a text is also preferred for another image, the preference does not depend on the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Never

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
    Picture,
    first_misfit,
    is_log_odds,
    score_kind,
)
from vlbench.data.records import Split, derangement, same_images
from vlbench.engine.engine import Engine
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.ranking import all_equal

# A row of a split (None: no picture), a question (empty: none), and a text.
Pair = tuple[int | None, str, str]

# The similarity of a model's two towers replaces its `score_pairs` only if the two agree on TRIED
# pairs, up to TOLERANCE times the largest score.
TRIED = 4
TOLERANCE = 1e-5


class PairScorer:
    """Scores texts for the images of a split; the work is spread over the processes.

    If a model's matching score is the similarity of its two towers, it encodes each image once,
    whatever the number of texts and calls. A model that has no matching score is scored by its
    similarity. With `answers`, a text's score is its log-likelihood as the answer to a question.
    Equal images, and equal texts of an image, are scored once. The columns of images are `image`
    and `picture` with the suffix. `kind` is the kind of the scores, as `score_kind` returns it.
    """

    def __init__(
        self,
        model: ImageTextScorer | DualEncoder | AnswerScorer | Answerer,
        split: Split,
        engine: Engine,
        *,
        answers: bool = False,
        suffix: str = "",
    ) -> None:
        self.rows, self.kind = split, LOG_LIKELIHOOD if answers else score_kind(model)
        self._model, self._engine, self._answers = model, engine, answers
        self._image, self._picture = "image" + suffix, "picture" + suffix
        self._by_towers: bool | None = None
        if answers or not (isinstance(model, DualEncoder) and isinstance(model, ImageTextScorer)):
            self._by_towers = isinstance(model, DualEncoder) and not answers
        self._first = self._first_of_each(f"regions{suffix}")
        self._images: tuple[dict[int, int], Tensor] | None = None

    def __call__(
        self,
        rows: Sequence[int | None],
        texts: Sequence[str],
        questions: Sequence[str] = (),
    ) -> Tensor:
        """Return the score of each text for the image of its row of the split, float32 [N].

        A row of None has no picture. Use these scores for comparisons. The engine counts
        probabilities of exactly 0 or 1. Raises DataError, naming model, image and text, for a score
        that is not a finite number or not of its kind (see `first_misfit`), and ValueError for a
        wrong number of scores.
        """
        scores = self._of_pairs(rows, texts, questions)
        self._engine.count_saturated(self.kind, scores)
        return scores

    def published(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the same scores as papers print them, float32 [N]; see `as_published`."""
        return as_published(self._of_pairs(rows, texts), self.kind)

    def of_classes(self, texts: Sequence[str], classes: int) -> Tensor:
        """Return the mean matching score of each class's texts for each image, float32 [N, C].

        The first T / C of T texts are those of the first class, and so on. The engine stores the
        scores. Raises DataError, naming model and image, for a score that is not of its kind.
        """
        model: Any = self._model
        column = self.rows.columns.get(self._picture, self.rows[self._image])
        score_pairs = self._engine.checked(model.score_pairs)
        size = self._engine.settings.rows_per_batch

        def scored(pictures: Sequence[Any]) -> list[Tensor]:
            # The texts of an image are scored together, with the same picture.
            pairs = [(picture, text) for picture in map(as_picture, pictures) for text in texts]
            batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
            scores = [score_pairs(*map(list, zip(*batch, strict=True))) for batch in batches]
            table = torch.cat(scores).float().cpu().view(len(pictures), classes, -1)
            # The extremes are checked: in a mean, two wrong scores may look right.
            low, high = table.flatten(1).aminmax(dim=1)
            return list(torch.cat([table.mean(2), low[:, None], high[:, None]], 1))

        key = {"what": "scores of classes", "model": model, "texts": list(texts)}
        table = torch.stack(self._engine.map(scored, column, key=key))
        extremes = table[:, classes:].flatten()
        if misfit := first_misfit(self.kind, extremes):
            place, why = misfit
            name = self.rows[self._image].ids[place // 2]
            self._refuse(extremes[place], f"image {name} with a text of a class", why)
        scores = table[:, :classes]
        self._engine.count_saturated(self.kind, scores)
        return scores

    @property
    def log_odds(self) -> bool:
        """Whether the scores are on a logarithmic scale."""
        return is_log_odds(self.kind)

    def _first_of_each(self, regions: str) -> list[int]:
        """Return for each row the first row with the same image."""
        column = self.rows.columns.get(self._image)
        # Images of the same content may have different regions.
        if column is None or regions in self.rows.columns:
            return [*range(len(self.rows))]
        keys = [column.digests[row] for row in column.rows] if column.digests else column.rows
        first: dict[Any, int] = {}
        return [first.setdefault(key, row) for row, key in enumerate(keys)]

    def _of_pairs(
        self,
        rows: Sequence[int | None],
        texts: Sequence[str],
        questions: Sequence[str] = (),
    ) -> Tensor:
        places = [None if row is None else self._first[row] for row in rows]
        every = list(zip(places, questions or [""] * len(texts), texts, strict=True))
        # In the order of pictures, so that each is opened in few batches.
        each = dict.fromkeys(every)
        pairs = sorted(each, key=lambda pair: -1 if pair[0] is None else pair[0])
        scores = dict(zip(pairs, self._score(pairs), strict=True))
        return torch.tensor([scores[pair] for pair in every], dtype=torch.float32)

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        if self._by_towers is None and pairs:
            self._by_towers = self._agree(pairs[:TRIED])
        if self._by_towers:
            return self._cosines(pairs)
        what = "likelihoods of answers" if self._answers else "scores of texts"
        return self._engine.spread(self._own_scores, pairs, what)

    def _agree(self, pairs: Sequence[Pair]) -> bool:
        """Return whether the similarity of the two towers is the matching score."""
        scores = torch.tensor(self._engine.spread(self._own_scores, pairs))
        gap = (scores - torch.tensor(self._cosines(pairs))).abs().max()
        return bool(gap <= TOLERANCE * scores.abs().max())

    def _own_scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the model's scores; all texts of an image get the same picture object."""
        rows, questions, texts = ([*column] for column in zip(*pairs, strict=True))
        model: Any = self._model
        method = model.score_answers if self._answers else model.score_pairs
        extras = [questions] if self._answers else []
        score = self._engine.checked(method)
        scores = score(pictures_of(self.rows, rows, self._image, self._picture), *extras, texts)
        return self._require_fit(pairs, scores)

    @torch.no_grad()
    def _cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the similarity of each text's vector and its image's.

        If all images, or all texts, have the same vector, a single vector is used: rounding of
        several products near zero would make equal scores differ.
        """
        model, device = self._model, self._engine.device
        assert isinstance(model, DualEncoder)
        if self._images is None:
            firsts = sorted({*self._first})
            image = self.rows[self._image].select(firsts)
            numbers = {row: number for number, row in enumerate(firsts)}
            self._images = numbers, self._engine.features(model.encode_images, image)
        numbers, images = self._images
        texts = list(dict.fromkeys(text for *_, text in pairs))
        encode_texts = self._engine.checked(model.encode_texts)
        encoded = self._engine.spread(lambda some: list(encode_texts(some).cpu()), texts)
        vectors = dict(zip(texts, encoded, strict=True))
        if encoded:
            self._engine.require_pairwise(model, images, torch.stack(encoded[:REPEATED]))
        one_image = all_equal(images)
        one_text = bool(encoded) and all_equal(torch.stack(encoded))
        meant = [
            (0 if one_image or row is None else numbers[row], texts[0] if one_text else text)
            for row, _, text in pairs
        ]
        distinct = sorted(dict.fromkeys(meant), key=lambda pair: pair[0])
        scores = [
            model.similarity(
                images[[image]].to(device),
                torch.stack([vectors[text] for _, text in group]).to(device),
            )[0].cpu()
            for image, group in groupby(distinct, key=lambda pair: pair[0])
        ]
        by_pair = dict(zip(distinct, torch.cat(scores).tolist(), strict=True))
        return self._require_fit(pairs, torch.tensor([by_pair[pair] for pair in meant]))

    def _require_fit(self, pairs: Sequence[Pair], scores: Tensor) -> list[float]:
        values = scores.float().cpu()
        if misfit := first_misfit(self.kind, values):
            place, why = misfit
            row, question, text = pairs[place]
            where = f"the answer {text!r:.80} to {question!r:.80}"
            if row is not None and not self._answers:
                column = self._picture if self._picture in self.rows.columns else self._image
                image = self.rows[column].ids[row]
                where = f"image {image} with the text {text!r:.80}"
            self._refuse(values[place], where, why)
        return values.tolist()

    def _refuse(self, score: Tensor, where: str, why: str) -> Never:
        raise DataError(f"{self._name} gave the score {score.item():.6g} to {where}; {why}")

    @property
    def _name(self) -> str:
        return self._engine.name_of(self._model)


def pictures_of(
    rows: Split, places: Sequence[int | None], image: str = "image", picture: str = "picture"
) -> list[Picture]:
    """Return the picture of each of some rows, each opened once; None has no picture."""
    column = rows[picture if picture in rows.columns else image]
    pictures: dict[int | None, Picture] = {None: Picture(None, None)}
    for row in dict.fromkeys(place for place in places if place is not None):
        pictures[row] = as_picture(column[row])
    return [pictures[row] for row in places]


def as_picture(value: Any) -> Picture:
    """Return an image as a picture without regions; a picture is unchanged."""
    return value if isinstance(value, Picture) else Picture(value, None)


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
        row: images[other][0] for group, other in zip(images, others, strict=True) for row in group
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
