"""`vlbench leaderboard export`: write boards as Markdown, CSV, LaTeX, JSON, or for other sites."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from vlbench.boards.board import Board
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.library_names import row_name
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_output
from vlbench.errors import OutputError, UnknownNameError, counted, require_known
from vlbench.report import export as formats
from vlbench.report.export import (
    LeftOut,
    Selection,
    csv,
    left_out_lines,
    md,
    select,
    tex,
    unpublished_rows,
)
from vlbench.report.leaders import leaders_by_task
from vlbench.report.pivot import COLUMNS, Pivot, grid, lines, pivots, together
from vlbench.report.rows import named_boards
from vlbench.system.files import write_whole


def add_options(export: argparse.ArgumentParser) -> None:
    """Add the options for the boards, the format, and the output."""
    export.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    export.add_argument(
        "--format",
        required=True,
        choices=sorted(module.name for module in iter_modules(formats.__path__)),
        help="hf: .eval_results of the Hugging Face hub",
    )
    export.add_argument(
        "--pivot",
        action="store_true",
        help="models x tasks (md, tex, csv, json): a table per data set, or of the TASKs",
    )
    export.add_argument(
        "--models",
        type=lambda text: [row_name(name) for name in text.split(",")],
        default=[],
        metavar="NAME,...",
        help="default: all, by name",
    )
    export.add_argument(
        "-o",
        "--to",
        type=Path,
        metavar="FILE|DIR",
        help="a file (with md: updated between its markers), or a folder for hf; "
        "default: standard output",
    )
    add_output(export)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write or return the export; the problems are the rows left out, with the reasons."""
    form: Any = import_module(f"vlbench.report.export.{arguments.format}")
    if hasattr(form, "files") and arguments.to is None:
        raise UnknownNameError(f"--format {arguments.format} writes a folder; pass --to DIR")
    boards = named_boards(arguments.output, arguments.tasks)
    require_known("model", arguments.models, {row.model for one in boards for row in one.results})
    catalog = load_catalog(arguments.include_path)
    if arguments.pivot:
        return _pivot(arguments, boards, catalog)
    selection = select(arguments.output, boards, catalog, arguments.models)
    if hasattr(form, "files"):
        return _folder(form, arguments.to, selection)
    code = 0 if selection.entries else FAILED
    problems = left_out_lines(selection.left_out)
    if arguments.to is None:
        # The final line break is added when the text is printed.
        return Answer([form.text(selection).removesuffix("\n").removesuffix("\r")], problems, code)
    write_whole(arguments.to, _content(form, arguments.to, selection))
    return Answer([f"wrote {arguments.to}"], problems, code)


def _pivot(arguments: argparse.Namespace, boards: Sequence[Board], catalog: Catalog) -> Answer:
    """Write or return models x tasks. Raises UnknownNameError for a format without tables."""
    leaders = leaders_by_task(arguments.output, boards)
    tables = pivots(boards, catalog, leaders, arguments.models)
    tables = [together(boards, tables, arguments.models)] if arguments.tasks else tables
    if arguments.format not in PIVOTS:
        choices = ", ".join(PIVOTS)
        raise UnknownNameError(f"--pivot has the formats {choices}, not {arguments.format}")
    text = PIVOTS[arguments.format](tables)
    scored = [column.task for table in tables for column in table.columns]
    problems = [f"{one.task}: no model has scores" for one in boards if one.task not in scored]
    problems += unpublished_rows(boards, arguments.models)
    code = 0 if any(table.rows for table in tables) else FAILED
    if arguments.to is None:
        return Answer([text.removesuffix("\n").removesuffix("\r")], problems, code)
    write_whole(arguments.to, text.encode())
    return Answer([f"wrote {arguments.to}"], problems, code)


PIVOTS: Mapping[str, Callable[[Sequence[Pivot]], str]] = {
    "md": lambda tables: "\n".join(md.grid(grid(table)) for table in tables),
    "tex": lambda tables: tex.HEAD + "\n".join(tex.grid(grid(table)) for table in tables),
    "csv": lambda tables: csv.lines(COLUMNS, lines(tables)),
    "json": lambda tables: json.dumps(list(lines(tables)), indent=1, allow_nan=False) + "\n",
}


def _content(form: Any, file: Path, selection: Selection) -> bytes:
    """Return the new content of a file; some formats update an existing file."""
    if not hasattr(form, "updated") or not file.exists():
        return bytes(form.text(selection).encode())
    try:
        content = file.read_bytes()
    except OSError as error:
        raise OutputError(f"cannot read {file}: {error.strerror}") from error
    return bytes(form.updated(content, selection, str(file)))


def _folder(form: Any, folder: Path, selection: Selection) -> Answer:
    """Write the files of a format that has many files."""
    left_out, written = list(selection.left_out), 0
    for file in form.files(selection):
        if isinstance(file, LeftOut):
            left_out.append(file)
        else:
            write_whole(folder / file.place, file.content)
            written += 1
    line = f"wrote {counted(written, 'file')} below {folder}"
    return Answer([line], left_out_lines(left_out), 0 if written else FAILED)
