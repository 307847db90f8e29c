"""Answers that others recorded, looked up in the files that have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vlbench.adapter_kit.recordings import Columns, Recordings, read_about
from vlbench.capabilities import Asked, Reply


class Recorded:
    """Answers in `path`: SugarCrepe's published ones, a table, or a log of lm-eval or lmms-eval.

    SugarCrepe's are a folder with positive-first and negative-first, of files as its authors
    published them for GPT-4V. A table is .csv, .jsonl or .parquet, with a row for each answer.
    `item` names the column with the place of the item in the data, from 0; else `image` names that
    of the image's name, and `texts` those of the options, or of the question and the options.
    `answer` is the column of what was said, or `scores` are those of a score for each option. One
    text names several columns with "|" between.
    `order` is the column of the options' numbers in the order in which they were shown, such as
    "1 0"; without it they were shown in the order of the data. `labels` says what names an option
    in an answer: letters, numbers, brackets for "(1)", or words. Of a log with several filters,
    `log_filter` is the one that is read.

    `about` is a file of YAML that tells the row who recorded them, when, with which prompt, where
    they are from, and what speaks against them (`recorded_by`, `recorded_on`, `prompt`, `source`,
    `caution`), by default `path`.yaml. What it does not tell is unknown.
    """

    def __init__(  # noqa: PLR0913 - the command line fills them by name
        self,
        *,
        path: Path,
        item: str = "",
        image: str = "image",
        texts: str | Sequence[str] = (),
        order: str = "",
        answer: str = "answer",
        scores: str | Sequence[str] = (),
        labels: Literal["letters", "numbers", "brackets", "words"] = "letters",
        log_filter: str = "",
        about: Path | None = None,
    ) -> None:
        columns = Columns(item, image, _names(texts), order, answer, _names(scores), log_filter)
        self._recordings = Recordings(path, columns, labels)
        self.labels = self._recordings.labels
        self.counts: dict[str, int] = {}
        beside = path.with_name(f"{path.name}.yaml")
        self.settled = read_about(about or beside, is_named=about is not None)

    def fingerprint(self) -> list[str]:
        """Return the digests of the files."""
        return self._recordings.digests

    def replies(self, items: Sequence[Asked]) -> list[list[Reply]]:
        """Return the replies to each item, several in the file's order."""
        found, self.counts = self._recordings.look_up(items)
        return found


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(given.split("|") if isinstance(given, str) else given)
