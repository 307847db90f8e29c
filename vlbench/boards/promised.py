"""What is promised of a row that is computed again: how far each of its scores may move.

docs/statistics.md, "The same numbers again".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from vlbench.errors import SpecError
from vlbench.results import Result, Score

# Scores are equal within this fraction of the larger score, or within this difference near 0.
RELATIVE, ABSOLUTE = 1e-6, 1e-9

# A score changes if items at a boundary change: by ITEMS of n, or by this fraction if n is large.
ITEMS, LEAST = 3, 1e-4

EQUAL, WITHIN, DIFFERENT, ABSENT = "equal", "within what is promised", "different", "absent now"

# Scores that the board does not record, such as all but the primary score of a control, are not
# compared.
NEW = "not on the board"

# Facts of the provenance that must be the same for the same row.
SAME = ("weights", "data", "adapter", "companions")


class ScoreChange(NamedTuple):
    """A score on the board and computed again, and the difference that is allowed."""

    board: Score | None
    now: Score | None
    allowed: float

    @property
    def score(self) -> Score:
        """Either score, for its name."""
        score = self.board or self.now
        assert score
        return score

    @property
    def difference(self) -> float:
        """The change of the score; 0 if either score is absent."""
        return self.now.value - self.board.value if self.board and self.now else 0.0

    @property
    def answer(self) -> str:
        """Equal, within the promised tolerance, different, or absent on either side."""
        if self.board is None or self.now is None:
            return ABSENT if self.board else NEW
        if math.isclose(self.board.value, self.now.value, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            return EQUAL
        within = abs(self.difference) <= self.allowed * (1 + RELATIVE)
        return WITHIN if within else DIFFERENT


def score_changes(row: Result, again: Result) -> list[ScoreChange]:
    """Return the change of each score of a row.

    Scores without training may change by max(1e-4, 3/n); scores without limits by that fraction of
    their value. Scores with training may also change by twice the standard error over their seeds.
    """
    board, now = _by_name(row.scores), _by_name(again.scores)
    trained = bool(again.run.get("trained"))
    changes = []
    for name in dict.fromkeys([*board, *now]):
        old, new = board.get(name), now.get(name)
        allowed = _moved_by_items(old) if old else 0.0
        if trained and old and new:
            allowed = max(allowed, 2 * _standard_error(new.draws))
        changes.append(ScoreChange(old, new, allowed))
    return changes


def within_promise(row: Result, again: Result) -> bool:
    """Return whether two rows are runs of one request that differ, as far as is promised."""
    same = all(row.provenance.get(key) == again.provenance.get(key) for key in SAME)
    same = same and (row.request, row.counts.get("n")) == (again.request, again.counts.get("n"))
    changes = score_changes(row, again) if same else []
    has_moved = any(change.difference for change in changes)
    return has_moved and all(change.answer in {EQUAL, WITHIN} for change in changes)


def _moved_by_items(score: Score) -> float:
    """Return how much items at a boundary may change a score."""
    unlimited = None in score.limits
    return max(LEAST, ITEMS / max(score.n, 1)) * (abs(score.value) if unlimited else 1.0)


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _by_name(scores: Sequence[Score]) -> Mapping[Hashable, Score]:
    by_key: dict[Hashable, Score] = {
        (score.metric, frozenset(score.at.items())): score for score in scores
    }
    if len(by_key) < len(scores):
        raise SpecError("two scores of a row have the same name and conditions")
    return by_key
