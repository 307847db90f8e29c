"""The parser of `vlbench leaderboard`: its words and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

AddWord = Callable[[str, str], argparse.ArgumentParser]


def add_words(add: AddWord) -> None:
    """Add the words of `vlbench leaderboard`; `add` takes a word's name and what it does."""
    _add_show(add("show", "print boards as tables"))
    _add_build(add("build", "write summaries of groups, comparisons with the leaders, figures"))
    _add_compare(add("compare", "say which of some models is better, and how sure that is"))
    _add_page(add("page", "write all boards as one HTML file that needs no server"))


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where boards are."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("leaderboards"),
        metavar="DIR",
        help="where boards are (default: ./leaderboards)",
    )


def _add_show(show: argparse.ArgumentParser) -> None:
    show.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    add_output(show)


def _add_build(build: argparse.ArgumentParser) -> None:
    add_output(build)


def _add_compare(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("models", nargs="+", metavar="MODEL", help="two models or more")
    compare.add_argument(
        "--tasks", metavar="TASK,...", help="default: every board with scores of all the models"
    )
    compare.add_argument(
        "--all-scores", action="store_true", help="all scores, not only the primary one"
    )
    add_output(compare)


def _add_page(page: argparse.ArgumentParser) -> None:
    page.add_argument("folder", type=Path, metavar="OUT", help="where index.html is written")
    add_output(page)
