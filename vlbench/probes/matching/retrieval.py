"""Image and text retrieval by recall at k. Karpathy and Fei-Fei 2015, arXiv:1412.2306, section 4.1.

Each caption ranks all images (`retrieve: image`), and each image ranks all captions (`retrieve:
text`).

- `recall` at k is the fraction of queries with a right candidate among the first k: an image has
  several right captions, and one is enough. torchmetrics calls it RetrievalHitRate; its
  RetrievalRecall is the fraction of all right captions that are among the first k.
- `median_rank` is the median rank, from 1, of the best right candidate: where recall reaches 1/2.
- `mean_average_precision` is the mean over queries of the average precision of all right
  candidates, over all ranks (RetrievalMAP of torchmetrics).

All captions of an image are queries. COCO's 5,000 test images in Karpathy's split have 25,010;
common code keeps the first five per image, 25,000 (`captions: 5`). The 1,000 test images of
Flickr30k have 5,000. Captions are not preprocessed. CLIP's published numbers (Radford et al. 2021,
arXiv:2103.00020, table 13) use the `prompt` "a photo of {}".

A model of two towers compares vectors, as in Radford et al. 2021, arXiv:2103.00020. A model that
reads image and text together would have to process each pair: 5,000 x 25,000 for COCO. In
`retrieval_in_pools`, both kinds of models score the pairs of small pools, which is not a published
task.

Departures. Candidates within 1e-6 are tied, and count as in random order, so that a constant model
is at chance. Identical captions are encoded once and have the same vector, so that identical
captions of different images are always tied. COCO's pools of 1,000 are drawn by the seed, not cut
in the order of the file, and a row has the mean over them.

Intervals are over images; the captions of an image are a cluster. They do not account for the
candidates that all queries share. The interval of the median contains the ranks at which recall may
be 1/2 (Woodruff 1952, doi:10.1080/01621459.1952.10483443): ranks whose recall is not significantly
below 1/2, and not significantly above it one rank before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import DualEncoder, ImageTextScorer, count_truncated
from vlbench.data.names import case_notes
from vlbench.data.records import Data, value_column
from vlbench.engine import Engine
from vlbench.metrics.intervals import Z95, Estimate, clustered_mean, wilson
from vlbench.metrics.items import Answers, Examples, Measured, outcome_of
from vlbench.metrics.ranking import (
    RightRanks,
    all_equal,
    average_precision,
    first_rank,
    join_ranks,
    median_rank,
    ranks_of_chance,
    recall_at,
    right_ranks,
)
from vlbench.probes.matching.pools import Captions, Pool, captions_of, count_repeated, draw_pools
from vlbench.results import At, Number, Outcome, Positive, Score
from vlbench.system.threads import threads_for

# Similarities computed at a time, independent of the number of images and captions: 32 MiB, the
# most for which glibc uses memory again; new memory would take 5 % of the time.
BLOCK = 1 << 23

TEXT, IMAGE = "text", "image"

SplitRows = Annotated[Data, "split"]

_EQUAL = "all {} have identical vectors, so recall is at chance"


def retrieval(  # noqa: PLR0913 - tasks fill them by name
    model: DualEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    k: Sequence[Positive] = (1, 5, 10),
    pool: Positive | None = None,
    images: Positive | None = None,
    captions: Positive | None = None,
    prompt: str = "{}",
    split: str = "test",
    seed: int = 0,
) -> Outcome:
    """Return recall, median rank and mean average precision of captions by images, and of images.

    Each pool is ranked separately. Images left over from the pools are left out, and counted.
    Raises TooFewRows for fewer images than a pool has, and for fewer than two.

    Args:
        k: ranks k, each 1 or more; recall at k is how often a right candidate is in the first k.
        pool: number of images per pool; each pool is ranked separately; None: one pool of all
            images.
        images: number of images of the split, from the first on; None takes all.
        captions: number of captions of each image, from the first on; None takes all.
        prompt: template of the texts that are encoded, with {} for the caption.
        split: split that is read.
        seed: seed that draws the pools.
    """
    _require_params(k, pool, captions, prompt)
    test = data.first(split, images).splits[split]
    all_captions = captions_of(test, captions, prompt)
    pools = draw_pools(all_captions.sizes, pool, seed)
    texts, of_each = _distinct(all_captions.texts)
    vectors = engine.features(model.encode_images, test["image"])
    image_vectors = as_vectors(vectors.to(engine.device), torch.arange(len(vectors)))
    vectors = engine.features(model.encode_texts, value_column(texts, "text"))
    caption_vectors = as_vectors(vectors[of_each].to(engine.device), of_each)
    engine.require_pairwise(model, image_vectors.values, caption_vectors.values)
    ranks = [rank_by_vectors(model, image_vectors, caption_vectors, part) for part in pools]
    equal = {"images": image_vectors, "texts": caption_vectors}
    notes = [_EQUAL.format(what) for what, side in equal.items() if not side.first.any()]
    return _outcome(model, all_captions, pools, ranks, k, pool, notes)


def retrieval_in_pools(  # noqa: PLR0913 - tasks fill them by name
    model: ImageTextScorer | DualEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    k: Sequence[Positive] = (1, 5, 10),
    pool: Positive = 20,
    images: Positive | None = None,
    captions: Positive | None = None,
    prompt: str = "{}",
    split: str = "test",
    seed: int = 0,
) -> Outcome:
    """Return the same scores, from the matching score of each image and caption of a pool.

    For a model without matching scores, the similarity of its vectors is used.

    Args:
        k: ranks k, each 1 or more; recall at k is how often a right candidate is in the first k.
        pool: number of images per pool, 2 or more; each pool is ranked separately.
        images: number of images of the split, from the first on; None takes all.
        captions: number of captions of each image, from the first on; None takes all.
        prompt: template of the texts that are encoded, with {} for the caption.
        split: split that is read.
        seed: seed that draws the pools.
    """
    _require_params(k, pool, captions, prompt)
    test = data.first(split, images).splits[split]
    all_captions = captions_of(test, captions, prompt)
    pools = draw_pools(all_captions.sizes, pool, seed)
    scorer, ranks = PairScorer(model, test, engine), []
    for drawn in engine.watched("pools", pools, len(pools)):
        texts = [all_captions.texts[i] for i in drawn.captions.tolist()]
        rows = drawn.images.repeat_interleave(len(texts)).tolist()
        scores = scorer(rows, texts * len(drawn.images)).view(len(drawn.images), len(texts))
        by_image, by_caption = (
            right_ranks(table, right, log_odds=scorer.log_odds)
            for table, right in ((scores, drawn.right_captions), (scores.T, drawn.right_images))
        )
        ranks.append(Ranks(by_image, by_caption))
    return _outcome(model, all_captions, pools, ranks, k, pool, [])


def _require_params(k: Sequence[int], pool: int | None, captions: int | None, prompt: str) -> None:
    if not k or min(k) < 1 or (pool is not None and pool < 2):
        raise ValueError(f"k {list(k)}, pool {pool}: k must be 1 or more, and the pool 2 or more")
    if captions is not None and captions < 1:
        raise ValueError(f"captions {captions}: must be 1 or more per image, or all")
    if "{}" not in prompt:
        raise ValueError(f"prompt '{prompt}' has no {{}} for the caption")


class Vectors(NamedTuple):
    """Vectors [N, D], and for each the place of the first equal vector, int64 [N].

    Similarities of equal vectors may differ by rounding, and would not be tied.
    """

    values: Tensor
    first: Tensor

    def select(self, rows: Tensor) -> Vectors:
        """Return some of the vectors."""
        if torch.equal(rows, torch.arange(len(self.first))):
            return self
        return Vectors(self.values[rows.to(self.values.device)], _first_of_each(self.first[rows]))


def as_vectors(values: Tensor, groups: Tensor) -> Vectors:
    """Return [N, D] vectors that are the same within a group [N], or all the same if equal."""
    groups = torch.zeros_like(groups) if all_equal(values) else groups
    return Vectors(values, _first_of_each(groups))


def _first_of_each(groups: Tensor) -> Tensor:
    """Return for each of N numbers the place of its first occurrence, int64 [N]."""
    numbers, places = torch.unique(groups, return_inverse=True)
    firsts = torch.full((len(numbers),), len(groups))
    return firsts.scatter_reduce(0, places, torch.arange(len(groups)), "amin")[places]


def _distinct(texts: Sequence[str]) -> tuple[list[str], Tensor]:
    """Return the distinct texts, and the place of each text among them, int64 [M]."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return [*places], torch.tensor([places[text] for text in texts])


class Ranks(NamedTuple):
    """The ranks of the right captions of each image, and of the image of each caption."""

    captions: RightRanks
    images: RightRanks


@torch.no_grad()
def rank_by_vectors(model: DualEncoder, images: Vectors, captions: Vectors, pool: Pool) -> Ranks:
    """Return the ranks in a pool by the similarity of vectors, a block of queries at a time."""
    pool_images, pool_captions = images.select(pool.images), captions.select(pool.captions)

    def by_image(some: Tensor) -> Tensor:
        return model.similarity(some, pool_captions.values).contiguous()

    def by_caption(some: Tensor) -> Tensor:
        return model.similarity(pool_images.values, some).contiguous().T

    return Ranks(
        _rank(by_image, pool_images.values, pool_captions.first, pool.right_captions),
        _rank(by_caption, pool_captions.values, pool_images.first, pool.right_images),
    )


def _rank(
    scores: Callable[[Tensor], Tensor], queries: Tensor, first: Tensor, right: Tensor
) -> RightRanks:
    """Return the ranks of [N, D] queries; `scores` maps some queries to [n, C] scores.

    A candidate gets the score of its `first` [C] equal candidate.
    """
    size = max(1, BLOCK // len(first))
    again = (first != torch.arange(len(first))).nonzero().squeeze(1)

    def scored(some: Tensor) -> Tensor:
        with threads_for(len(some), len(first), queries.shape[1]):
            return scores(some)

    def tied(x: Tensor) -> Tensor:
        # In place, because a block takes most of the memory. Few candidates are the same.
        if len(again):
            x[:, again.to(x.device)] = x[:, first[again].to(x.device)]
        return x

    blocks = zip(torch.split(queries, size), torch.split(right, size), strict=True)
    return join_ranks([right_ranks(tied(scored(some)), true) for some, true in blocks])


class Queries(NamedTuple):
    """N queries: what they retrieve, right ranks, numbers of candidates and right candidates.

    `images` [N] has the image of each query, its cluster. `answers` are the candidate that ranks
    first, and the right candidate that ranks first.
    """

    retrieve: str
    found: RightRanks
    candidates: Tensor
    right: Tensor
    images: Tensor
    examples: Examples
    answers: Answers

    @property
    def by_chance(self) -> RightRanks:
        """The ranks if all candidates are tied."""
        return ranks_of_chance(self.candidates, self.right)

    def measure(self, k: Sequence[int], at: dict[str, Number]) -> list[Measured]:
        """Return recall at each k, the median rank, and the mean average precision."""
        place: At = {"retrieve": self.retrieve, **at}
        recalls = [
            self._mean(
                "recall",
                {"retrieve": self.retrieve, "k": first, **at},
                partial(recall_at, k=first),
                self._estimate_fraction,
                # With several guesses, the first guess is not the model's answer.
                self.answers if first == 1 else None,
            )
            for first in dict.fromkeys(k)
        ]
        precision = self._mean(
            "mean_average_precision", place, average_precision, self._estimate_mean
        )
        return [*recalls, self._median_rank(place), precision]

    def _mean(
        self,
        metric: str,
        at: At,
        formula: Callable[[RightRanks], Tensor],
        estimate: Callable[[NDArray[np.float64]], Estimate],
        answers: Answers | None = None,
    ) -> Measured:
        """Return the mean of a formula of the ranks of each query."""
        credit, chance = (formula(x).numpy() for x in (self.found, self.by_chance))
        score = Score(
            metric, at=at, n=len(credit), chance=float(chance.mean()), **estimate(credit)._asdict()
        )
        return Measured(score, self.examples, credit, answers)

    def _median_rank(self, at: At) -> Measured:
        """Return the median rank, without items because a paired test compares means."""
        most = int(self.candidates.max())
        low, high = (
            first_rank(self.found, most, holds)
            for holds in (
                lambda credit: self._estimate_fraction(credit).ci95[1] >= 0.5,
                lambda credit: self._estimate_fraction(credit).ci95[0] > 0.5,
            )
        )
        # A rank is a whole number, which is exact to within a half.
        ends = (low, high) if low < high else (low - 0.5, high + 0.5)
        score = Score(
            "median_rank",
            median_rank(self.found, most),
            len(self.images),
            at,
            stderr=(ends[1] - ends[0]) / (2 * Z95),
            ci95=ends,
            chance=median_rank(self.by_chance, most),
            unit="rank",
            higher_is_better=False,
            range=(1, most),
        )
        return Measured(score)

    def _estimate_fraction(self, credit: NDArray[np.float64]) -> Estimate:
        """Return the mean of credit, with Wilson's interval if each query has a different image."""
        if self.retrieve == TEXT:
            return wilson(float(credit.sum()), len(credit))
        return self._estimate_mean(credit)

    def _estimate_mean(self, credit: NDArray[np.float64]) -> Estimate:
        return clustered_mean(credit, self.images.numpy())


def by_image_and_by_caption(
    captions: Captions, pools: Sequence[Pool], ranks: Sequence[Ranks]
) -> list[Queries]:
    """Return the images as queries for captions, and the captions as queries for images."""
    images = torch.cat([pool.images for pool in pools])
    caption_rows = torch.cat([pool.captions for pool in pools])
    sizes = torch.cat([pool.sizes for pool in pools])
    numbers = torch.tensor([[len(pool.images), len(pool.captions)] for pool in pools])
    ids, digests = captions.examples[:2]
    of_images, of_captions = (join_ranks(parts) for parts in zip(*ranks, strict=True))
    examples = Examples([ids[i] for i in images], [digests[i] for i in images])
    return [
        Queries(
            TEXT,
            of_images,
            numbers[:, 1].repeat_interleave(numbers[:, 0]),
            sizes,
            images,
            examples,
            _answers(
                captions.captions, [pool.captions for pool in pools], numbers[:, 0], of_images
            ),
        ),
        Queries(
            IMAGE,
            of_captions,
            numbers[:, 0].repeat_interleave(numbers[:, 1]),
            torch.ones_like(caption_rows),
            captions.images[caption_rows],
            captions.named(caption_rows.tolist()),
            _answers(ids, [pool.images for pool in pools], numbers[:, 1], of_captions),
        ),
    ]


def _answers(
    names: Sequence[str], pools: Sequence[Tensor], queries: Tensor, ranks: RightRanks
) -> Answers:
    """Return what ranks first for the queries of each pool; `pools` has rows of `names`.

    Candidates with the same name are one candidate.
    """
    candidates = torch.cat([*pools])
    sizes = torch.tensor([len(pool) for pool in pools])
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(queries)
    distinct, place = _distinct(names)
    chosen, right = (
        place[candidates[starts + rank.clamp(min=0)]] for rank in (ranks.first, ranks.first_right)
    )
    return Answers(distinct, chosen.masked_fill(ranks.first < 0, -1).numpy(), right.numpy())


def _outcome(
    model: ImageTextScorer | DualEncoder,
    all_captions: Captions,
    pools: Sequence[Pool],
    ranks: Sequence[Ranks],
    k: Sequence[int],
    pool: int | None,
    notes: Sequence[str],
) -> Outcome:
    queries = by_image_and_by_caption(all_captions, pools, ranks)
    at: dict[str, Number] = {} if pool is None else {"pool": pool}
    image_queries, caption_queries = (len(query.images) for query in queries)
    counts = {
        "captions": caption_queries,
        "clusters": image_queries,
        "ties": sum(int((side.found.tied > side.found.right_tied)[:, 0].sum()) for side in queries),
        "choices": image_queries + caption_queries,
        "repeated_captions": count_repeated(all_captions, pools),
        "left_out": len(all_captions.sizes) - image_queries,
    }
    texts = [all_captions.texts[i] for pool in pools for i in pool.captions.tolist()]
    measured = [*chain(*(query.measure(k, at) for query in queries))]
    notes = [*notes, *case_notes("captions", all_captions.captions)]
    return outcome_of(measured, counts | count_truncated(model, texts), notes)
