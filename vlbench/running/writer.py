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

    def save_artifacts(self, row: Result, outcome: Outcome) -> dict[str, dict[str, str]]:
        """Return where each artifact was saved, and its checksum; nothing where nothing is."""
        if not self._output:
            return {}
        return boards.save_artifacts(self._output, row.task, row.model, outcome.artifacts)

    def write(self, row: Result) -> Result:
        """Put a row on its task's board, and return it."""
        if self._output:
            boards.write_result(self._output, row)
        return row
