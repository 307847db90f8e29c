"""The parser of `vlbench leaderboard`: its words and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

AddWord = Callable[[str, str], argparse.ArgumentParser]


def add_words(add: AddWord) -> None:
    """Add the words of `vlbench leaderboard`; `add` takes a word's name and what it does."""
    _add_show(add("show", "print boards as tables"))
    _add_build(add("build", "write summaries of groups, and figures"))
    _add_reproduce(add("reproduce", "put a paper's numbers and findings beside what boards hold"))


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


def _add_reproduce(reproduce: argparse.ArgumentParser) -> None:
    reproduce.add_argument(
        "paper", metavar="PAPER", help="the name of a file in tasks/**/claims/, or a paper's id"
    )
    add_output(reproduce)
