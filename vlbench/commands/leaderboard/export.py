"""`vlbench leaderboard export`: write boards as Markdown, CSV, LaTeX, JSON, or for other sites."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_output
from vlbench.errors import OutputError, UnknownNameError, counted
from vlbench.files import write_whole
from vlbench.leaderboard.comparison.leaders import old_comparisons
from vlbench.leaderboard.export.every_eval_ever import Source
from vlbench.leaderboard.export.formats import FOLDERS, TEXTS
from vlbench.leaderboard.export.markdown import updated
from vlbench.leaderboard.export.selection import LeftOut, Selection, listed, select
from vlbench.leaderboard.rows import named_boards


def add_options(export: argparse.ArgumentParser) -> None:
    """Add the boards, their format, and where they are written."""
    export.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    export.add_argument(
        "--format",
        required=True,
        choices=[*TEXTS, *FOLDERS],
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
    if arguments.format in FOLDERS and arguments.to is None:
        raise UnknownNameError(f"--format {arguments.format} writes a folder; pass --to DIR")
    boards = named_boards(arguments.output, arguments.tasks)
    catalog = load_catalog(arguments.include_path)
    selection = select(arguments.output, boards, catalog)
    if arguments.format in FOLDERS:
        source = Source(arguments.output, catalog.models, arguments.organization)
        return _folder(arguments, selection, source)
    code = 0 if selection.parts else FAILED
    problems = [*old_comparisons(arguments.output, selection.tasks), *listed(selection.left_out)]
    if arguments.to is None:
        # What prints it ends it.
        text = TEXTS[arguments.format](selection).removesuffix("\n").removesuffix("\r")
        return Answer([text], problems, code)
    write_whole(arguments.to, _content(arguments.format, arguments.to, selection))
    return Answer([f"wrote {arguments.to}"], problems, code)


def _content(form: str, file: Path, selection: Selection) -> bytes:
    """Return the content of a file; Markdown goes between the markers of an existing one."""
    if form != "md" or not file.exists():
        return TEXTS[form](selection).encode()
    try:
        content = file.read_bytes()
    except OSError as error:
        raise OutputError(f"cannot read {file}: {error.strerror}") from error
    return updated(content, selection, str(file))


def _folder(arguments: argparse.Namespace, selection: Selection, source: Source) -> Answer:
    """Write the files of a format that has many."""
    left_out, written = list(selection.left_out), 0
    for part in FOLDERS[arguments.format](selection, source):
        if isinstance(part, LeftOut):
            left_out.append(part)
        else:
            write_whole(arguments.to / part.place, part.content)
            written += 1
    shown = f"wrote {counted(written, 'file')} below {arguments.to}"
    return Answer([shown], listed(left_out), 0 if written else FAILED)
