"""Where a model stands against the leader of its board, as `leaderboard build` tested it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlbench.boards import board_file
from vlbench.errors import SpecError
from vlbench.files import read_as
from vlbench.results import Result

# The leader is told apart from every other model; from some it is not, or they were not tested.
BEST, LEADER = "best", "leader"
TIED, BEHIND, UNTESTED = "tied", "behind", "untested"


@dataclass(frozen=True)
class _Set:
    """The comparisons of one set of comparable rows."""

    comparable: str
    leader: str
    tied: Sequence[str]
    pairs: Sequence[Mapping[str, Any]]
    untested: Mapping[str, str]


def standings(output: Path, ranked: Sequence[Result]) -> dict[str, str]:
    """Return the standing of each model of a comparable set, whose rows come best first.

    Empty where the set was not compared, or where its rows are others than those compared: then
    nothing is known of them. Raises SpecError for a file of comparisons that is none.
    """
    first = ranked[0]
    sets = [one for one in _read(output, first.task) if one.comparable == first.comparable]
    if not sets or sets[0].leader != first.model:
        return {}
    found = sets[0]
    known = dict.fromkeys((str(pair.get("model")) for pair in found.pairs), BEHIND)
    known |= dict.fromkeys(found.tied, TIED) | dict.fromkeys(found.untested, UNTESTED)
    alone = bool(known) and set(known.values()) == {BEHIND}
    known[found.leader] = BEST if alone else LEADER
    return known if all(row.model in known for row in ranked) else {}


def _read(output: Path, task: str) -> Sequence[_Set]:
    file = board_file(output / "comparisons", task)
    if not file.is_file():
        return []
    try:
        content = json.loads(file.read_text("utf-8"))
        found: Sequence[_Set] = read_as(Sequence[_Set], content["sets"], ("sets",))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SpecError) as error:
        why = f"{type(error).__name__}: {error}"
        raise SpecError(f"{file}: is no file of comparisons ({why}); build it again") from error
    return found
