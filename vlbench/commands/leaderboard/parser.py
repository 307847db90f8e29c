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
    _add_merge(add("merge", "join the boards of several folders"))
    _add_reproduce(add("reproduce", "put a paper's numbers and findings beside what boards hold"))
    _add_export(add("export", "write boards as Markdown, CSV, LaTeX, JSON, or for others' sites"))
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


def _add_merge(merge: argparse.ArgumentParser) -> None:
    merge.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with boards")
    add_output(merge)
    merge.add_argument(
        "--check",
        action="store_true",
        help="write nothing; say in Markdown what is new in the DIRs, as a pull request would put "
        "them in the place of --output, and exit 1 if a row were changed or lost",
    )


def _add_export(export: argparse.ArgumentParser) -> None:
    export.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    export.add_argument(
        "--format",
        required=True,
        choices=["md", "csv", "tex", "json", "eee", "hf"],
        help="eee: records of Every Eval Ever; hf: .eval_results of the Hugging Face hub",
    )
    export.add_argument(
        "--to",
        type=Path,
        metavar="FILE|DIR",
        help="a file (with md: updated between its markers), or a folder for eee and hf; "
        "default: standard output",
    )
    export.add_argument(
        "--organization", default="", metavar="NAME", help="who ran these rows, for eee"
    )
    add_output(export)


def _add_compare(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("models", nargs="+", metavar="MODEL", help="two models or more")
    compare.add_argument(
        "--tasks", metavar="TASK,...", help="default: every board with scores of all the models"
    )
    compare.add_argument(
        "--all-scores", action="store_true", help="all scores, not only the primary one"
    )
    add_output(compare)


def _add_reproduce(reproduce: argparse.ArgumentParser) -> None:
    reproduce.add_argument(
        "paper", metavar="PAPER", help="the name of a file in tasks/**/claims/, or a paper's id"
    )
    add_output(reproduce)


def _add_page(page: argparse.ArgumentParser) -> None:
    page.add_argument("folder", type=Path, metavar="OUT", help="where index.html is written")
    add_output(page)
