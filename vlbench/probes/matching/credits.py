"""The scores of choices: over all items, by category, and over items that a blind rule fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from vlbench.data.records import Split
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.gains import ALONE, gain
from vlbench.metrics.intervals import Floats, clustered_mean
from vlbench.metrics.items import (
    DIGITS,
    Examples,
    Items,
    Measured,
    Options,
    outcome_of,
    score_table,
)
from vlbench.metrics.paired import sign_flip_p
from vlbench.metrics.ranking import Choice, tie_margin, without_answer
from vlbench.metrics.replies import Judged, Rule
from vlbench.metrics.scores import by_category, macro, measure_items, score_of, subset
from vlbench.probes.matching.bias import MOST_CATEGORIES, above_bias
from vlbench.results import ANSWERS, At, Outcome, Score
from vlbench.system.digests import digest

# A floor nearer to 1 than to chance gets a note.
TOLD = 0.5


# Rules of reading whose accuracies are further apart get a note.
APART = 0.01

# The share of replies without a label is no score of a model.
NOT_RATED: dict[str, Any] = {
    "higher_is_better": None,
    "no_chance": "a fraction is neither good nor bad in itself",
}

NO_ORDERS = (
    "no score by order: for {:,} of {:,} items, the right option was not shown once at each place"
)

BEYOND_CHANCE = "a blind rule can beat chance; compare with the floors"


class Read(NamedTuple):
    """The replies to the items of the first metric, as read by a rule, and by each rule.

    `table` has what was said, see `vlbench.metrics.replies.reply_table`.
    """

    judged: Judged | None = None
    rules: Mapping[Rule, Judged] = {}
    rule: Rule = "one_label"
    table: pa.Table | None = None


def categories_of(rows: Split) -> list[str]:
    """Return the category of each row; empty if the rows have none."""
    return [*rows["category"]] if "category" in rows.columns else []


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


def all_right(items: Items, metric: str, names: Sequence[str]) -> Items:
    """Return whether all items of a set are right; `names` has the set of each item.

    Credit, floors and chance are products over the items, because tied candidates of each item are
    in random order. A set is in the cluster of its first item.
    """
    sets, firsts, places = np.unique([*names], return_index=True, return_inverse=True)
    of_items, index = items.examples, torch.from_numpy(places)

    def product(credit: Tensor) -> Tensor:
        return torch.ones(len(sets), dtype=torch.float64).scatter_reduce(0, index, credit, "prod")

    digests = [
        digest([of_items.digests[i] for i in np.flatnonzero(places == place).tolist()])
        for place in range(len(sets))
    ]
    of_firsts = of_items.select(firsts.tolist())
    short = [text.removeprefix("sha256:")[:DIGITS] for text in digests]
    tied = product((~items.choice.tied).double()) == 0
    chance = torch.from_numpy(np.asarray(items.options.chance, np.float64))
    return items._replace(
        metric=metric,
        choice=Choice(product(items.choice.credit), tied, torch.full(tied.shape, -1)),
        floors={
            name: without_answer(product(floor.credit))
            for name, floor in items.floors.items()
            if isinstance(floor, Choice)
        },
        options=Options((), (), product(chance).numpy()),
        examples=of_firsts._replace(ids=sets.tolist(), digests=short),
    )


def whole_sets(
    items: Items, metric: str, names: Iterable[Any], of_data: Iterable[Any]
) -> tuple[Items, list[str]]:
    """Return `all_right` of whole sets, and notes on the other sets.

    `names` has the set of each row, and `of_data` the set of each row of the data. Sets with fewer
    items than most sets have are left out; so are sets that lack an answer, whose note states the
    score with lacking answers as wrong and as right.
    """
    of_rows, sizes = [*map(str, names)], Counter(map(str, of_data))
    (usual, _), *_ = Counter(sizes.values()).most_common(1)
    small = [name for name, size in sizes.items() if size < usual]
    answered = Counter(of_rows)
    lacking = {name for name in answered if answered[name] < sizes[name]} - {*small}
    sets = all_right(items, metric, of_rows)
    is_whole = [name not in lacking and sizes[name] >= usual for name in sets.examples.ids]
    notes = []
    if small:
        left = f"{len(small):,} of {counted(len(sizes), 'set')} have fewer than {usual} items"
        notes.append(f"{metric}: {left}, and are left out")
    absent = sum(size >= usual for size in sizes.values()) - sum(is_whole)
    partly = [name in lacking for name in sets.examples.ids]
    notes += _bounds(metric, sets.choice.credit[is_whole], absent, sets.choice.credit[partly])
    return subset(sets, np.flatnonzero(is_whole).tolist()), notes


def _bounds(metric: str, credit: Tensor, absent: int, partly: Tensor | None = None) -> list[str]:
    """Return a note on a score with `absent` items as wrong, and as right; none if none is absent.

    `partly` is the credit of absent sets if what they lack is right; without it, it is 1.
    """
    if not absent:
        return []
    n, least = len(credit) + absent, float(credit.sum())
    most = least + absent - (0.0 if partly is None else float((1 - partly).sum()))
    ends = f"between {least / n:.1%} (absent answers as wrong) and {most / n:.1%} (as right)"
    return [f"{metric} of all {n:,}: {ends}"]


def report(
    of_metrics: Sequence[Items],
    rows: Split,
    least: int,
    sets: Mapping[str, str] | None,
    more: Sequence[Measured],
    read: Read,
    *,
    whole: Split,
    same_words: Mapping[str, Sequence[bool]] = {},
) -> Outcome:
    """Return the outcome of all items of rows, the rows of `whole` that have an answer.

    Categories with fewer than `least` rows have no score. For the first metric, the mean over
    categories is added. `sets` have no score by category: by metric, the column that names the set
    of each row. `read` are the replies to the items of the first metric. `same_words` has, by
    metric, the rows whose candidates have the same words, which have a score beside. Raises
    TooFewRows if all categories have fewer.
    """
    sizes = Counter(categories_of(rows))
    scored = sorted(name for name, size in sizes.items() if size >= least)
    if sizes and not scored:
        raise TooFewRows(f"no category has {counted(least, 'item')}")
    judged = read.judged
    biased = above_bias(of_metrics[0], judged and judged.labelled, scored)
    of_metrics, artifacts = [biased.items, *of_metrics[1:]], {**biased.artifacts}
    measured, table, first = list[Measured](), list[Measured](), of_metrics[0]
    of_floors, counts_by_rule = list[str](), {**biased.counts}
    for items in of_metrics:
        by_name = by_category(items, scored)
        measured.append(measure_items(items))
        (measured if len(scored) <= MOST_CATEGORIES else table).extend(map(measure_items, by_name))
        if items is first and scored:
            measured.append(measure_items(macro(items, scored)))
        measured += map(measure_items, _of_same_words(items, same_words.get(items.metric, ())))
        beside, by_rule = _where_blind_fails(items)
        measured += map(measure_items, beside)
        counts_by_rule |= by_rule
        of_floors += [note for part in (items, *by_name) for note in _notes(part)]
    lacks = _bounds(first.metric, first.choice.credit, len(whole) - len(rows))
    for metric, column in (sets or {}).items():
        in_sets, lack = whole_sets(first, metric, rows[column], whole[column])
        measured += [measure_items(in_sets)] if in_sets.examples.ids else []
        lacks += lack
    measured += more
    counts = {
        "ties": int(first.choice.tied.sum()),
        "choices": len(first.examples.ids),
        "clusters": len(set(first.examples.clusters)),
        "same_words": sum(same_words.get(first.metric, ())),
        "small_categories": len(sizes) - len(scored),
        **counts_by_rule,
    }
    artifacts |= {"categories": _by_category([entry.score for entry in table])} if table else {}
    artifacts |= {ANSWERS: read.table} if read.table is not None else {}
    by_rules, apart = _by_rules(first, read, scored)
    measured += by_rules
    by_place = judged.by_place if judged and max(judged.sizes) > 1 else ()
    if judged and by_place and by_place[0] and len({*map(len, by_place)}) == 1:
        of_few = scored if len(scored) <= MOST_CATEGORIES else []
        of_orders, artifacts["orders"] = _orders(first, judged, of_few)
        measured += of_orders
    elif judged and by_place and judged.labelled:
        of_options = zip(by_place, judged.labelled.options, strict=True)
        lacking = sum(len(own) < options for own, options in of_options)
        of_floors += [NO_ORDERS.format(lacking, len(by_place))] if lacking else []
    outcome = outcome_of(measured, counts, [*of_floors, *lacks, *apart], artifacts)
    return replace(outcome, scores=[*outcome.scores, *biased.scores])


def _by_rules(
    first: Items, read: Read, categories: Sequence[str]
) -> tuple[list[Measured], list[str]]:
    """Return the accuracy under the other rules of reading, the unread share, and a note.

    If there are categories, the accuracy is the mean over them. The note is there if two rules are
    more than a point apart.
    """
    if not (read.judged and read.judged.labelled):
        return [], []
    base = first.metric.removesuffix(f"_{read.rule}")
    of_rules = [
        first._replace(
            metric=base if rule == "one_label" else f"{base}_{rule}",
            choice=judged.choice,
            options=first.options._replace(names=(), right=()),
            floors={},
        )
        for rule, judged in read.rules.items()
        if rule != read.rule
    ]
    parts = [macro(items, categories) for items in of_rules] if categories else of_rules
    labelled = read.judged.labelled
    replies = np.bincount(labelled.item)
    unread = np.bincount(labelled.item, labelled.label < 0) / replies
    share = mean_credit("unread_share", {}, unread, first.examples, None)
    share = share._replace(score=replace(share.score, **NOT_RATED))
    values = {rule: float(judgement.choice.credit.mean()) for rule, judgement in read.rules.items()}
    notes = []
    if values and max(values.values()) - min(values.values()) > APART:
        each = ", ".join(f"{rule} {value:.1%}" for rule, value in values.items())
        notes = [f"{base} depends on the rule by which replies are read: {each}"]
    # The items of each rule would be as many as those of the main score.
    return [*(Measured(score_of(part)) for part in parts), share._replace(examples=None)], notes


def _of_same_words(items: Items, same: Sequence[bool]) -> list[Items]:
    """Return the items of the rows whose candidates have the same words, unless none or all do.

    A row of twins has two items of some metrics.
    """
    kept = np.repeat(np.array(same, bool), len(items.examples.ids) // max(len(same), 1))
    is_part = 0 < kept.sum() < len(kept)
    return [subset(items, np.flatnonzero(kept).tolist(), words="same")] if is_part else []


def _where_blind_fails(items: Items) -> tuple[list[Items], dict[str, int]]:
    """Return the items that the hardest blind floor gets wrong, and the numbers of items.

    The hardest floor is the floor that is right most often. There are none unless the interval of
    its gain over chance is above 0: otherwise the score would be the accuracy on one answer, chosen
    by accident. The score has no chance level: the items were selected by a blind rule's errors, so
    that the opposite rule is right on them.
    """
    if not items.blind:
        return [], {}
    name = max(items.blind, key=lambda rule: float(_floor(items, rule).mean()))
    solved = (_floor(items, name) == 1).numpy()
    counts = {f"told_by_{name}": int(solved.sum())}
    if solved.all() or not solved.any() or not _beats_chance(items, name):
        return [], counts
    rest = subset(items, np.flatnonzero(~solved).tolist())
    return [
        rest._replace(
            metric=f"{items.metric}_where_blind_fails",
            options=rest.options._replace(chance=None),
            no_chance=BEYOND_CHANCE,
        )
    ], counts


def _floor(items: Items, name: str) -> Tensor:
    """Return the credit [N] of a floor, which is a rule's choices here."""
    floor = items.floors[name]
    assert isinstance(floor, Choice)
    return floor.credit


def _chances(items: Items) -> Floats:
    return np.asarray(items.options.chance, np.float64)


def _beats_chance(items: Items, floor: str) -> bool:
    """Return whether the 95 % interval of a floor's gain over chance is above 0."""
    interval = gain(floor, _floor(items, floor), _chances(items), items.examples).score.ci95
    return interval is not None and interval[0] > 0


def _notes(items: Items) -> list[str]:
    """Return a note for each blind floor that is nearer to 1 than to chance."""
    notes, chance = [], float(_chances(items).mean())
    category = items.at.get("category", "")
    for name in items.blind:
        value = float(_floor(items, name).mean())
        if value - chance > TOLD * (1 - chance):
            of = f" of {category}" if category else ""
            notes.append(
                f"{items.metric}{of}: {name.replace('_', ' ')}, as the only rule, is "
                f"right in {value:.1%}"
            )
    return notes


def _orders(
    items: Items, judged: Judged, categories: Sequence[str]
) -> tuple[list[Measured], pa.Table]:
    """Return the score with the right option at each of K places, over all and by category.

    Also returned: how often the right option is named at all places and, for two places, the
    difference between the first and the second place, paired by item. The table has its two-sided p
    of random sign flips by cluster, the replies that name no option with each place, and the
    difference among items whose replies name an option in both places.
    """
    measured, lines = list[Measured](), list[dict[str, Any]]()
    credit, read = np.array(judged.by_place), np.array(judged.read) > 0
    of_items = np.array(items.examples.categories)
    metric, places = items.metric, credit.shape[1]
    # An item may have several right options, or more options than places.
    guessed = np.broadcast_to(np.asarray(items.options.chance, float), len(credit))
    for category in ("", *categories):
        at: At = {"category": category} if category else {}
        kept = of_items == category if category else np.ones(len(credit), bool)
        own = credit[kept]
        examples = items.examples.select(np.flatnonzero(kept).tolist())
        # Rules make the same choice in each order.
        rules = {name: _floor(items, name).numpy() for name in items.blind if name != ALONE}
        floors = {name: float(earned[kept].mean()) for name, earned in rules.items()}
        chance = float(guessed[kept].mean())
        for place in range(places):
            where: At = {**at, "right_option": place + 1}
            measured.append(mean_credit(metric, where, own[:, place], examples, chance, floors))
        in_all, of_all = f"{metric}_in_all_orders", float((guessed[kept] ** places).mean())
        measured.append(mean_credit(in_all, at, own.prod(1), examples, of_all, floors))
        if places == 2:
            effect = gain(f"{metric}_order_effect", own[:, 0], own[:, 1], examples, at)
            measured.append(effect)
            _, cluster = np.unique(examples.clusters, return_inverse=True)
            p = sign_flip_p(np.bincount(cluster, own[:, 0] - own[:, 1]).astype(np.float64))
            low, high = effect.score.ci95 or (None, None)
            means = {"first": own[:, 0].mean(), "second": own[:, 1].mean()}
            estimate = {"effect": effect.score.value, "low": low, "high": high, "p": p}
            both = read[kept].all(1)
            unread = (~read[kept]).sum(0).tolist()
            of_read = {
                "unread_first": unread[0],
                "unread_second": unread[1],
                "read_in_both": int(both.sum()),
                "effect_of_read": float((own[both, 0] - own[both, 1]).mean())
                if both.any()
                else None,
            }
            lines.append({"category": category, "n": len(own), **means, **estimate, **of_read})
    return measured, pa.Table.from_pylist(lines)


def mean_credit(
    metric: str,
    at: At,
    credit: Floats,
    examples: Examples,
    chance: float | None,
    floors: Mapping[str, float] = {},
) -> Measured:
    """Return the mean credit [N] of examples, with an interval over their clusters."""
    estimate = clustered_mean(credit, examples.clusters)
    n = len(credit)
    mean = Score(metric, at=at, n=n, chance=chance, floors=floors, **estimate._asdict())
    return Measured(mean, examples, credit)


def _by_category(scores: Sequence[Score]) -> pa.Table:
    names, sizes = [str(score.at["category"]) for score in scores], [score.n for score in scores]
    return score_table(scores, {"category": names, "n": sizes})
