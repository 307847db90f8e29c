"""Markdown tables between markers, which can update a README in place.

All text in a cell is escaped, so GitHub shows each name literally: no HTML, no link, no formula, no
further column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlbench.errors import SpecError
from vlbench.files import safe_name
from vlbench.report.export import BOLD, Selection, heads, higher_is_better, texts
from vlbench.report.table import WITHOUT_DIRECTION, ScoreTable, directionless
from vlbench.report.texts import one_line

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
ARROWS = {True: " ↑", False: " ↓", None: ""}
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
    plain = re.sub("[&<>]", lambda one: ENTITIES[one[0]], plain)
    return plain.replace("www.", r"www\.")


def _block(task: str, tables: Sequence[ScoreTable]) -> str:
    begin, end = _markers(task)
    inside = "\n".join(map(_table, tables)) or f"{escaped(task)}: no rows to show.\n"
    return f"{begin}\n{inside}{end}\n"


def _table(table: ScoreTable) -> str:
    """Return one table below its title."""
    head = [escaped(one) for one in heads(table)]
    head[1] += ARROWS[higher_is_better(table)]
    rows = [head]
    for entry in table.entries:
        row = [escaped(cell) for cell in texts(entry)]
        bold = [f"**{cell}**" for cell in row[:2]] if entry.is_best else row[:2]
        rows.append([*bold, *row[2:]])
    note = BOLD if any(entry.is_best for entry in table.entries) else ""
    first = grid(table.title, "lrrrrlll", rows, note, table.notes)
    if not (more := directionless(table)):
        return first
    cells = [[escaped(cell) or "-" for cell in row] for row in more]
    return "\n".join([first, grid(f"{table.title}: {WITHOUT_DIRECTION}", "llrrl", cells)])


def grid(
    title: str,
    columns: str,
    rows: Sequence[Sequence[str]],
    note: str = "",
    notes: Sequence[str] = (),
) -> str:
    """Return a table of escaped cells below its title; the first row is the header.

    `columns` has an l or an r for each column: left- or right-aligned. `notes` are those of rows.
    """
    head, *body = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, [RULES[one] for one in columns], *body)]
    below = [*(["", note] if note else [])]
    below += ["", *(f"- {escaped(one)}" for one in notes)] if notes else []
    return "\n".join([f"**{escaped(title)}**", "", *lines, *below, ""])


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
