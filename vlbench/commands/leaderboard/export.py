"""`vlbench leaderboard export`: write boards as Markdown, CSV, LaTeX, JSON, or for other sites."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_output
from vlbench.errors import OutputError, UnknownNameError, counted
from vlbench.files import write_whole
from vlbench.leaderboard import export as formats
from vlbench.leaderboard.export import LeftOut, Selection, listed, select
from vlbench.leaderboard.leaders import old_comparisons
from vlbench.leaderboard.rows import named_boards


def add_options(export: argparse.ArgumentParser) -> None:
    """Add the boards, their format, and where they are written."""
    export.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    export.add_argument(
        "--format",
        required=True,
        choices=sorted(one.name for one in iter_modules(formats.__path__)),
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


def answer(arguments: argparse.Namespace) -> Answer:
    """Write or return the export; the problems are the rows that it leaves out, and why."""
    form: Any = import_module(f"vlbench.leaderboard.export.{arguments.format}")
    if hasattr(form, "files") and arguments.to is None:
        raise UnknownNameError(f"--format {arguments.format} writes a folder; pass --to DIR")
    boards = named_boards(arguments.output, arguments.tasks)
    catalog = load_catalog(arguments.include_path)
    selection = select(arguments.output, boards, catalog, arguments.organization)
    if hasattr(form, "files"):
        return _folder(form, arguments.to, selection)
    code = 0 if selection.entries else FAILED
    problems = [*old_comparisons(arguments.output, [*selection.tables])]
    problems += listed(selection.left_out)
    if arguments.to is None:
        # What prints it ends it.
        return Answer([form.text(selection).removesuffix("\n").removesuffix("\r")], problems, code)
    write_whole(arguments.to, _content(form, arguments.to, selection))
    return Answer([f"wrote {arguments.to}"], problems, code)


def _content(form: Any, file: Path, selection: Selection) -> bytes:
    """Return what a file is to hold: some formats have a place in one that is there."""
    if not hasattr(form, "updated") or not file.exists():
        return bytes(form.text(selection).encode())
    try:
        content = file.read_bytes()
    except OSError as error:
        raise OutputError(f"cannot read {file}: {error.strerror}") from error
    return bytes(form.updated(content, selection, str(file)))


def _folder(form: Any, folder: Path, selection: Selection) -> Answer:
    """Write the files of a format that has many."""
    left_out, written = list(selection.left_out), 0
    for found in form.files(selection):
        if isinstance(found, LeftOut):
            left_out.append(found)
        else:
            write_whole(folder / found.place, found.content)
            written += 1
    shown = f"wrote {counted(written, 'file')} below {folder}"
    return Answer([shown], listed(left_out), 0 if written else FAILED)
