"""Where a model stands against the leader of its set, in one word."""

from __future__ import annotations

from collections.abc import Sequence

from vlbench.leaderboard.comparison.leaders import Leaders

# The leader is told apart from every other model; from some it is not, or they were not tested.
BEST, LEADER = "best", "leader"
TIED, BEHIND, UNTESTED = "tied", "behind", "untested"


def standings(leaders: Leaders | None, ranked: Sequence[str]) -> dict[str, str]:
    """Return the standing of each model of a set, of which the first has the best score.

    Empty where nothing was compared, or another model was taken for the leader.
    """
    if leaders is None or leaders.leader != ranked[0]:
        return {}
    known = dict.fromkeys(leaders.p, BEHIND) | dict.fromkeys(leaders.tied, TIED)
    found = {model: known.get(model, UNTESTED) for model in ranked[1:]}
    is_best = set(found.values()) == {BEHIND}
    return {leaders.leader: BEST if is_best else LEADER} | found
