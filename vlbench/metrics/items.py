"""Items: the table of each example's credit behind a score, which a paired test joins on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from vlbench.results import ITEM_COLUMNS, Artifact, Outcome, Range, Score

if TYPE_CHECKING:  # reading a board must not cost the import of torch
    from vlbench.metrics.ranking import Choice

_TEXT = pa.dictionary(pa.int32(), pa.string())

# One row for each metric, its conditions, trial and example.
SCHEMA = pa.schema(
    [
        (name, {"trial": pa.int32(), "credit": pa.float64()}.get(name, _TEXT))
        for name in ITEM_COLUMNS
    ]
)


# The separator of the names of an example's two clusters.
BOTH = "\t"

# An extra column of items of corpus scores; null for other items in the same table.
STATISTICS = pa.field("statistics", pa.list_(pa.float64()))

# The column of image digests, for items whose digests cover more than an image.
IMAGE = pa.field("image", _TEXT)


# Hex digits of an example's digest: 48 bits distinguish the examples of a data set. Older rows have
# more.
DIGITS = 12


class Examples(NamedTuple):
    """The identity of each of N examples, independent of the run.

    An id is unique within the data and the same in every run: a file's name, or a row number. A
    digest is a digest of the content. Examples of one cluster, such as the regions of an image, are
    not independent; if `clusters` is empty, each example is a separate cluster. The names of two
    clusters, such as two word pairs, are joined by `BOTH`. `images` are the digests of only the
    images, for examples whose digests cover more than an image. `categories` are the kinds of
    examples, by which they are scored.
    """

    ids: Sequence[str]
    digests: Sequence[str]
    clusters: Sequence[str] = ()
    images: Sequence[str] = ()
    categories: Sequence[str] = ()

    def select(self, places: Sequence[int]) -> Examples:
        """Return some of the examples."""
        return Examples(*([column[i] for i in places] if column else () for column in self))


class Answers(NamedTuple):
    """The answers of a model to N examples, and the right answers, as places in `names`.

    `chosen` is int [N], or [T, N] in T trials; -1 if several are tied. `right` is int [N].
    """

    names: Sequence[str]
    chosen: ArrayLike
    right: ArrayLike

    def select(self, places: ArrayLike) -> Answers:
        """Return the answers to some examples of a single trial, with only the names that they use.

        Example:
            >>> answers = Answers(["cat", "dog", "fox"], [0, 2], [0, 1]).select([0])
            >>> answers.names, answers.chosen.tolist(), answers.right.tolist()
            (['cat'], [0], [0])
        """
        both = np.stack([np.asarray(self.chosen), np.asarray(self.right)])[:, np.asarray(places)]
        used, numbers = np.unique(both, return_inverse=True)
        tied = used < 0
        chosen, right = numbers.reshape(both.shape) - tied.sum()
        return Answers([self.names[i] for i in used[~tied].tolist()], chosen, right)


class Options(NamedTuple):
    """What could be chosen for each of N examples, and what is right.

    `right` int [N] are places in `names`, which is empty if a choice has no single answer, such as
    five guesses. `chance` is how often guessing is right: one number, or [N]; None if chance is no
    reference. `majority` has, by
    name, the score of always choosing what is right most often.
    """

    names: Sequence[str]
    right: ArrayLike
    chance: ArrayLike | None
    majority: Mapping[str, float] = {}


def class_options(classes: Sequence[str], right: ArrayLike, guesses: int = 1) -> Options:
    """Return the options of images of classes; `right` int [N], and `guesses` are for each image.

    Example:
        >>> options = class_options(["cat", "dog", "fox", "hen"], [0, 0, 0, 1])
        >>> options.chance, options.majority
        (0.25, {'majority_class': 0.75})
    """
    label = np.asarray(right)
    common = np.sort(np.bincount(label, minlength=len(classes)))[-guesses:]
    floor = "majority_class" if guesses == 1 else "majority_classes"
    names = classes if guesses == 1 else ()
    return Options(names, label, guesses / len(classes), {floor: int(common.sum()) / len(label)})


class Items(NamedTuple):
    """One metric: what was chosen for each of N examples, of which the harness makes the score.

    `choice` is [N], or [T, N] in T trials (see `vlbench.metrics.ranking.Choice`). `floors` are, by
    name, numbers or choices of a rule on the same examples. `random` is what would be other in
    another experiment, and so what the interval is over: the items alone, or the items and random
    trials or training seeds. `blind` names the floors that use no image. `no_chance` is why chance
    is no reference, if it is None. `range` is given if the credit is no fraction, as for a
    difference of two fractions. `n` is the number of independent items; None: the number of items.
    """

    metric: str
    choice: Choice
    examples: Examples
    options: Options
    floors: Mapping[str, Choice | float] = {}
    at: Mapping[str, Any] = {}
    random: Literal["items", "trials", "seeds"] = "items"
    blind: Sequence[str] = ()
    no_chance: str = ""
    higher_is_better: bool | None = True
    range: Range | None = None
    n: int | None = None


def answers_among(
    candidates: Sequence[Sequence[str]], chosen: ArrayLike, right: Sequence[int]
) -> Answers:
    """Return the chosen and the right answers among the named candidates of each item.

    Example:
        >>> answers = answers_among([["cat", "dog"], ["dog", "fox"]], [0, 1], [0, 0])
        >>> [answers.names[i] for i in answers.chosen], [answers.names[i] for i in answers.right]
        (['cat', 'fox'], ['cat', 'dog'])
    """
    places = {name: i for i, name in enumerate(dict.fromkeys(chain(*candidates)))}
    pairs = zip(candidates, np.asarray(chosen).tolist(), right, strict=True)
    both = [
        (places[names[place]] if place >= 0 else -1, places[names[first]])
        for names, place, first in pairs
    ]
    return Answers([*places], *np.array(both).reshape(-1, 2).T)


def options_among(
    candidates: Sequence[Sequence[str]], choice: Choice, right: Sequence[int], chance: ArrayLike
) -> tuple[Choice, Options]:
    """Return a choice among each item's own candidates as a choice among all names, and options."""
    names, chosen, places = answers_among(candidates, choice.chosen, right)
    placed = choice.chosen.new_tensor(np.asarray(chosen))
    return choice._replace(chosen=placed), Options(names, places, chance)


def answers_in_words(replies: Sequence[Sequence[str]], right: Sequence[str]) -> Answers:
    """Return the texts that a model gave for N examples in each of T trials, and the right texts.

    Example:
        >>> answers = answers_in_words([["a cat", "a fox"]], ["a cat", "a dog"])
        >>> [answers.names[i] for i in answers.chosen], [answers.names[i] for i in answers.right]
        (['a cat', 'a fox'], ['a cat', 'a dog'])
    """
    places = {text: i for i, text in enumerate(dict.fromkeys(chain(right, *replies)))}
    chosen = [[places[text] for text in texts] for texts in replies]
    return Answers([*places], trials(chosen), [places[text] for text in right])


def at_text(at: Mapping[str, Any]) -> str:
    """Return the conditions of a score in the form of the column `at`.

    Example:
        >>> at_text({"shots": 5, "layer": "last"})
        '{"layer": "last", "shots": 5}'
    """
    return json.dumps(dict(at), sort_keys=True, ensure_ascii=False)


def item_table(
    examples: Examples,
    metric: str,
    at: Mapping[str, Any],
    credit: ArrayLike,
    answers: Answers | None = None,
) -> pa.Table:
    """Return the items of a score that is the mean of their credit.

    `credit` is [N], or [T, N] if the score is a mean of T trials; it is in [0, 1] if the score is a
    fraction. NaN in a trial marks an example that the trial leaves out, and is not stored. Raises
    ValueError for other shapes, for other credit that is not finite, and for an id that occurs
    twice.

    Example:
        >>> examples = Examples(["a", "b"], ["1", "2"])
        >>> table = item_table(examples, "accuracy", {}, [[1, 0], [1, np.nan]])
        >>> table.select(["id", "trial", "credit"]).to_pydict()
        {'id': ['a', 'b', 'a'], 'trial': [0, 0, 1], 'credit': [1.0, 0.0, 1.0]}
    """
    values = np.asarray(credit, np.float64)
    n = len(examples.ids)
    if values.ndim not in {1, 2} or values.shape[-1] != n:
        raise ValueError(f"{metric}: credit of shape {list(values.shape)} for {n} items")
    kept = ~np.isnan(values) if values.ndim == 2 else np.ones(n, bool)
    if not np.isfinite(values[kept]).all():
        raise ValueError(f"{metric}: the credit of an item is not finite")
    if len(set(examples.ids)) != n:
        raise ValueError(f"{metric}: the id of an item occurs twice")
    trial, place = np.nonzero(np.atleast_2d(kept))
    size, absent = len(place), pa.nulls(len(place), _TEXT)
    columns = {
        "id": _texts(examples.ids, place),
        "digest": _texts(examples.digests, place),
        "cluster": _texts(examples.clusters, place) if examples.clusters else absent,
        "metric": _texts([metric], np.zeros(size, int)),
        "at": _texts([at_text(at)], np.zeros(size, int)),
        "trial": _numbers(trial, pa.int32()) if values.ndim == 2 else pa.nulls(size, pa.int32()),
        "credit": _numbers(values[kept], pa.float64()),
        "prediction": absent,
        "target": absent,
    }
    if answers:
        chosen = np.broadcast_to(np.asarray(answers.chosen), values.shape)[kept]
        columns["prediction"] = _texts(answers.names, chosen)
        columns["target"] = _texts(answers.names, np.asarray(answers.right)[place])
    table = pa.table(columns, SCHEMA)
    if not examples.images:
        return table
    return table.append_column(IMAGE, _texts(examples.images, place))


def trials(values: Any) -> Any:
    """Return [T, ...] values of several trials unchanged, and drop the first axis if T is 1.

    Example:
        >>> trials([[1, 0], [1, 1]]), trials([[1, 0]])
        ([[1, 0], [1, 1]], [1, 0])
    """
    return values if len(values) > 1 else values[0]


class Measured(NamedTuple):
    """A score, and the arguments of `item_table` for its examples, if there are any.

    `statistics` [N, S] belong to a corpus score, which is not a mean.
    """

    score: Score
    examples: Examples | None = None
    credit: ArrayLike = ()
    answers: Answers | None = None
    statistics: NDArray[Any] | None = None

    @property
    def items(self) -> pa.Table | None:
        """The items of the score; None if it has no examples."""
        metric, at = self.score.metric, self.score.at
        if self.examples is None:
            return None
        table = item_table(self.examples, metric, at, self.credit, self.answers)
        if self.statistics is None:
            return table
        return table.append_column(STATISTICS, pa.array(self.statistics.tolist(), STATISTICS.type))


def outcome_of(
    measured: Sequence[Measured],
    counts: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
    artifacts: Mapping[str, Artifact] | None = None,
) -> Outcome:
    """Return the outcome of scores, with the items of all scores that have examples."""
    tables = [table for entry in measured if (table := entry.items) is not None]
    return Outcome(
        scores=[entry.score for entry in measured],
        counts=counts or {},
        artifacts=artifacts or {},
        notes=notes,
        items=join_items(tables),
    )


def score_table(scores: Sequence[Score], columns: Mapping[str, ArrayLike | pa.Array]) -> pa.Table:
    """Return a table of scores with more columns, and with the ends of the scores' intervals.

    Example:
        >>> score = Score("accuracy", 0.5, 8, {"layer": 3}, ci95=(0.25, 0.75))
        >>> score_table([score], {"layer": [3]}).to_pylist()
        [{'metric': 'accuracy', 'layer': 3, 'value': 0.5, 'low': 0.25, 'high': 0.75}]
    """
    low, high = ([score.ci95 and float(score.ci95[end]) for score in scores] for end in (0, 1))
    metrics, values = [score.metric for score in scores], [float(score.value) for score in scores]
    return pa.table({"metric": metrics, **columns, "value": values, "low": low, "high": high})


def join_outcomes(outcomes: Mapping[str, Outcome], key: str) -> Outcome:
    """Return the scores and items of outcomes as one, with the name of each under `key` in `at`.

    A note begins with the name of its outcome. Counts and artifacts are left out.

    Example:
        >>> parts = {name: Outcome([Score("accuracy", 0.5, 4)]) for name in ("first", "last")}
        >>> [score.at for score in join_outcomes(parts, "layer").scores]
        [{'layer': 'first'}, {'layer': 'last'}]
    """
    named = outcomes.items()
    return Outcome(
        scores=[replace(s, at={**s.at, key: name}) for name, part in named for s in part.scores],
        notes=[f"{name}: {note}" for name, part in named for note in part.notes],
        items=join_items(
            [under(part.items, {key: name}) for name, part in named if part.items is not None]
        ),
    )


def under(items: pa.Table, at: Mapping[str, Any]) -> pa.Table:
    """Return items with further conditions, which their existing conditions override."""
    column = items["at"].combine_chunks()
    texts = [at_text({**at, **json.loads(text)}) for text in column.dictionary.to_pylist()]
    renamed = pa.DictionaryArray.from_arrays(column.indices, pa.array(texts, pa.string()))
    return items.set_column(ITEM_COLUMNS.index("at"), "at", renamed)


def has_items(items: pa.Table | None, metric: str, at: Mapping[str, Any]) -> bool:
    """Return whether a table has items of a score."""
    return items is not None and of_score(items, metric, at).num_rows > 0


def items_as(
    items: pa.Table,
    metric: str,
    at: Mapping[str, Any],
    name: str,
    ids: Sequence[str] | None = None,
) -> pa.Table:
    """Return the items of a score, or only the items in `ids`, renamed to another metric."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    rows = of_score(items, metric, at)
    if ids is not None:
        rows = rows.filter(pc.is_in(rows["id"].cast(pa.string()), value_set=pa.array(ids)))
    names = _texts([name], np.zeros(rows.num_rows, int))
    return rows.set_column(ITEM_COLUMNS.index("metric"), "metric", names)


def credit_of(
    items: pa.Table, metric: str, at: Mapping[str, Any]
) -> tuple[Examples, NDArray[np.float64]]:
    """Return the examples of a score, sorted by id, and their credit [T, N] as in `item_table`.

    An example without a cluster is a separate cluster.

    Example:
        >>> table = item_table(Examples(["b", "a"], ["1", "2"]), "accuracy", {}, [1, 0])
        >>> examples, credit = credit_of(table, "accuracy", {})
        >>> examples.ids, credit.tolist()
        (['a', 'b'], [[0.0, 1.0]])
    """
    columns = ["id", "digest", "cluster", "trial", "credit"]
    rows = of_score(items, metric, at).select(columns).to_pylist()
    first = {row["id"]: row for row in reversed(rows)}
    ids = sorted(first)
    place = {name: i for i, name in enumerate(ids)}
    trial = [row["trial"] or 0 for row in rows]
    credit = np.full((max(trial) + 1, len(ids)), np.nan)
    credit[trial, [place[row["id"]] for row in rows]] = [row["credit"] for row in rows]
    clusters = [first[name]["cluster"] or name for name in ids]
    return Examples(ids, [first[name]["digest"] for name in ids], clusters), credit


def groups_of(examples: Examples) -> NDArray[np.intp]:
    """Return the group of each example, int [N] from 0: connected by clusters and equal digests.

    Example:
        >>> clusters = ["x", "x", "y", "z"]  # the second and the third have the same digest
        >>> groups_of(Examples(["a", "b", "c", "d"], ["1", "2", "2", "3"], clusters)).tolist()
        [0, 0, 0, 1]
    """
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - slow to import

    clusters, digests = (
        np.unique(names, return_inverse=True)[1] for names in (examples.clusters, examples.digests)
    )
    count = int(clusters.max()) + 1
    nodes = count + int(digests.max()) + 1
    links = coo_array((np.ones(len(clusters)), (clusters, count + digests)), (nodes, nodes))
    of_node: NDArray[Any] = connected_components(links, directed=False)[1]
    groups: NDArray[np.intp] = np.unique(of_node[clusters], return_inverse=True)[1]
    return groups


def of_score(items: pa.Table, metric: str, at: Mapping[str, Any]) -> pa.Table:
    """Return the items of a score in a table."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    is_own = (pc.equal(items["metric"], metric), pc.equal(items["at"], at_text(at)))
    return items.filter(pc.and_(*is_own))


def count_clusters(items: pa.Table, metric: str, at: Mapping[str, Any]) -> int:
    """Return the number of clusters of a score's items; one without a cluster counts by itself.

    Example:
        >>> examples = Examples(["a", "b", "c"], ["1", "2", "3"], ["x", "x", "y"])
        >>> count_clusters(item_table(examples, "accuracy", {}, [1, 1, 1]), "accuracy", {})
        2
    """
    rows = of_score(items, metric, at)
    pairs = zip(rows["cluster"].to_pylist(), rows["id"].to_pylist(), strict=True)
    return len({(cluster, None if cluster else name) for cluster, name in pairs})


def join_items(tables: Sequence[pa.Table]) -> pa.Table | None:
    """Return the items of several scores as one table; None if there are none."""
    if not tables:
        return None
    joined = pa.concat_tables(tables, promote_options="default")
    return joined.unify_dictionaries().combine_chunks()


def _texts(values: Sequence[str], places: NDArray[Any]) -> pa.Array:
    """Return the texts at places; null for -1."""
    encoded = [value.encode() for value in values]
    ends = _numbers(np.cumsum([0, *map(len, encoded)]), pa.int32()).buffers()[1]
    content = pa.py_buffer(b"".join(encoded))
    dictionary = pa.StringArray.from_buffers(len(encoded), ends, content)
    return pa.DictionaryArray.from_arrays(_numbers(places, pa.int32(), places >= 0), dictionary)


def _numbers(values: NDArray[Any], kind: pa.DataType, mask: ArrayLike = True) -> pa.Array:
    """Return numbers as a pyarrow array; null where they are not known.

    `pa.array` would import pandas, which takes 0.4 s of each run.
    """
    is_known = np.broadcast_to(np.asarray(mask, bool), values.shape)
    bits = None if is_known.all() else pa.py_buffer(np.packbits(is_known, bitorder="little"))
    plain = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(plain), [bits, pa.py_buffer(plain)])
