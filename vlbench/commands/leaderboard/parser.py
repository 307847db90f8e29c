"""The parser of `vlbench leaderboard`: its words and their options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

# Of numbers on the command line.
MOST_DIGITS = 18

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
    _add_rate(add("rate", "write sheets for human ratings of questions, and read the filled ones"))


def of_environment(variable: str, default: str) -> str:
    """Return the default of an option: the value of a variable that is set and not empty, if any.

    argparse converts a default that is a text as it does a word of the command line.
    """
    return os.environ.get(variable) or default


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where boards are."""
    parser.add_argument(
        "--output",
        type=Path,
        default=of_environment("VLBENCH_OUTPUT", "leaderboards"),
        metavar="DIR",
        help="where boards are (default: ./leaderboards)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that reads a task's data."""
    parser.add_argument(
        "--data-dir",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="where data lie: in place of $VLBENCH_DATA, or with NAME= the root of a task, or of a "
        "loader, such as hub:images; may be repeated",
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets files name functions of any package."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let files name functions of any package, which are imported and called",
    )


def positive(text: str) -> int:
    """Return a whole number from 1. Raises ArgumentTypeError for another text."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not '{text:.20}'")
    return int(text)


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
        choices=_formats(),
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


def _formats() -> list[str]:
    """Return the names of the modules of `vlbench.leaderboard.export`, which are not imported."""
    found = find_spec("vlbench.leaderboard.export")
    assert found
    return sorted(module.name for module in iter_modules(found.submodule_search_locations))


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


def _add_rate(rate: argparse.ArgumentParser) -> None:
    rate.add_argument(
        "folder", type=Path, metavar="OUT", help="the folder of the sheets and their key"
    )
    rate.add_argument(
        "--of",
        nargs=2,
        metavar=("TASK", "MODEL"),
        help="write the sheets for this row; without it, read the filled sheets in OUT",
    )
    rate.add_argument(
        "--steps",
        default="1,2,3",
        metavar="STEP,...",
        help="the systems compared with the human questions (default: 1,2,3)",
    )
    rate.add_argument(
        "--images", type=positive, default=50, metavar="N", help="images to sample (default: 50)"
    )
    rate.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of the sample and the order (default: 0)",
    )
    add_data(rate)
    add_trust(rate)
    add_output(rate)


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, not '{text:.20}'")
    return int(text)
