r"""LaTeX tables with booktabs, one for each set of comparable rows.

Every character of a text is printed literally. Letters of Latin-1 stay; every other character
beyond ASCII is spelled out (`\u65e5`), since pdfLaTeX stops if it has no font for a character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlbench.report.export import BOLD, Selection, heads, higher_is_better, texts
from vlbench.report.table import WITHOUT_DIRECTION, Entry, ScoreTable, directionless
from vlbench.report.texts import one_line

HEAD = "% Needs \\usepackage{booktabs} in the preamble.\n"
ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}

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
    **{c: "\\" + c for c in "{}$&#%_"},
}


def text(selection: Selection) -> str:
    """Return a table environment for each set of comparable rows."""
    return HEAD + "".join(_table(table) for same in selection.tables.values() for table in same)


def escaped(text: str) -> str:
    """Return a text as LaTeX that shows it literally, on one line."""
    plain = "".join(map(_settable, one_line(text)))
    # LaTeX would draw two of these in a row as one other character.
    return re.sub(r"([-',])(?=\1)", r"\1{}", "".join(SPELLED.get(c, c) for c in plain))


def _settable(character: str) -> str:
    letter = character.isalpha() and "\xc0" <= character <= "\xff" and character not in "ÐðÞþ"
    return character if character.isascii() or letter else ascii(character)[1:-1]


def _table(table: ScoreTable) -> str:
    head = [escaped(one) for one in heads(table)]
    head[1] += ARROWS[higher_is_better(table)]
    note = BOLD if any(entry.is_best for entry in table.entries) else ""
    rows = [head, *map(_row, table.entries)]
    first = grid(table.title, "lrrrrlll", rows, note, table.notes)
    if not (more := directionless(table)):
        return first
    cells = [[_number(cell) or "-" for cell in map(escaped, row)] for row in more]
    return first + grid(f"{table.title}: {WITHOUT_DIRECTION}", "llrrl", cells)


def grid(
    title: str,
    columns: str,
    rows: Sequence[Sequence[str]],
    note: str = "",
    notes: Sequence[str] = (),
) -> str:
    """Return a table environment of escaped cells; the first row is the header.

    `columns` has an l or an r for each column: left- or right-aligned. `notes` are those of rows.
    """
    head, *body = rows
    more = "".join(f" {escaped(one)}" for one in [note, *(f"{one}." for one in notes)] if one)
    lines = [
        "",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(title)}.{more}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line(head),
        r"\midrule",
        *map(_line, body),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _row(entry: Entry) -> list[str]:
    name, value, *rest = map(escaped, texts(entry))
    shown = [name, *map(_number, (value, *rest[:4])), *rest[4:]]
    return [rf"\textbf{{{cell}}}" for cell in shown[:2]] + shown[2:] if entry.is_best else shown


def _number(cell: str) -> str:
    """Return an escaped cell with minus signs, which are longer than hyphens."""
    return re.sub(r"\B-(?=\d)", "$-$", cell)


def _line(row: Sequence[str]) -> str:
    return " & ".join(row) + r" \\"
