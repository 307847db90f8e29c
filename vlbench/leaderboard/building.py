"""Everything that `vlbench leaderboard build` writes: summaries, comparisons and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.boards import folder_boards, read_board
from vlbench.catalog.catalog import Catalog
from vlbench.leaderboard.comparison.leaders import build_leaders
from vlbench.leaderboard.figures.caption_figures import draw_match_scores
from vlbench.leaderboard.figures.cross_figures import draw_squares
from vlbench.leaderboard.figures.favourite_figures import draw_favourites
from vlbench.leaderboard.figures.figures import draw_figures
from vlbench.leaderboard.figures.head_figures import draw_heads
from vlbench.leaderboard.figures.looks import looks_of
from vlbench.leaderboard.summaries import build_summaries, with_matrices


def build(output: Path, catalog: Catalog) -> list[Path]:
    """Write summaries, comparisons with the leaders, and figures of boards; return the files.

    Raises SpecError for a malformed board or summary before anything is computed or written.
    """
    boards = folder_boards(output)
    for file in sorted(output.glob("summaries/*.json")):
        read_board(file)
    groups = {name: task.group for name, task in catalog.tasks.items() if task.group}
    groups = with_matrices(boards, groups)
    seen = {name: model.training_images or 0 for name, model in catalog.models.items()}
    looks = looks_of(boards.values())
    written = [*build_summaries(output, boards, groups, looks), *build_leaders(output)]
    written += [*draw_figures(output, boards, groups, seen, looks)]
    written += [*draw_heads(output, boards, looks), *draw_match_scores(output, boards)]
    return [*written, *draw_squares(output, boards), *draw_favourites(output, boards)]


def begins(output: Path, tasks: Sequence[str]) -> bool:
    """Return whether any of a group's tasks has a board."""
    return any((output / f"{task}.json").is_file() for task in tasks)
