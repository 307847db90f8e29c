"""Whether the classes of a model's own classifier are those of the data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import Tensor

from vlbench.capabilities import Classifier
from vlbench.errors import CannotDo


def refuse_other_classes(model: Classifier, logits: Tensor, classes: Sequence[str]) -> None:
    """Raise CannotDo where logits [N, C] of a model are not of these classes.

    They are where there are as many logits as classes, and, where both have names in letters, at
    least one class shares a word with the data's class of the same number. Raises ValueError for
    logits of another shape.
    """
    if logits.ndim != 2:
        raise ValueError(f"logits have shape {list(logits.shape)}; wanted [N, C]")
    if logits.shape[1] != len(classes):
        count = logits.shape[1]
        raise CannotDo(f"the model's own classifier has {count} classes, the data {len(classes)}")
    try:
        names = model.class_names()
    except CannotDo:  # the checkpoint's names are unknown, so only their number is compared
        return
    pairs = [(_words(a), _words(b)) for a, b in zip(names, classes, strict=False)]
    in_letters = [(a, b) for a, b in pairs if a and b]
    if in_letters and not any(a & b for a, b in in_letters):
        first = f"its first is '{names[0]}', the data's '{classes[0]}'"
        raise CannotDo(f"the classes of the model's own classifier are not the data's: {first}")


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name.lower()))
