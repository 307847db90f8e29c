"""Everything that `vlbench leaderboard build` writes: summaries, comparisons and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.boards import read_board
from vlbench.catalog.catalog import Catalog
from vlbench.leaderboard.figures import draw_figures
from vlbench.leaderboard.head_figures import draw_heads
from vlbench.leaderboard.leaders import build_leaders
from vlbench.leaderboard.summaries import build_summaries


def build(output: Path, catalog: Catalog) -> list[Path]:
    """Write summaries, comparisons with the leaders, and figures of boards; return the files.

    Raises SpecError for a malformed board or summary before anything is computed or written.
    """
    for file in sorted([*output.glob("*.json"), *output.glob("summaries/*.json")]):
        read_board(file)
    groups = {name: task.group for name, task in catalog.tasks.items() if task.group}
    seen = {name: model.training_images or 0 for name, model in catalog.models.items()}
    written = [*build_summaries(output, groups), *build_leaders(output)]
    return [*written, *draw_figures(output, groups, seen), *draw_heads(output)]


def begins(output: Path, tasks: Sequence[str]) -> bool:
    """Return whether any of a group's tasks has a board."""
    return any((output / f"{task}.json").is_file() for task in tasks)
