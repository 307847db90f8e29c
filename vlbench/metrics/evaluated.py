"""Metrics of Hugging Face `evaluate`, by a name or the path of a script."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vlbench.errors import IMPORT_ERRORS, DataError, PackageAbsent

# Prefix of the names of these metrics.
PREFIX = "evaluate:"


class Value(NamedTuple):
    """A score with a value only: no standard error and no interval."""

    value: float


class Evaluated:
    """A metric of `evaluate`, loaded at once: a name on the hub, or the path of a script.

    A script is executed: name only scripts that you trust. Raises DataAbsent if the package is not
    installed, and DataError if the metric cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        evaluate = _package()
        try:
            self._metric = evaluate.load(name.removeprefix(PREFIX), keep_in_memory=True)
        except IMPORT_ERRORS as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise DataError(f"{name} cannot be loaded ({why:.200})") from error

    def __call__(self, captions: Sequence[str], references: Sequence[Sequence[str]]) -> Value:
        """Return the score of unchanged captions [N], each against its references.

        A metric that takes one reference gets the first. Raises DataError for a score that is not a
        finite number.
        """
        gold = list(references) if self._takes_several() else [texts[0] for texts in references]
        result = self._metric.compute(predictions=list(captions), references=gold)
        return Value(self._number(result))

    def _takes_several(self) -> bool:
        """Return whether the metric accepts a list of references per item."""
        forms = self._metric.features
        forms = forms if isinstance(forms, list) else [forms]
        return any(type(form["references"]).__name__ != "Value" for form in forms)

    def _number(self, result: Any) -> float:
        """Return the number under the metric's name, or the only number of the result."""
        results = result if isinstance(result, Mapping) else {}
        numbers = {k: float(v) for k, v in results.items() if _is_number(v)}
        named = numbers.get(self._metric.name)
        if named is None and len(numbers) == 1:
            (named,) = numbers.values()
        if named is None or not math.isfinite(named):
            returned = ", ".join(f"{k}: {v!r:.20}" for k, v in results.items())
            raise DataError(f"{self.name} did not return its number ({returned:.200})")
        return named


def _package() -> Any:
    try:
        # The import takes seconds, and only tasks that name such a metric need the package.
        return importlib.import_module("evaluate")
    except ImportError as error:
        raise PackageAbsent("the package evaluate", "pip install evaluate") from error


def _is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
