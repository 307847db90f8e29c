r"""LaTeX tables with booktabs, one for each set of comparable rows.

Every character of a text is printed literally. Letters of Latin-1 stay, and arrows up and
down are symbols; every other character beyond ASCII is spelled out (`\u65e5`), since pdfLaTeX stops
if it has no font for a character.
"""

from __future__ import annotations

import re

from vlbench.report.export import Selection, grids
from vlbench.report.texts import Grid, one_line

HEAD = "% Needs \\usepackage{booktabs} in the preamble.\n"

# LaTeX would read a bracket or a star after the end of a line as the argument of the line break.
SPELLED = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\texttt{\char34}",
    "`": r"\`{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    **{c: "\\" + c for c in "{}$&#%_"},
}


def text(selection: Selection) -> str:
    """Return a table environment for each set of comparable rows."""
    tables = [table for same in selection.tables.values() for table in same]
    return HEAD + "".join(grid(part) for table in tables for part in grids(table))


def escaped(text: str) -> str:
    """Return a text as LaTeX that shows it literally, on one line."""
    plain = "".join(map(_settable, one_line(text)))
    # LaTeX would draw two of these in a row as one other character.
    return re.sub(r"([-',])(?=\1)", r"\1{}", "".join(SPELLED.get(c, c) for c in plain))


def _settable(character: str) -> str:
    letter = character.isalpha() and "\xc0" <= character <= "\xff" and character not in "ÐðÞþ"
    is_known = character.isascii() or letter or character in SPELLED
    return character if is_known else ascii(character)[1:-1]


def grid(table: Grid) -> str:
    """Return a table environment with the notes in its caption."""
    # Imported here: the other formats do not need pandas, which takes 0.3 s.
    from pandas import DataFrame  # noqa: PLC0415

    rows = [[escaped(cell) for cell in row] for row in table.rows]
    for row in rows:
        for i in table.numbers:
            row[i] = _number(row[i])
    for i in table.best:
        rows[i][:2] = [rf"\textbf{{{cell}}}" for cell in rows[i][:2]]
    below = [f"{table.title}.", table.note, *(f"{note}." for note in table.notes)]
    frame = DataFrame(rows, columns=[escaped(head) for head in table.head])
    body = frame.style.hide(axis="index").to_latex(
        caption=" ".join(escaped(line) for line in below if line),
        column_format=table.columns,
        position_float="centering",
        hrules=True,
    )
    return f"\n{body}"


def _number(cell: str) -> str:
    """Return an escaped cell with minus signs, which are longer than hyphens."""
    return re.sub(r"\B-(?=\d)", "$-$", cell)
