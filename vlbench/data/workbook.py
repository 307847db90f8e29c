"""Rows of a workbook of Excel (.xlsx), which VLMEvalKit writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlbench.data.formats.archives import DAMAGED, open_zip
from vlbench.errors import DataError
from vlbench.system.files import MOST_ANNOTATIONS, require_at_most

# The most columns of a row, above any known table's; Excel has 16,384.
MOST_COLUMNS = 1000


def read_workbook(file: Path, name: str) -> Iterator[tuple[list[Any], str]]:
    """Yield the cells of each row of the only sheet that is not empty, and where the row is.

    A cell is a text, a number, a bool, a date, or None if it is empty; formulas are not computed.
    The first row has the names of columns, as texts. Raises DataError.
    """
    try:
        import openpyxl  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise DataError(f"{name} is read with openpyxl: pip install 'vlbench[xlsx]'") from error
    try:
        require_at_most(file, MOST_ANNOTATIONS)
        with open_zip(file):
            book = openpyxl.load_workbook(file, read_only=True)
        try:
            rows = _rows(book, name)
            header = next(rows, ([], name))
            yield [_text(cell, header[1]) for cell in header[0]], header[1]
            yield from rows
        finally:
            book.close()
    except DAMAGED as error:
        raise DataError(f"{name} cannot be read as .xlsx: {error!s:.200}") from error


def _rows(book: Any, name: str) -> Iterator[tuple[list[Any], str]]:
    """Yield the rows of a workbook that are not blank. Raises DataError."""
    used = ""
    for sheet in book.worksheets:
        # The size that a sheet declares may be wrong, and is allocated.
        sheet.reset_dimensions()
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if len(row) > MOST_COLUMNS:
                raise DataError(f"{name}, row {number}, has over {MOST_COLUMNS} columns")
            cells = list(row)
            while cells and cells[-1] is None:
                cells.pop()
            if not cells:
                continue
            if used not in ("", sheet.title):
                what = f"{used!r:.40} and {sheet.title!r:.40}"
                raise DataError(f"{name} has two sheets, {what}; save one of them")
            used = sheet.title
            yield cells, f"{name}, row {number}"


def _text(cell: Any, where: str) -> str:
    if not isinstance(cell, str):
        raise DataError(f"{where}: the name of a column is {cell!r:.40}, not a text")
    return cell
