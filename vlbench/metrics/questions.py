"""Metrics of generated questions: BLEU, ROUGE-L, METEOR and CIDEr of one question per image.

As in qgevalcap (Du et al. 2017, arXiv:1705.00106), words are separated by white space, and case and
attached punctuation are kept. The same metrics over Penn Treebank words have the suffix `_ptb`.

Two quirks of qgevalcap's script, which are not in its metrics, are not reproduced: it merges items
with the same source text, and it drops the last character of a file without a final newline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from vlbench.errors import SpecError
from vlbench.metrics.captions import CAPTION_METRICS, CaptionMetrics, Captions, CaptionScore
from vlbench.metrics.corpus import TREEBANK
from vlbench.metrics.text.words import plain_words, treebank_words

_AS_THEY_STAND = tuple(name for name in CAPTION_METRICS if name != "spice")

QUESTION_METRICS = (*_AS_THEY_STAND, *(f"{name}{TREEBANK}" for name in _AS_THEY_STAND))


class QuestionMetrics:
    """The metrics of these names, until the `with` that holds them ends.

    Raises SpecError for a name that is no metric, and DataAbsent where Java or a package is absent.
    """

    def __init__(self, names: Sequence[str] = QUESTION_METRICS) -> None:
        unknown = sorted(set(names) - set(QUESTION_METRICS))
        if unknown or not names:
            known = ", ".join(QUESTION_METRICS)
            raise SpecError(f"metrics of questions: unknown {unknown}; there are {known}")
        self._names = list(names)
        # One object for both tokenisations: METEOR runs as a process of 1.2 GB.
        kinds = dict.fromkeys(name.removesuffix(TREEBANK) for name in names)
        self._metrics = CaptionMetrics(list(kinds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._metrics.__exit__(*error)

    def __call__(self, questions: Captions, references: Captions) -> dict[str, CaptionScore]:
        """Return each metric of one question per image against all references of the image.

        Raises what `CaptionMetrics` does.
        """
        found: dict[str, CaptionScore] = {}
        for words, mark in ((plain_words, ""), (treebank_words, TREEBANK)):
            if any(name.endswith(TREEBANK) == bool(mark) for name in self._names):
                scores = self._metrics(questions, references, words=words)
                found |= {f"{name}{mark}": score for name, score in scores.items()}
        return {name: found[name] for name in self._names}
