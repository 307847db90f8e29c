"""The scores of choices: over all items, by category, and over items that a blind rule fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.digests import digest
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.gains import ALONE, gain
from vlbench.metrics.intervals import Floats, clustered_mean
from vlbench.metrics.items import DIGITS, Answers, Examples, Measured, outcome_of
from vlbench.metrics.paired import sign_flip_p
from vlbench.metrics.ranking import Choice, tie_margin
from vlbench.results import At, Outcome, Score

# Mask of the items that a score is over, bool [M].
Kept = NDArray[np.bool_]

# If there are more categories, their scores are an artifact.
MOST_CATEGORIES = 150

# A floor nearer to 1 than to chance gets a note.
TOLD = 0.5


BEYOND_CHANCE = "a blind rule can beat chance; compare with the floors"


class MetricItems(NamedTuple):
    """The M items of a metric: the model's choice, credit float64 [M] of floors, and chance.

    `rows` has the row of each item, which determines its category. `blind` names the floors that
    use no image. `same_words` marks items whose candidates have the same words. `answers` are the
    answers to each item.
    """

    metric: str
    own: Choice
    floors: Mapping[str, Tensor]
    chance: Tensor
    examples: Examples
    rows: Sequence[int]
    blind: Sequence[str] = ()
    same_words: Sequence[bool] = ()
    answers: Answers | None = None


class Manner(NamedTuple):
    """How a model was asked, and additional results of the asking.

    `by_place` has, for each item of the first metric, the credit with its right option at each
    place (see `vlbench.metrics.replies`).
    """

    asked_by: str = ""
    more: Sequence[Measured] = ()
    notes: Sequence[str] = ()
    by_place: Sequence[Sequence[float]] = ()


def group_choice(table: Tensor, *, log_odds: bool = False) -> Choice:
    """Return whether the two right pairs of scores [N, 2, 2] exceed the two wrong pairs.

    Right pairs are on the diagonal. If p right and q wrong pairs are tied with each other, the
    credit is the probability under a random order, 1 / C(p + q, p): 1/6 if all four are tied.
    """
    right = torch.stack([table[:, 0, 0], table[:, 1, 1]], 1)
    wrong = torch.stack([table[:, 0, 1], table[:, 1, 0]], 1)
    least, most = right.amin(1), wrong.amax(1)
    compared = torch.maximum(least.abs(), most.abs())
    margin = tie_margin(compared, table.abs().amax((1, 2)), log_odds=log_odds)
    p = (right <= (most + margin)[:, None]).sum(1)
    q = (wrong >= (least - margin)[:, None]).sum(1)
    tied = (least - most).abs() <= margin
    orders = torch.tensor([[1, 1, 1], [1, 2, 3], [1, 3, 6]])[p, q]
    credit = torch.where(tied, 1 / orders.double(), (least > most).double())
    return Choice(credit, tied, torch.full(tied.shape, -1))


def all_right(asked: MetricItems, metric: str, names: Sequence[str]) -> MetricItems:
    """Return whether all items of a set are right; `names` has the set of each row.

    Credit, floors and chance are products over the items, because tied candidates of each item are
    in random order. A set is in the cluster of its first item.
    """
    several, firsts, places = np.unique(
        [names[row] for row in asked.rows], return_index=True, return_inverse=True
    )
    of_items, index = asked.examples, torch.from_numpy(places)

    def product(credit: Tensor) -> Tensor:
        return torch.ones(len(several), dtype=torch.float64).scatter_reduce(
            0, index, credit, "prod"
        )

    digests = [
        digest([of_items.digests[i] for i in np.flatnonzero(places == place).tolist()])
        for place in range(len(several))
    ]
    examples = Examples(
        several.tolist(),
        [one.removeprefix("sha256:")[:DIGITS] for one in digests],
        [of_items.clusters[i] for i in firsts.tolist()],
        [of_items.images[i] for i in firsts.tolist()] if of_items.images else (),
    )
    tied = product((~asked.own.tied).double()) == 0
    return MetricItems(
        metric,
        Choice(product(asked.own.credit), tied, torch.full(tied.shape, -1)),
        {name: product(floor) for name, floor in asked.floors.items()},
        product(asked.chance),
        examples,
        [asked.rows[i] for i in firsts.tolist()],
    )


def report(
    asked: Sequence[MetricItems],
    categories: Sequence[str],
    least: int,
    counts: Mapping[str, int],
    sets: Sequence[MetricItems] = (),
    manner: Manner | None = None,
) -> Outcome:
    """Return the outcome of all items; `categories` has the category of each row, if there are any.

    Categories with fewer than `least` rows have no score. For the first metric, the mean over
    categories is added. `sets` have no score by category. Raises TooFewRows if all categories have
    fewer.
    """
    manner = manner or Manner()
    sizes = Counter(categories)
    scored = sorted(name for name, size in sizes.items() if size >= least)
    if sizes and not scored:
        raise TooFewRows(f"no category has {counted(least, 'item')}")
    measured, table = list[Measured](), list[Measured]()
    of_floors, counts_by_rule = list[str](), dict[str, int]()
    for one in asked:
        of_items = np.array([categories[row] for row in one.rows] if categories else [])
        by_category = {name: of_items == name for name in scored}
        measured.append(score(one, {}, np.ones(len(one.rows), bool)))
        parts = [score(one, {"category": name}, kept) for name, kept in by_category.items()]
        (measured if len(scored) <= MOST_CATEGORIES else table).extend(parts)
        if one is asked[0] and scored:
            measured.append(macro(one, list(by_category.values())))
        measured += _of_same_words(one)
        beside, by_rule = _where_blind_fails(one)
        measured += beside
        counts_by_rule |= by_rule
        of_floors += _notes(one, by_category)
    measured += [score(one, {}, np.ones(len(one.rows), bool)) for one in sets]
    measured += manner.more
    first = asked[0]
    pairs = zip(first.rows, first.same_words, strict=False)
    counts = {
        "ties": int(first.own.tied.sum()),
        "choices": len(first.rows),
        "clusters": len(set(first.examples.clusters)),
        "same_words": len({row for row, same in pairs if same}),
        "small_categories": len(sizes) - len(scored),
        **counts_by_rule,
        **counts,
    }
    artifacts = {"categories": _table([one.score for one in table])} if table else {}
    by_place = manner.by_place
    if by_place and len({*map(len, by_place)}) == 1 and len(by_place[0]) > 1:
        masks = {name: np.array([categories[row] == name for row in first.rows]) for name in scored}
        every = {"": np.ones(len(first.rows), bool)}
        several = every | (masks if len(scored) <= MOST_CATEGORIES else {})
        of_orders, artifacts["orders"] = _orders(first, np.array(by_place), several)
        measured += of_orders
    outcome = outcome_of(measured, counts, [*of_floors, *manner.notes], artifacts)
    return replace(outcome, asked_by=manner.asked_by)


def score(asked: MetricItems, at: At, kept: Kept, *, metric: str = "") -> Measured:
    """Return the mean credit of the kept items, bool [M], with the floors of the same items."""
    places = torch.from_numpy(np.flatnonzero(kept))
    credit, examples = asked.own.credit[places].numpy(), asked.examples.select(places.tolist())
    estimate = clustered_mean(credit, examples.clusters)
    mean = Score(
        metric or asked.metric,
        at=at,
        n=len(credit),
        chance=float(asked.chance[places].mean()),
        floors={name: float(floor[places].mean()) for name, floor in asked.floors.items()},
        **estimate._asdict(),
    )
    return Measured(mean, examples, credit, _select_answers(asked.answers, places))


def macro(asked: MetricItems, parts: Sequence[Kept]) -> Measured:
    """Return the mean over categories of the mean credit of their items, bool [M] each.

    Item credits are weighted such that their mean over items equals this mean.
    """
    weights = np.zeros(len(asked.rows))
    for kept in parts:
        weights[kept] = 1 / kept.sum()
    places = torch.from_numpy(np.flatnonzero(weights))
    scale = torch.from_numpy(weights)[places] * len(places) / len(parts)
    credit = (asked.own.credit[places] * scale).numpy()
    examples = asked.examples.select(places.tolist())
    mean = Score(
        f"{asked.metric}_macro",
        n=len(places),
        chance=float((asked.chance[places] * scale).mean()),
        floors={name: float((x[places] * scale).mean()) for name, x in asked.floors.items()},
        **clustered_mean(credit, examples.clusters)._asdict(),
    )
    return Measured(mean, examples, credit, _select_answers(asked.answers, places))


def _of_same_words(asked: MetricItems) -> list[Measured]:
    """Return the score of items whose texts have the same words, unless all items or none do."""
    same = np.array(asked.same_words, bool)
    return [score(asked, {"words": "same"}, same)] if 0 < same.sum() < len(same) else []


def _where_blind_fails(asked: MetricItems) -> tuple[list[Measured], dict[str, int]]:
    """Return the score of items that the hardest blind floor gets wrong, and the numbers of items.

    The hardest floor is the floor that is right most often. The score has no chance level: the
    items were selected by a blind rule's errors, so that the opposite rule is right on them.
    """
    if not asked.blind:
        return [], {}
    name = max(asked.blind, key=lambda one: float(asked.floors[one].mean()))
    solved = (asked.floors[name] == 1).numpy()
    counts = {f"told_by_{name}": int(solved.sum())}
    if solved.all() or not solved.any():
        return [], counts
    rest = score(asked, {}, ~solved, metric=f"{asked.metric}_where_blind_fails")
    without_chance = replace(rest.score, chance=None, no_chance=BEYOND_CHANCE)
    return [rest._replace(score=without_chance)], counts


def _notes(asked: MetricItems, by_category: Mapping[str, Kept]) -> list[str]:
    """Return a note for each blind floor that is nearer to 1 than to chance."""
    notes = []
    for category, kept in {"": np.ones(len(asked.rows), bool), **by_category}.items():
        chance = float(asked.chance[kept].mean())
        for name in asked.blind:
            value = float(asked.floors[name][kept].mean())
            if value - chance > TOLD * (1 - chance):
                of = f" of {category}" if category else ""
                notes.append(
                    f"{asked.metric}{of}: {name.replace('_', ' ')}, as the only rule, is "
                    f"right in {value:.1%}"
                )
    return notes


def _select_answers(answers: Answers | None, places: Tensor) -> Answers | None:
    return None if answers is None else answers.select(places)


def _orders(
    asked: MetricItems, credit: Floats, parts: Mapping[str, Kept]
) -> tuple[list[Measured], pa.Table]:
    """Return the score with the right option at each of K places, from credit [N, K].

    Also returned: how often the right option is named at all places and, for two places, the
    difference between the first and the second place, paired by item. The table has its two-sided p
    of random sign flips by cluster.
    """
    measured, lines = list[Measured](), list[dict[str, Any]]()
    metric, places = asked.metric, credit.shape[1]
    for category, kept in parts.items():
        at: At = {"category": category} if category else {}
        own = credit[kept]
        examples = asked.examples.select(np.flatnonzero(kept).tolist())
        # Rules make the same choice in each order.
        rules = {name: asked.floors[name].numpy() for name in asked.blind if name != ALONE}
        floors = {name: float(one[kept].mean()) for name, one in rules.items()}
        for place in range(places):
            where: At = {**at, "right_option": place + 1}
            measured.append(mean_credit(metric, where, own[:, place], examples, 1 / places, floors))
        in_all, guessed = f"{metric}_in_all_orders", places**-places
        measured.append(mean_credit(in_all, at, own.prod(1), examples, guessed, floors))
        if places == 2:
            effect = gain(f"{metric}_order_effect", own[:, 0], own[:, 1], examples, at)
            measured.append(effect)
            _, cluster = np.unique(examples.clusters, return_inverse=True)
            p = sign_flip_p(np.bincount(cluster, own[:, 0] - own[:, 1]).astype(np.float64))
            low, high = effect.score.ci95 or (None, None)
            means = {"first": own[:, 0].mean(), "second": own[:, 1].mean()}
            told = {"effect": effect.score.value, "low": low, "high": high, "p": p}
            lines.append({"category": category, "n": len(own), **means, **told})
    return measured, pa.Table.from_pylist(lines)


def mean_credit(
    metric: str,
    at: At,
    credit: Floats,
    examples: Examples,
    chance: float,
    floors: Mapping[str, float] = {},
) -> Measured:
    """Return the mean credit [N] of examples, with an interval over their clusters."""
    estimate = clustered_mean(credit, examples.clusters)
    n = len(credit)
    mean = Score(metric, at=at, n=n, chance=chance, floors=floors, **estimate._asdict())
    return Measured(mean, examples, credit)


def _table(scores: Sequence[Score]) -> pa.Table:
    """Return scores by category as a table."""
    columns = {
        "metric": [one.metric for one in scores],
        "category": [str(one.at["category"]) for one in scores],
        "n": [one.n for one in scores],
        "value": [float(one.value) for one in scores],
        "low": [float(one.ci95[0]) if one.ci95 else None for one in scores],
        "high": [float(one.ci95[1]) if one.ci95 else None for one in scores],
    }
    return pa.table(columns)
