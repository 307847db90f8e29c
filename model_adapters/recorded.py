"""Recorded answers, looked up in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vlbench.adapter_kit.recordings import Columns, Recordings, read_about, split_names
from vlbench.capabilities import Asked, Reply


class Recorded:
    """Answers in `path`: a log, a table, or answers as published with SugarCrepe, BLINK, LLaVA.

    Logs of lm-eval, lmms-eval and inspect_ai, tables of VLMEvalKit, and tables with the columns
    question, A, B and so on (or options), answer, and prediction or reply contain their items.

    Any other table has a row for each answer. A text may name several columns, separated by "|".

    Facts that `about` does not give are unknown.

    Args:
        path: folder with positive-first and negative-first, of files as SugarCrepe's authors
            published for GPT-4V; a table (.csv, .tsv, .xlsx, .jsonl, .parquet); or a log.
        item: column with the item's index in the data, from 0; empty: items are found by
            `image` and `texts`.
        image: column of the image's name, if there is no `item`.
        texts: columns of the options, or of the question and the options, if there is no `item`.
        order: column of the options' numbers in the order shown, such as `1 0`; empty: in the order
            of the data.
        answer: column of the answers; in a table that contains its items, `answer` is the right
            answer, and the answers are in `prediction` or `reply`.
        scores: columns of a score for each option, instead of `answer`.
        labels: how an answer names an option: `letters`, `numbers`, `brackets` for (1), or
            `words`.
        log_filter: filter to read from a log that has several; empty: the log has one filter.
        questions: file of the questions to which LLaVA's answers belong, such as
            llava_pope_test.jsonl; None: the prompts of the answers.
        about: YAML file with `recorded_by`, `recorded_on`, `prompt`, `source` and `caution`, a
            warning about the answers; None: `path`.yaml, if it exists.
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
        questions: Path | None = None,
        about: Path | None = None,
    ) -> None:
        columns = Columns(
            *(item, image, split_names(texts), order, answer, split_names(scores)),
            log_filter,
            questions,
        )
        self.arguments = {"path": path, **columns._asdict()}
        self._recordings = Recordings(path, columns, labels)
        self.labels = self._recordings.labels
        self.counts: dict[str, int] = {}
        self.notes: list[str] = []
        beside = path.with_name(f"{path.name}.yaml")
        self.settled = read_about(about or beside, is_named=about is not None)

    def fingerprint(self) -> list[str]:
        """Return the digests of the files."""
        return self._recordings.digests

    def replies(self, items: Sequence[Asked]) -> list[list[Reply]]:
        """Return the replies to each item; several replies are in the file's order."""
        replies, self.counts, self.notes = self._recordings.look_up(items)
        return replies
