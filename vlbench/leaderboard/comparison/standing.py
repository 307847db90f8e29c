"""Where a model stands against the leader of its set, in one word: in tables, pages and exports."""

from __future__ import annotations

from vlbench.leaderboard.comparison.leaders import UNPUBLISHED, Leaders

# The best is told apart from every other published model; a leader from some only, or from none.
BEST, LEADER = "best", "leader"
TIED, BEHIND, UNTESTED = "tied", "behind", "untested"


def standing(model: str, leaders: Leaders | None) -> str:
    """Return how a model stands against the leader of its set; empty where nothing was compared."""
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
