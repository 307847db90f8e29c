"""Markdown tables between markers, which can update a README in place.

All text in a cell is escaped, so GitHub shows each name literally: no HTML, no link, no formula, no
further column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlbench.errors import SpecError
from vlbench.report.export import Selection, grids
from vlbench.report.table import ScoreTable
from vlbench.report.texts import Grid, one_line
from vlbench.system.files import safe_name

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
RULES = {"l": "---", "r": "---:"}


def text(selection: Selection) -> str:
    """Return the tables of each board between its markers."""
    return "\n".join(_block(task, tables) for task, tables in selection.tables.items())


def updated(content: bytes, selection: Selection, name: str) -> bytes:
    """Return a file with the tables between its markers replaced and the rest unchanged.

    Raises SpecError with the name of the file if a board's markers are missing, doubled or crossed.
    """
    problems = []
    for task, tables in selection.tables.items():
        markers = [_places(content, line) for line in _markers(task)]
        if [len(places) for places in markers] == [1, 1] and markers[0][0].start() < markers[1][
            0
        ].start():
            block = _block(task, tables).rstrip("\n").encode()
            block = block.replace(b"\n", b"\r\n") if b"\r\n" in content else block
            content = content[: markers[0][0].start()] + block + content[markers[1][0].end() :]
        else:
            problems.append(_problem(task, len(markers[0]), len(markers[1])))
    if problems:
        raise SpecError("\n".join(f"{name}: {problem}" for problem in problems))
    return content


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it literally, on one line."""
    plain = re.sub(r"[\\`*_\[\]|~$:@#!{}]", r"\\\g<0>", one_line(text))
    plain = re.sub("[&<>]", lambda match: ENTITIES[match[0]], plain)
    return plain.replace("www.", r"www\.")


def _block(task: str, tables: Sequence[ScoreTable]) -> str:
    begin, end = _markers(task)
    inside = "\n".join(grid(part) for table in tables for part in grids(table))
    inside = inside or f"{escaped(task)}: no rows to show.\n"
    return f"{begin}\n{inside}{end}\n"


def grid(table: Grid) -> str:
    """Return a table below its title, and its notes."""
    head, *rows = [[escaped(cell) for cell in row] for row in (table.head, *table.rows)]
    rule = [RULES[column] for column in table.columns]
    for i in table.best:
        rows[i][:2] = [f"**{cell}**" for cell in rows[i][:2]]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
    below = ["", table.note] if table.note else []
    below += ["", *(f"- {escaped(note)}" for note in table.notes)] if table.notes else []
    return "\n".join([f"**{escaped(table.title)}**", "", *lines, *below, ""])


def _markers(task: str) -> tuple[str, str]:
    name = safe_name(task)
    return f"<!-- vlbench:begin {name} -->", f"<!-- vlbench:end {name} -->"


def _places(content: bytes, line: str) -> list[re.Match[bytes]]:
    """Return the places of a line; a match excludes the end of the line."""
    return list(re.finditer(rb"^" + re.escape(line.encode()) + rb"(?=\r?$)", content, re.MULTILINE))


def _problem(task: str, begins: int, ends: int) -> str:
    lines = "\n".join(_markers(task))
    if begins > 1 or ends > 1:
        return f"the markers of {task} occur more than once; keep one of each:\n{lines}"
    if begins and ends:
        return f"the markers of {task} are out of order; put them in this order:\n{lines}"
    return f"has no markers for {task}; add these lines where its table should be:\n{lines}"
