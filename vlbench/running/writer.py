"""Rows written to their boards, where a run writes any."""

from __future__ import annotations

from pathlib import Path

from vlbench import boards
from vlbench.planning.options import Options
from vlbench.results import Outcome, Result


class RowWriter:
    """Writes rows to the boards of a run; of several processes one writes, and none with --limit.

    Raises OutputError where boards cannot be written, before anything is computed for them.
    """

    def __init__(self, options: Options, *, writes: bool) -> None:
        wanted = writes and options.limit is None
        self._output: Path | None = options.output if wanted else None
        self._overwrite = options.overwrite
        if self._output:
            boards.require_writable(self._output)

    def refuse_clash(self, row: Result) -> None:
        """Raise IdentityClash where the board has this row's name with other weights or source."""
        if self._output and not self._overwrite:
            boards.refuse_clash(self._output, row)

    def write(self, row: Result, outcome: Outcome | None = None) -> Result:
        """Put a row on its task's board, with the artifacts of its outcome, and return it.

        Raises IdentityClash where another run has put other weights there under the same name.
        """
        if not self._output:
            return row
        artifacts = outcome.saved() if outcome else {}
        return boards.write_result(self._output, row, artifacts, overwrite=self._overwrite)
