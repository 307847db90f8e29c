"""Ablation: the drop in accuracy of a model without some of its parts.

An item is an image with a `caption` and `foils`, which is right if the caption scores highest, or
an image with a `question` and options, which is right if the most likely answer is right. `drop` is
the accuracy of the whole model minus the accuracy without a part, paired by item.
`drop_beyond_random` is the drop minus the mean drop of random parts of the same size (Michel, Levy
and Neubig 2019, arXiv:1905.10650, ablate heads; Geva et al. 2023, arXiv:2304.14767, ablate
attention in a window of layers). Its interval is over items and draws. The parts are:

- `layer`: all heads of a layer. A layer has no other heads, so that the random parts are equally
  many heads of all layers.
- `head`: a single head. The random parts are the other heads of its layer.
- `best heads`: the heads that ground entities best (see `entity_grounding`) on other images. The
  random parts are equally many other heads of the same layers, or of all layers if too few.
- `text to image` and `end to image`: attention of the text, or of the end of the prompt, to the
  image, in a window of layers that begins with `layer`. The random parts are equally many other
  layers, not always in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from vlbench.capabilities import (
    AnswerScorer,
    Cut,
    ImageTextScorer,
    Intervenable,
    JointAttender,
    Look,
    count_truncated,
)
from vlbench.data.records import Data, Split, examples_of_items
from vlbench.engine import Engine
from vlbench.engine.asking import Asker, way_of
from vlbench.engine.pair_scores import PairScorer
from vlbench.errors import CannotDo, DataError, SpecError, TooFewRows, counted
from vlbench.metrics.gains import gain, gain_over_draws
from vlbench.metrics.intervals import clustered_mean
from vlbench.metrics.items import Examples, Measured, answers_among, outcome_of, score_table
from vlbench.metrics.ranking import Choice, choose_first
from vlbench.probes.grounding.attention import AttentionReader, head_sums
from vlbench.probes.grounding.entity_grounding import entity_queries
from vlbench.probes.grounding.measures import first_images
from vlbench.probes.grounding.scores import MOST_SCORES, groups_of
from vlbench.probes.question_items import read_questions, refuse_equal
from vlbench.results import Artifact, At, Outcome, Positive, Score

# `ranked_on` names a split of images with phrases.
AblationRows = Annotated[Data, "test", "ranked_on"]

# A layer, and a head of the layer.
Head = tuple[int, int]
Item = TypeVar("Item")

CAVEAT = (
    "a drop is the loss of accuracy without a part: redundant parts hide it, and a model may be "
    "worse only because it was never trained without that part"
)


class CutScorer(Intervenable, ImageTextScorer, Protocol):
    """Scores pairs, also without some of its parts."""


class CutAnswerScorer(Intervenable, AnswerScorer, Protocol):
    """Scores answers, also without some of its parts."""


class Asks(NamedTuple):
    """The items of rows: options, the numbers of right options, and how a model chooses."""

    options: Sequence[Sequence[str]]
    right: Sequence[Sequence[int]]
    examples: Examples
    choose: Callable[[Any], Choice]
    asked_by: str


class Part(NamedTuple):
    """A part to ablate, the conditions of its scores, and random parts of the same size."""

    at: At
    cut: Cut
    controls: Sequence[Cut]


def ablation(  # noqa: PLR0913 - tasks fill them by name
    model: CutScorer | CutAnswerScorer,
    data: AblationRows,
    engine: Engine,
    *,
    each: Sequence[Literal["layer", "head"]] = (),
    best_heads: int = 0,
    windows: int = 0,
    items: Positive | None = None,
    ranked_on: str = "test",
    ranked_images: Positive | None = None,
    draws: Positive = 8,
    seed: int = 0,
) -> Outcome:
    """Return how much accuracy a model loses without some of its parts, and beyond random parts.

    Raises SpecError if there are no parts to ablate, or fewer than requested; CannotDo for a model
    without a capability that the items or the best heads need; DataError for rows without a choice,
    a foil equal to the caption, and heads ranked on test images; TooFewRows for fewer than two
    clusters.

    Args:
        each: parts ablated in turn: each `head`, all heads of each `layer`, or both; empty:
            neither.
        best_heads: number of best-grounding heads that are ablated together; 0: none.
        windows: number of consecutive layers whose attention to the image is ablated; 0: none.
        items: number of test rows, drawn by the seed; None takes all.
        ranked_on: split with phrases on which `best_heads` are ranked; no test image may be in it.
        ranked_images: number of images of that split that rank the heads, from the first on; None:
            all.
        draws: number of random parts compared with each layer, window and set of best heads, 1 or
            more.
        seed: seed that draws the items and the random parts.
    """
    rows = data.splits["test"]
    drawn = np.random.default_rng(seed).permutation(len(rows))[:items]
    rows = rows.select(np.sort(drawn).tolist())
    asks = _read(rows, model, engine)
    examples, clusters = asks.examples, len({*asks.examples.clusters})
    if clusters < 2:
        raise TooFewRows(f"{counted(clusters, 'image')} to ask about; an interval needs 2")
    heads, positions = model.parts()
    parts = _layers(heads, draws, seed) if "layer" in each else []
    parts += _heads(heads) if "head" in each else []
    best: list[Head] = []
    if best_heads:
        others = first_images(data.splits[ranked_on], ranked_images)
        _refuse_shared(rows, others, ranked_on)
        best = best_grounding(model, others, engine, best_heads)
        parts.append(_best(best, heads, draws, seed))
    for source in ("text", "end") if windows else ():
        if source in positions:
            parts += _windows(source, windows, len(heads), draws, seed)
    if not parts:
        raise SpecError("no part is removed: set each, best_heads or windows")
    cuts = [*dict.fromkeys(chain.from_iterable((one.cut, *one.controls) for one in parts))]
    cost = f"{len(cuts) + 1} passes over {counted(len(rows), 'item')}, one of the whole model"
    whole = asks.choose(model)
    watched = engine.watched(cost, cuts, len(cuts))
    credit = {cut: asks.choose(engine.cut(model, cut)).credit for cut in watched}
    measured = [_accuracy(whole, asks)]
    for one in parts:
        drop = whole.credit - credit[one.cut]
        measured.append(gain("drop", whole.credit, credit[one.cut], examples, one.at))
        if one.controls:
            random = torch.stack([whole.credit - credit[cut] for cut in one.controls])
            measured.append(gain_over_draws("drop_beyond_random", drop, random, examples, one.at))
    counts = {"passes": len(cuts) + 1, "ties": int(whole.tied.sum()), "choices": len(rows)}
    counts |= {"clusters": clusters}
    names = ", ".join("{}-{}".format(*head) for head in best)
    named = [f"best heads, layer-head from 0: {names}"] if best else []
    # The table has all scores.
    of_no_layer = [one for one in measured if "layer" not in one.score.at]
    outcome = outcome_of(
        measured if len(measured) <= MOST_SCORES else of_no_layer,
        counts | count_truncated(model, [*chain(*asks.options)]),
        [CAVEAT, cost, *named],
        {"drops": _table(measured)},
    )
    return replace(outcome, asked_by=asks.asked_by)


def _read(rows: Split, model: CutScorer | CutAnswerScorer, engine: Engine) -> Asks:
    """Return the items of rows; questions are answered by the likelihood of their answers."""
    if "question" in rows.columns:
        items = read_questions(rows)
        way_of(model, "likelihood")

        def answer(model: Any) -> Choice:
            asker = Asker(model, rows, engine, "likelihood")
            return asker.judge([*range(len(rows))], items.asked, items.right).choice

        options = [one.options for one in items.asked]
        return Asks(options, items.right, items.examples, answer, "likelihood")
    if not {"caption", "foils"} <= {*rows.columns}:
        have = ", ".join(sorted(rows.columns))
        raise DataError(f"the rows have no `caption` with `foils` and no `question`, but {have}")
    if not isinstance(model, ImageTextScorer):
        raise CannotDo("it is not an ImageTextScorer, which is needed to choose among captions")
    texts = [[one, *wrong] for one, wrong in zip(rows["caption"], rows["foils"], strict=True)]
    refuse_equal(texts)
    sizes = [*map(len, texts)]
    places = np.repeat(range(len(sizes)), sizes).tolist()

    def choose(model: Any) -> Choice:
        scorer = PairScorer(model, rows, engine)
        return choose_first(scorer(places, [*chain(*texts)]), sizes, log_odds=scorer.log_odds)

    examples = examples_of_items(rows, "caption", texts)
    return Asks(texts, [[0]] * len(texts), examples, choose, "score")


def best_grounding(model: Any, rows: Split, engine: Engine, count: int) -> list[Head]:
    """Return the heads that choose right regions most often, best first; ties in order of place.

    Raises CannotDo for a model that returns no attention.
    """
    if not isinstance(model, JointAttender):
        raise CannotDo("it is not a JointAttender, which `best_heads` needs")
    sums = head_sums(AttentionReader(model, 1), rows["picture"], entity_queries(rows), engine)
    (group,) = groups_of(sums, [{}], 0)
    right = group.measures["accuracy"].sum(0)
    if count > len(right) // 2:
        have = f"the model has {len(right)}, and as many random heads must remain"
        raise SpecError(f"{count} best heads requested; {have}")
    places = np.argsort(-right, kind="stable")[:count].tolist()
    return [divmod(place, group.shape[1]) for place in places]


def _layers(heads: Sequence[int], draws: int, seed: int) -> list[Part]:
    every = [(layer, head) for layer, count in enumerate(heads) for head in range(count)]
    parts = []
    for layer, count in enumerate(heads):
        own = tuple((layer, head) for head in range(count))
        random = _samples(every, own, draws, seed)
        at: At = {"cut": "layer", "layer": layer}
        parts.append(Part(at, Cut(heads=own), [Cut(heads=some) for some in random]))
    return parts


def _heads(heads: Sequence[int]) -> list[Part]:
    parts = []
    for layer, count in enumerate(heads):
        cuts = [Cut(heads=((layer, head),)) for head in range(count)]
        for head, own in enumerate(cuts):
            at: At = {"cut": "head", "layer": layer, "head": head}
            parts.append(Part(at, own, [*cuts[:head], *cuts[head + 1 :]]))
    return parts


def _windows(source: str, width: int, layers: int, draws: int, seed: int) -> list[Part]:
    if width > layers:
        raise SpecError(f"windows of {width} layers requested; the model has {layers}")

    def blind(some: Sequence[int]) -> Cut:
        return Cut(looks=tuple(Look(source, "image", (i, i + 1)) for i in some))

    parts = []
    for first in range(layers - width + 1):
        own = tuple(range(first, first + width))
        random = _samples(range(layers), own, draws, seed)
        at: At = {"cut": f"{source} to image", "layer": first}
        parts.append(Part(at, blind(own), [*map(blind, random)]))
    return parts


def _best(best: Sequence[Head], heads: Sequence[int], draws: int, seed: int) -> Part:
    rng = np.random.default_rng(seed)
    random = [_other_heads(best, heads, rng) for _ in range(draws)]
    return Part({"cut": "best heads"}, Cut(heads=tuple(sorted(best))), random)


def _other_heads(best: Sequence[Head], heads: Sequence[int], rng: np.random.Generator) -> Cut:
    """Return equally many other heads, of the same layers if possible."""
    left = [(layer, i) for layer, count in enumerate(heads) for i in range(count)]
    left = [one for one in left if one not in best]
    drawn, missing = list[Head](), 0
    for layer, count in Counter(layer for layer, _ in best).items():
        own = [one for one in left if one[0] == layer]
        enough = len(own) >= count
        drawn += _sample(own, count, rng) if enough else ()
        missing += 0 if enough else count
    drawn += _sample([one for one in left if one not in drawn], missing, rng)
    return Cut(heads=tuple(sorted(drawn)))


def _samples(
    of: Sequence[Item], own: tuple[Item, ...], draws: int, seed: int
) -> list[tuple[Item, ...]]:
    """Return random samples as large as `own` that are not `own`; none if there is no other.

    Samples for parts of the same size are nearly the same, so that few passes are needed.
    """
    rng, samples = np.random.default_rng(seed), list[tuple[Item, ...]]()
    while len(own) < len(of) and len(samples) < draws:
        sample = tuple(_sample(of, len(own), rng))
        samples += [sample] if sample != own else []
    return samples


def _sample(of: Sequence[Item], count: int, rng: np.random.Generator) -> list[Item]:
    """Return a random sample, in order."""
    return [of[i] for i in sorted(rng.choice(len(of), count, replace=False).tolist())]


def _accuracy(choice: Choice, asks: Asks) -> Measured:
    credit, answers = choice.credit.numpy(), [own[0] for own in asks.right]
    guessed = [len(own) / len(of) for own, of in zip(asks.right, asks.options, strict=True)]
    estimate = clustered_mean(credit, asks.examples.clusters)
    chance = float(np.mean(guessed))
    score = Score("accuracy", n=len(credit), chance=chance, **estimate._asdict())
    said = answers_among(asks.options, choice.chosen, answers)
    return Measured(score, asks.examples, credit, said)


def _refuse_shared(rows: Split, others: Split, name: str) -> None:
    """Raise DataError if heads would be ranked on a test image."""
    name_of = "image" if "image" in others.columns else "picture"
    first, second = ({*one[name_of].examples().digests} for one in (rows, others))
    if first & second:
        count = len(first & second)
        raise DataError(f"{count} images of {name}, on which heads are ranked, are test images")


def _table(measured: Sequence[Measured]) -> Artifact:
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    drops = [one.score for one in measured[1:]]
    columns = {
        "cut": [str(one.at["cut"]) for one in drops],
        "layer": pa.array([one.at.get("layer") for one in drops], pa.int64()),
        "head": pa.array([one.at.get("head") for one in drops], pa.int64()),
    }
    return score_table(drops, columns)
