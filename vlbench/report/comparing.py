"""Pairwise comparison of models on the boards that contain all of them."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from glob import escape
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from vlbench.boards.artifacts import read_items
from vlbench.boards.board import Board, board_file, folder_boards, read_board
from vlbench.boards.items import scores_with_items
from vlbench.boards.joins import NoItemsError, RowItems, compare, items_of
from vlbench.errors import DataError, UnknownNameError, require_known
from vlbench.metrics.items import at_text
from vlbench.metrics.paired import Comparison, holm
from vlbench.report.data_sets import data_names, set_names
from vlbench.report.leaders import Leaders, leader_of, leaders_of
from vlbench.report.notes import joined_notes
from vlbench.report.rows import comparable_sets, cost, folder_of
from vlbench.report.texts import score_name
from vlbench.results import ITEMS, Result, Score, matching

Found = TypeVar("Found")


class PairedTest(NamedTuple):
    """The scores of two models on a task, and their comparison; `p_holm` is p after Holm's rule.

    `board_p` is p on the board, if one of the models leads there and primary scores are compared.
    """

    task: str
    models: tuple[str, str]
    scores: tuple[Score, Score]
    comparison: Comparison
    p_holm: float
    board_p: float | None = None


class Rank(NamedTuple):
    """A model's score among the compared models, and the ranks that it may have, from 1.

    `best` is 1 + the number of models that are better after Holm's rule over all pairs, and `worst`
    the number of models minus those that are worse.
    """

    model: str
    score: Score
    best: int
    worst: int


class Comparisons(NamedTuple):
    """What was compared, what was refused and why, and each model's tasks without items.

    `no_means` lists the scores that are not means over items, such as correlations. `lent` lists
    the models whose rows come from the boards that vlbench ships. `notes` are those of the rows.
    """

    compared: Sequence[PairedTest]
    refused: Sequence[str]
    lacking: Mapping[str, Sequence[str]]
    no_means: Sequence[str] = ()
    lent: Sequence[str] = ()
    notes: Sequence[str] = ()


def numbers_of(pair: PairedTest) -> dict[str, Any]:
    """Return the numbers of a comparison, by column, for frames, CSV and JSON."""
    (first, second), test = pair.scores, pair.comparison
    low, high = test.ci95
    return {
        "task": pair.task,
        "metric": first.metric,
        "at": at_text(first.at),
        "a": pair.models[0],
        "b": pair.models[1],
        "value_a": first.value,
        "value_b": second.value,
        "difference": test.difference,
        "ci95_low": low,
        "ci95_high": high,
        "unit": first.unit,
        "higher_is_better": first.higher_is_better,
        "p": test.p,
        "p_holm": pair.p_holm,
        "detectable": test.detectable,
        "items": test.items,
        "clusters": test.clusters,
    }


def compare_models(
    output: Path, models: Sequence[str], tasks: Sequence[str] = (), *, all_scores: bool = False
) -> Comparisons:
    """Compare each two of some models on a task's primary score, or on all scores that they share.

    If `tasks` is empty, every board that has scores of all the models is used. A glob is replaced
    by the models that it matches on the boards of the tasks. A model without rows
    in the output is read from the boards that vlbench ships. Holm's rule covers everything that is
    compared. Raises UnknownNameError for unknown boards and models, and for fewer than two models.
    """
    names = list(dict.fromkeys(_model_names(output, models, tasks)))
    if len(names) < 2:
        raise UnknownNameError(f"only {', '.join(names)} to compare; name two models or more")
    compared: list[PairedTest] = []
    refused: list[str] = []
    lacking: dict[str, list[str]] = {}
    no_means: list[str] = []
    noted: list[tuple[Result, str]] = []
    folders = {name: folder_of(output, name) for name in names}
    for board in _boards(output, folders, tasks):
        sets = _sets(board, names)
        if not sets:
            refused.append(f"{board.task}: {_why(folders, board, names)}")
        for label, rows in sets.items():
            without = [name for name, row in rows.items() if ITEMS not in row.artifacts]
            if without and not any(ITEMS in row.artifacts for row in board.results):
                no_means.append(
                    f"{board.task}: no row has items, because the scores are not means over items"
                )
                continue
            for name in without:
                lacking.setdefault(name, []).append(board.task)
            kept = {name: row for name, row in rows.items() if ITEMS in row.artifacts}
            comparison = _compare(output, folders, board, label, kept, all_scores=all_scores)
            compared += comparison.compared
            noted += [(row, label) for row in kept.values() if comparison.compared]
            refused += comparison.refused
            no_means += comparison.no_means
    adjusted = holm([pair.comparison.p for pair in compared])
    final = [pair._replace(p_holm=p) for pair, p in zip(compared, adjusted, strict=True)]
    shipped = [name for name, folder in folders.items() if folder != output]
    return Comparisons(final, refused, lacking, no_means, shipped, joined_notes(noted))


def ranks(report: Comparisons, level: float) -> dict[str, list[Rank]]:
    """Return the ranks of three models or more, best first, by task and score.

    A difference counts if p after Holm's rule is below `level`. Scores without a direction have no
    ranks.
    """
    by_score: dict[str, list[PairedTest]] = {}
    for pair in report.compared:
        if (score := pair.scores[0]).higher_is_better is not None:
            label = f"{pair.task}: {score_name(score.metric, score.at)}"
            by_score.setdefault(label, []).append(pair)
    ranked = {label: _ranks(pairs, level) for label, pairs in by_score.items()}
    return {label: places for label, places in ranked.items() if len(places) > 2}


def _ranks(compared: Sequence[PairedTest], level: float) -> list[Rank]:
    scores, better, worse = dict[str, Score](), Counter[str](), Counter[str]()
    for pair in compared:
        scores |= dict(zip(pair.models, pair.scores, strict=True))
        if pair.p_holm < level:
            sign = pair.comparison.difference * (-1 if pair.scores[0].lower_is_better else 1)
            first, last = pair.models if sign > 0 else pair.models[::-1]
            better[last] += 1
            worse[first] += 1
    ordered = sorted(scores, key=lambda model: (cost(scores[model]), model))
    n = len(ordered)
    return [Rank(m, scores[m], 1 + better[m], n - worse[m]) for m in ordered]


def _model_names(output: Path, models: Sequence[str], tasks: Sequence[str]) -> list[str]:
    """Return models, globs replaced by the models that they match on the boards of the tasks."""
    boards = [board for name, board in folder_boards(output).items() if not tasks or name in tasks]
    names = sorted({row.model for board in boards for row in _ok(board)})
    groups = [fnmatch.filter(names, model) if {*model} & {*"*?"} else [model] for model in models]
    return [*chain.from_iterable(groups)]


def _boards(output: Path, models: Mapping[str, Path], tasks: Sequence[str]) -> list[Board]:
    """Return the boards of the named tasks; if none is named, boards with scores of all models.

    `models` are the compared models with their folders.
    """
    boards = _with_lent(output, models)
    absent = [task for task in tasks if task not in boards]
    if absent or not boards:
        raise UnknownNameError(f"no board {', '.join(absent) or 'at all'} in {output}")
    names = {row.model for board in boards.values() for row in board.results}
    require_known(f"model on the boards in {output}", models, names)
    if tasks:
        return [boards[task] for task in dict.fromkeys(tasks)]
    common = [board for board in boards.values() if set(models) <= {r.model for r in _ok(board)}]
    if not common:
        raise UnknownNameError(f"no board in {output} has scores of each of {', '.join(models)}")
    return common


def _with_lent(output: Path, models: Mapping[str, Path]) -> dict[str, Board]:
    """Return a folder's boards by task, with the rows of models of other folders."""
    boards = folder_boards(output)
    for folder in dict.fromkeys(models.values()):
        for name, board in folder_boards(folder).items() if folder != output else ():
            rows = [row for row in board.results if models.get(row.model) == folder]
            if rows:
                boards[name] = _with_rows(boards.get(name), replace(board, results=rows))
    return boards


def _with_rows(board: Board | None, other: Board) -> Board:
    """Return a board with the rows of another folder's board, unless the versions differ."""
    if board is None or board.version != other.version:
        return board or other
    return replace(board, results=[*board.results, *other.results])


def _ok(board: Board) -> list[Result]:
    return [row for row in board.results if row.status == "ok"]


def _sets(board: Board, models: Sequence[str]) -> dict[str, dict[str, Result]]:
    """Return each set of comparable rows that contains all models, by the name of task and set."""
    names, tables = set_names(board.results), {}
    for key, same in comparable_sets(board.results).items():
        rows = {row.model: row for row in same}
        if set(models) <= set(rows):
            label = f"{board.task} ({names[key]})" if names[key] else board.task
            tables[label] = {model: rows[model] for model in models}
    return tables


def _why(folders: Mapping[str, Path], board: Board, models: Sequence[str]) -> str:
    """Return why the rows of a board may not be compared."""
    ok = {row.model: row for row in _ok(board)}
    for model in models:
        if model in ok:
            continue
        for row in board.results:
            if row.model == model:
                return f"{model} has no scores: {row.status}: {row.reason}"
        older = folders[model].glob(f"archive/{escape(board.task)}.v*.json")
        for file in [board_file(folders[model], board.task), *sorted(older)]:
            old = read_board(file)
            if old and model in {row.model for row in _ok(old)}:
                return (
                    f"{model} has scores of version {old.version}; the other models have version "
                    f"{board.version}"
                )
        return f"{model} has no row"
    first, *others = (ok[model].provenance for model in models)
    differ = [
        key
        for key in ("data", "companions")
        if any(first.get(key) != other.get(key) for other in others)
    ]
    what = " and ".join(differ) or "parameters of the task or regions"
    names, of = data_names(board.results), dict[str, None]()
    for row in _ok(board):
        of |= {f"{row.model} on {names[row.comparable]}": None} if row.model in models else {}
    which = f" ({', '.join(of)})" if "data" in differ else ""
    return f"the rows of {', '.join(models)} are not comparable: their {what} differ{which}"


def _compare(
    output: Path,
    folders: Mapping[str, Path],
    board: Board,
    label: str,
    rows: Mapping[str, Result],
    *,
    all_scores: bool,
) -> Comparisons:
    """Compare each two rows of a board; `folders` are the folders of the models."""
    try:
        tables = {model: read_items(folders[model], row) for model, row in rows.items()}
    except DataError as error:
        return Comparisons([], [f"{label}: {error}"], {})
    report = _Problems([], [])
    compared: list[PairedTest] = []
    (comparable,) = {row.comparable for row in rows.values()} or {""}
    stored = None if all_scores else read_board(board_file(output, board.task))
    same = comparable_sets(stored.results).get(comparable, []) if stored else []
    # The leader is known from the scores alone; its comparisons need the items of all models.
    leads = stored and leader_of(same, stored.primary) in rows
    leaders = leaders_of(output, stored).get(comparable) if stored and leads else None
    for key in _shared_scores(rows, tables) if all_scores else [board.primary]:
        name = f"{label}, {score_name(key['metric'], key['at'])}"
        comparisons = {
            model: items
            for model, row in rows.items()
            for items in report.of(name, _items_of, model, tables[model], matching(row.scores, key))
        }
        for a, b in combinations(comparisons, 2):
            (first, mine), (second, theirs) = comparisons[a], comparisons[b]
            better = partial(compare, higher_is_better=not first.lower_is_better)
            compared += [
                PairedTest(label, (a, b), (first, second), test, test.p, _board_p(leaders, a, b))
                for test in report.of(name, better, mine, theirs)
            ]
    return Comparisons(compared, report.refused, {}, report.no_means)


def _board_p(leaders: Leaders | None, a: str, b: str) -> float | None:
    """Return p of two models on their board; None if neither of them leads."""
    if leaders is None or leaders.leader not in {a, b}:
        return None
    return leaders.p.get(b if leaders.leader == a else a)


class _Problems(NamedTuple):
    """The reasons why scores are not compared."""

    refused: list[str]
    no_means: list[str]

    def of(self, name: str, function: Callable[..., Found], *arguments: Any) -> list[Found]:
        """Return the result of a function in a list; if it raises DataError, keep the reason."""
        try:
            return [function(*arguments)]
        except NoItemsError as error:
            self.no_means.append(f"{name}: {error}")
        except DataError as error:
            self.refused.append(f"{name}: {error}")
        return []


def _items_of(model: str, table: pa.Table, scores: Sequence[Score]) -> tuple[Score, RowItems]:
    if not scores:
        raise DataError(f"{model} has no such score")
    return scores[0], items_of(model, table, scores[0])


def _shared_scores(
    rows: Mapping[str, Result], tables: Mapping[str, pa.Table]
) -> list[Mapping[str, Any]]:
    """Return the scores that all rows have, with items, as metric and conditions."""
    lists = [scores_with_items(table) for table in tables.values()]
    first = next(iter(rows.values())).scores if rows else ()
    return [
        {"metric": score.metric, "at": score.at}
        for score in first
        if all((score.metric, at_text(score.at)) in keys for keys in lists)
    ]
