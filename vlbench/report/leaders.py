"""Which models cannot be told apart from the leader of a board, on its primary score.

`build` writes `comparisons/<task>.json`; nothing else computes it, and no filter changes it. Each
model is compared with the leader alone: "not told apart" from it says nothing of two others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.artifacts import read_items
from vlbench.boards.board import SCHEMA, Board, board_digest, board_file, folder_boards
from vlbench.boards.items import WrongItem, answered, worst_items
from vlbench.boards.joins import compare, items_of
from vlbench.errors import DataError, SpecError
from vlbench.files import MOST_BOARD, file_name, read_text, write_whole
from vlbench.metrics.paired import Comparison, among_all_pairs, detectable_among_all_pairs
from vlbench.report.made import Keep, anew
from vlbench.report.rows import comparable_sets, cost, publishable
from vlbench.report.texts import few, score_name
from vlbench.results import Result, matching
from vlbench.schema import read

# The best is told apart from every other published model; a leader from some only, or from none.
BEST, LEADER = "best", "leader"
TIED, BEHIND, UNTESTED = "tied", "behind", "untested"


def standing(model: str, leaders: Leaders | None) -> str:
    """Return how a model compares with the leader of its set; empty if nothing was compared."""
    if leaders is None:
        return ""
    if model == leaders.leader:
        return BEST if _is_best(leaders) else LEADER
    if model in leaders.tied:
        return TIED
    if model in leaders.p:
        return BEHIND
    return UNTESTED if model in leaders.untested else ""


def _is_best(leaders: Leaders) -> bool:
    published = [why for why in leaders.untested.values() if why not in UNPUBLISHED]
    return bool(leaders.p) and not leaders.tied and not published


# Below it a difference from the leader counts, after the correction for all pairs.
LEVEL = 0.05


# Why rows that are not published are not tested.
UNPUBLISHED = ("some of its data were missing", "its weights are random")


class Leaders(NamedTuple):
    """The leader of a set of comparable rows, and how the others compare with it.

    `tied` cannot be told apart from it; `p` is that of each model tested, corrected for all pairs
    of those models that are tested and no controls; `untested` has the reasons. `worst` are the
    items that the models of the set get wrong most often. `detectable` is the difference from the
    leader that would have been found.
    """

    leader: str
    tied: Sequence[str]
    untested: Mapping[str, str]
    p: Mapping[str, float]
    worst: Sequence[WrongItem] = ()
    detectable: Mapping[str, float] = {}


@dataclass(frozen=True)
class _Pair:
    """The leader against a model: a positive difference is the leader's advantage.

    `detectable` is the least that is found with a power of 0.8, corrected for all pairs.
    """

    model: str
    difference: float
    ci95: tuple[float, float]
    p: float
    p_all_pairs: float
    items: int
    clusters: int
    detectable: float = 0.0


@dataclass(frozen=True)
class _Set:
    comparable: str
    leader: str
    tied: Sequence[str]
    pairs: Sequence[_Pair]
    untested: Mapping[str, str]
    worst: Sequence[WrongItem] = ()


@dataclass(frozen=True)
class _File:
    """What a file holds; `board` is the digest of the board that it was made from."""

    schema: int
    task: str
    version: int
    primary: Mapping[str, Any]
    board: str
    sets: Sequence[_Set]


def build_leaders(
    output: Path, boards: Mapping[str, Board] | None = None, keep: Keep = anew
) -> list[Path]:
    """Write the comparisons with the leaders of all boards, and return the files; remove others.

    The `boards` are those of the folder, where they are read already.
    """
    written = []
    for name, board in (folder_boards(output) if boards is None else boards).items():
        make = partial(_write, output, name, board)
        written += keep(f"comparisons/{name}", state_of(output, name, board), make)
    for old in set(output.glob("comparisons/*.json")) - set(written):
        old.unlink()
    return written


def _write(output: Path, name: str, board: Board) -> list[Path]:
    """Write the comparisons of a board; none where no row can lead."""
    rows = sorted(comparable_sets(board.results).items())
    sets = [found for key, same in rows if (found := _set(output, board, key, same))]
    if not sets:
        return []
    digest = board_digest(output / f"{name}.json")
    whole = _File(SCHEMA, board.task, board.version, dict(board.primary), digest, sets)
    file = output / "comparisons" / f"{name}.json"
    write_whole(file, (json.dumps(asdict(whole), indent=1, allow_nan=False) + "\n").encode())
    return [file]


def state_of(output: Path, name: str, board: Board) -> list[Any]:
    """Return what tells whether a board, or an artifact of its rows, has changed."""
    state: list[Any] = [board_digest(output / f"{name}.json")]
    for artifact in (one for row in board.results for one in row.artifacts.values()):
        with suppress(OSError):
            stat = (output / artifact["file"]).stat()
            state.append([stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns])
    return state


def comparisons_file(output: Path, task: str) -> Path:
    """Return the file of a task's comparisons. Raises SpecError for a name that is no file's."""
    return output / "comparisons" / f"{file_name(task)}.json"


class Comparisons(NamedTuple):
    """The leaders of a board's sets by `comparable`; none where the board `is_outdated` or unbuilt.

    It is outdated where they were made from another state of it.
    """

    leaders: Mapping[str, Leaders]
    is_outdated: bool


def read_comparisons(output: Path, task: str) -> Comparisons:
    """Return the comparisons of a task's board. Raises SpecError for a malformed file of them."""
    file = _read(output, task)
    if not file:
        return Comparisons({}, is_outdated=False)
    if file.board != board_digest(board_file(output, task)):
        return Comparisons({}, is_outdated=True)
    leaders = {
        one.comparable: Leaders(
            leader=one.leader,
            tied=one.tied,
            untested=one.untested,
            p={pair.model: pair.p_all_pairs for pair in one.pairs},
            worst=one.worst,
            detectable={pair.model: pair.detectable for pair in one.pairs},
        )
        for one in file.sets
    }
    return Comparisons(leaders, is_outdated=False)


def read_leaders(output: Path, task: str) -> Mapping[str, Leaders]:
    """Return the leaders of a task's board, by `comparable`; none where nothing says them."""
    return read_comparisons(output, task).leaders


def old_comparisons(output: Path, tasks: Sequence[str]) -> list[str]:
    """Return in one line the tasks whose comparisons are outdated, with what to do, if any are."""
    if not any(output.glob("comparisons/*.json")):
        return ["no board is compared with its leader yet; run vlbench leaderboard build"]
    old = [task for task in tasks if read_comparisons(output, task).is_outdated]
    warning = f"changed since compared with the leader: {few(old)}; run vlbench leaderboard build"
    return [warning] if old else []


def _read(output: Path, task: str) -> _File | None:
    """Return what a task's file of comparisons holds; None without the file or the board."""
    file = comparisons_file(output, task)
    if not (file.is_file() and board_file(output, task).is_file()):
        return None
    try:
        stored: _File = read(_File, json.loads(read_text(file, MOST_BOARD)))
    except (OSError, ValueError, RecursionError, SpecError) as error:
        raise SpecError(f"{file}: {error}; run vlbench leaderboard build") from error
    if stored.schema != SCHEMA:
        raise SpecError(f"{file}: has schema {stored.schema}; run vlbench leaderboard build")
    return stored


def _set(output: Path, board: Board, comparable: str, rows: Sequence[Result]) -> _Set | None:
    """Compare the models of one set with its leader; None where no row can lead.

    A control knows nothing, and leads only other controls. It is compared with the leader; where it
    is ahead, the score is no evidence, and it counts as tied. The correction for all pairs is for
    candidates for the lead: neither controls nor rows whose items cannot be joined with the
    leader's.
    """
    good = publishable(rows)
    scored = {m: one[0] for m, row in good.items() if (one := matching(row.scores, board.primary))}
    if not scored:
        return None
    untested = {row.model: _reason(row, board.primary) for row in rows if row.model not in scored}
    leader = min(scored, key=lambda m: (good[m].is_control, cost(scored[m]), m))
    higher, rivals = scored[leader].higher_is_better, 1
    first, tested, models = None, {}, []
    for model in sorted(scored, key=lambda model: (model != leader, model)):
        try:
            items = items_of(model, read_items(output, good[model]), scored[model], first)
            models.append(answered(items))
            if model == leader:
                first = items
            elif first:
                tested[model] = compare(first, items, higher_is_better=higher)
                rivals += good[model].is_control <= good[leader].is_control
        except DataError as error:
            untested[model] = str(error)
    if first is None:
        why = f"the leader cannot be compared: {untested.pop(leader)}"
        untested |= dict.fromkeys(set(scored) - {leader}, why)
    pairs = [
        _pair(model, comparison, max(rivals, 2), higher_is_better=higher)
        for model, comparison in tested.items()
    ]
    tied = [pair.model for pair in pairs if pair.p_all_pairs >= LEVEL or pair.difference < 0]
    worst = worst_items(models, lower=not higher)
    return _Set(comparable, leader, tied, pairs, dict(sorted(untested.items())), worst)


def _pair(model: str, comparison: Comparison, rivals: int, *, higher_is_better: bool) -> _Pair:
    """Return a comparison of the leader with a model, corrected for all pairs of the rivals."""
    sign = 1 if higher_is_better else -1
    low, high = sorted(sign * one for one in comparison.ci95)
    p = (comparison.p, among_all_pairs(comparison.p, rivals))
    detectable = detectable_among_all_pairs(comparison.detectable, rivals)
    numbers = (comparison.items, comparison.clusters)
    return _Pair(model, sign * comparison.difference, (low, high), *p, *numbers, detectable)


def _reason(row: Result, primary: Mapping[str, Any]) -> str:
    """Return why a row is compared with no leader."""
    if not matching(row.scores, primary):
        return f"it has no score {score_name(primary['metric'], primary['at'])}"
    return UNPUBLISHED[0] if row.is_partial else UNPUBLISHED[1]
