"""The columns of the tables for people, Markdown's and LaTeX's: the same for every board."""

from __future__ import annotations

from vlbench.leaderboard.comparison.standing import BEST
from vlbench.leaderboard.export.selection import Entry, Part
from vlbench.leaderboard.rows import ties_mark
from vlbench.leaderboard.tables import floor_text, interval, number, score_name
from vlbench.leaderboard.texts import one_line

# What stands below a table with a model in bold.
BOLD = "Bold: told apart from every other model at 5 % (paired tests, Holm)."


def heads(part: Part) -> list[str]:
    """Return the heads of the columns; the second is the primary score of the board."""
    others = ("95 % interval", "n", "chance", "highest floor", "published", "against the leader")
    primary = part.board.primary
    return ["model", score_name(primary["metric"], primary["at"]), *others]


def higher_is_better(part: Part) -> bool | None:
    """Return which direction of the primary score is better; None where no row has it."""
    scores = [entry.primary for entry in part.entries if entry.primary]
    return scores[0].higher_is_better if scores else None


def cells(entry: Entry) -> list[str]:
    """Return the cells of a row, a dash for what is not known."""
    score = entry.primary
    if score is None:
        return [one_line(entry.row.model), *["-"] * 7]
    return [
        one_line(entry.row.model),
        number(score.value, score.unit) + ties_mark(entry.row),
        interval(score),
        str(score.n),
        number(score.chance, score.unit),
        one_line(floor_text(score)),
        one_line(_published(entry)),
        entry.standing or "-",
    ]


def is_best(entry: Entry) -> bool:
    """Return whether the model is told apart from every other one of its set."""
    return entry.standing == BEST


def _published(entry: Entry) -> str:
    """Return a paper's number, where it stands, and how many standard errors ours lies above it."""
    given, score = entry.reference, entry.primary
    if given is None or score is None:
        return "-"
    off = "" if given.in_stderr is None else f" (ours {given.in_stderr:+.1f} SE)"
    return f"{number(given.value, score.unit)}, {given.where}{off}"
