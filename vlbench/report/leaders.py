"""The models that do not differ significantly from the leader of a board, on its primary score.

The result is computed from the items of a board's rows wherever it is shown, and no filter changes
it. Each model is compared only with the leader: two models that do not differ from the leader may
still differ from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.artifacts import read_items
from vlbench.boards.board import Board, board_file
from vlbench.boards.items import WEIGHTED, WrongItem, answered, worst_items
from vlbench.boards.joins import compare, items_of
from vlbench.errors import DataError
from vlbench.metrics.paired import among_all_pairs, detectable_among_all_pairs
from vlbench.report.rows import comparable_sets, cost, publishable
from vlbench.report.texts import score_name
from vlbench.results import Result, Score, matching

# A clear leader differs from every other published model; a leader differs from some or none.
BEST, LEADER = "clear leader", "leader"
TIED, BEHIND, UNTESTED = "tied", "behind", "not tested"
# Below this level a difference from the leader counts, after the correction for all pairs.
LEVEL = 0.05
# Why unpublished rows are not tested.
UNPUBLISHED = ("some of its data were missing", "its weights are random")


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


class Leaders(NamedTuple):
    """The leader of a set of comparable rows, and how the other models compare with it.

    `tied` lists the models that do not differ from the leader. `p` has the p of each tested model,
    corrected for all pairs of tested models without controls. `untested` has the reasons. `worst`
    are the items that the models, without controls, get wrong most often. `detectable` is the
    smallest difference from the leader that the test would have detected.
    """

    leader: str
    tied: Sequence[str]
    untested: Mapping[str, str]
    p: Mapping[str, float]
    worst: Sequence[WrongItem] = ()
    detectable: Mapping[str, float] = {}


def leaders_of(output: Path, board: Board, *, with_worst: bool = False) -> dict[str, Leaders]:
    """Return the leader of each set of a board, by `comparable`; empty for a summary.

    A set whose rows cannot lead is left out. The worst items are computed only `with_worst`.
    """
    if not board_file(output, board.task).is_file():
        return {}
    sets = sorted(comparable_sets(board.results).items())
    return {
        key: leaders
        for key, rows in sets
        if (leaders := _leaders(output, board, rows, with_worst=with_worst))
    }


def leaders_by_task(
    output: Path, boards: Iterable[Board], *, with_worst: bool = False
) -> dict[str, dict[str, Leaders]]:
    """Return the leaders of boards, by task."""
    return {board.task: leaders_of(output, board, with_worst=with_worst) for board in boards}


def leader_of(rows: Sequence[Result], primary: Mapping[str, Any]) -> str | None:
    """Return the model that leads comparable rows on a score; None if no row can lead.

    Nobody leads by a score that has no direction.
    """
    good, scored = publishable(rows), _scored(rows, primary)
    if any(score.higher_is_better is None for score in scored.values()):
        return None
    return min(scored, key=lambda m: (good[m].is_control, cost(scored[m]), m), default=None)


def _scored(rows: Sequence[Result], primary: Mapping[str, Any]) -> dict[str, Score]:
    good = publishable(rows)
    return {m: scores[0] for m, row in good.items() if (scores := matching(row.scores, primary))}


def _leaders(
    output: Path, board: Board, rows: Sequence[Result], *, with_worst: bool
) -> Leaders | None:
    """Compare the models of one set with its leader; None if no row can lead.

    A control ignores its inputs, and leads only other controls. It is compared with the leader; if
    it is ahead, the score is no evidence, and the control counts as tied. The correction for all
    pairs counts only candidates for the lead: neither controls nor rows whose items cannot be
    joined with the leader's items.
    """
    good, scored = publishable(rows), _scored(rows, board.primary)
    leader = leader_of(rows, board.primary)
    if leader is None:
        return None
    untested = {row.model: _reason(row, board.primary) for row in rows if row.model not in scored}
    higher, rivals = not scored[leader].lower_is_better, 1
    first, tested, models = None, {}, []
    for model in sorted(scored, key=lambda model: (model != leader, model)):
        try:
            items = items_of(model, read_items(output, good[model]), scored[model], first)
            is_rival = good[model].is_control <= good[leader].is_control
            models += [answered(items)] if with_worst and is_rival else []
            if model == leader:
                first = items
            elif first:
                tested[model] = compare(first, items, higher_is_better=higher)
                rivals += is_rival
        except DataError as error:
            untested[model] = str(error)
    if first is None:
        why = f"the leader cannot be compared: {untested.pop(leader)}"
        untested |= dict.fromkeys(set(scored) - {leader}, why)
    p = {m: among_all_pairs(test.p, max(rivals, 2)) for m, test in tested.items()}
    detectable = {
        model: detectable_among_all_pairs(test.detectable, max(rivals, 2))
        for model, test in tested.items()
    }
    sign = 1 if higher else -1
    tied = [m for m, test in tested.items() if p[m] >= LEVEL or sign * test.difference < 0]
    # The credit of a weighted item does not show whether the answer is right.
    is_weighted = str(board.primary["metric"]).endswith(WEIGHTED)
    worst = [] if is_weighted else worst_items(models, lower=not higher)
    return Leaders(leader, tied, dict(sorted(untested.items())), p, worst, detectable)


def _reason(row: Result, primary: Mapping[str, Any]) -> str:
    """Return why a row is not compared with the leader."""
    if not matching(row.scores, primary):
        return f"it has no score {score_name(primary['metric'], primary['at'])}"
    return UNPUBLISHED[0] if row.is_partial else UNPUBLISHED[1]
