"""Pairing of a classifier's outputs with the classes of the data: by name, number or known order.

Place is not enough: equally many outputs and classes may still be in different orders.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from vlbench.capabilities import Classifier
from vlbench.data.records import OUTPUT_NUMBERS, Data
from vlbench.errors import CannotDo, require_known

# Names that transformers gives to the classes of a checkpoint without class names.
GENERIC = re.compile(r"label[ _-]?\d+", re.IGNORECASE)

# For a model whose outputs have no meaning, such as a control: they fit any classes in any order.
ANY_ORDER = "any"

# Most unpaired names listed in a message.
SHOWN = 3

WAYS_OUT = (
    "give the outputs' names with --model-args classes=FILE, one per line; or, where the data's "
    "folders are numbers of outputs, set class_numbers_are_outputs: true in the task's data"
)


class Pairs(NamedTuple):
    """The number of the output of each class of the data, and how they were paired.

    `outputs` is None if outputs are already in the order of the classes.
    """

    outputs: list[int] | None
    note: str

    def of_classes(self, logits: Tensor) -> Tensor:
        """Return logits [N, C] in the order of the data's classes."""
        return logits if self.outputs is None else logits[:, self.outputs]


def pair_classes(model: Classifier, data: Data, logits: Tensor) -> Pairs:
    """Return the pairing of a model's outputs, with logits [N, C], and the classes of the data.

    A model that declares the data's order of classes, or any order, is paired by place. If the data
    declare `OUTPUT_NUMBERS`, each class is paired with the output of its number. Otherwise, numbers
    on both sides are paired by value, and names on both sides by name, or by the only synonym
    (between commas) that they share. Raises CannotDo, with the unpaired names, for anything else,
    and ValueError for logits of another shape.
    """
    if logits.ndim != 2:
        raise ValueError(f"logits have shape {list(logits.shape)}; they must be [N, C]")
    classes, count = list(data.classes), logits.shape[1]
    if count != len(classes):
        raise CannotDo(
            f"the model's own classifier has {count} classes, but the data have {len(classes)}"
        )
    order = getattr(model, "class_order", "")
    if order == ANY_ORDER:
        return Pairs(None, "")
    if order and order == data.class_order:
        return Pairs(None, f"outputs and classes are paired by position: both have {order}'s order")
    by_value = _numbers(classes)
    if by_value and data.class_order == OUTPUT_NUMBERS:
        outputs = _pairs([[str(i)] for i in range(count)], [[str(i)] for i in by_value])
        return _make_pairs(outputs, list(map(str, range(count))), classes, "by numbers of outputs")
    names = _names(model, count)
    if by_value and (numbers := _numbers(names)):
        outputs = _pairs([[str(i)] for i in numbers], [[str(i)] for i in by_value])
        return _make_pairs(outputs, names, classes, "by value")
    # Numbers cannot be paired with names.
    comparable = bool(by_value) == bool(_numbers(names))
    outputs = pair_names(names, classes) if comparable else {}
    return _make_pairs(outputs, names, classes, "by name")


def names_of_classes(names: Sequence[str] | Mapping[str, str], data: Data) -> list[str]:
    """Return the names that a task gives to the classes of the data, in the order of the classes.

    A mapping has new names by old names. A list is paired by name, or by value if both sides are
    numbers; otherwise by place if the data declare their order, or by number if the order is
    `OUTPUT_NUMBERS`. Raises ValueError, with both orders, for any other list, and for a wrong
    number of names; UnknownNameError for an unknown class in a mapping.
    """
    classes = list(data.classes)
    if isinstance(names, Mapping):
        require_known("class", names, classes)
        return [names.get(name, name) for name in classes]
    if len(names) != len(classes):
        raise ValueError(f"{len(names)} class names for the {len(classes)} classes of the data")
    by_value, numbers = _numbers(classes), _numbers(names)
    if by_value and data.class_order == OUTPUT_NUMBERS and sorted(by_value) == [*range(len(names))]:
        return [names[number] for number in by_value]
    if by_value and sorted(by_value) == sorted(numbers):
        return [names[numbers.index(number)] for number in by_value]
    places = pair_names(names, classes)
    if len(places) == len(classes):
        return [names[places[i]] for i in range(len(classes))]
    if data.class_order and data.class_order != OUTPUT_NUMBERS:
        return list(names)
    raise ValueError(
        f"class_names {_quote(names)} are not the names of the data's classes {_quote(classes)}, "
        "which are sorted only as texts; give the name of each class, such as class_names: "
        f"{{{classes[0]}: {names[0]}}}"
    )


def pair_names(names: Sequence[str], classes: Sequence[str]) -> dict[int, int]:
    """Return the place in `names` of each class with a unique partner, by the class's place.

    Whole names are paired first, then synonyms of the remaining names. Forms that occur twice on
    one side are not used, nor are forms that contradict each other.
    """
    whole = _pairs(*([[_normal(name)] for name in side] for side in (names, classes)))
    synonyms = [
        [[*map(_normal, name.split(","))] if i not in done else [] for i, name in enumerate(side)]
        for side, done in ((names, set(whole.values())), (classes, set(whole)))
    ]
    return whole | _pairs(*synonyms)


def _pairs(outputs: Sequence[Sequence[str]], classes: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the output of each class if it shares forms only with this output, and vice versa."""
    of_output, of_class = _owners(outputs), _owners(classes)
    edges = {(of_class[form], of_output[form]) for form in of_class.keys() & of_output.keys()}
    seen = [Counter(edge[side] for edge in edges) for side in (0, 1)]
    return {name: other for name, other in edges if seen[0][name] == 1 and seen[1][other] == 1}


def _owners(side: Sequence[Sequence[str]]) -> Mapping[str, int]:
    """Return the place of each form that occurs at only one place."""
    counts = Counter(form for forms in side for form in set(forms))
    owners = {form: i for i, forms in enumerate(side) for form in forms}
    return {form: i for form, i in owners.items() if form and counts[form] == 1}


def _names(model: Classifier, count: int) -> list[str]:
    """Return the names of the outputs. Raises CannotDo for absent or generic names.

    Raises ValueError if there are more or fewer names than outputs.
    """
    try:
        names = list(model.class_names())
    except CannotDo as error:
        raise CannotDo(f"{error}; {WAYS_OUT}") from error
    if len(names) != count:
        raise ValueError(f"{len(names)} class names for {count} logits")
    if all(map(GENERIC.fullmatch, names)):
        raise CannotDo(
            f"the model's outputs have only the names '{names[0]}' and so on; {WAYS_OUT}"
        )
    return names


def _make_pairs(
    outputs: Mapping[int, int], names: Sequence[str], classes: Sequence[str], how: str
) -> Pairs:
    """Return the pairs. Raises CannotDo, with the first unpaired names of both sides."""
    lonely = [name for i, name in enumerate(classes) if i not in outputs]
    if lonely:
        used = set(outputs.values())
        left = [name for i, name in enumerate(names) if i not in used]
        both = f"of the model {_quote(left)}; of the data {_quote(lonely)}"
        why = f"{len(lonely)} of {len(classes)} have no partner or several partners: {both}"
        raise CannotDo(f"the model's classes are not the data's: {why}; {WAYS_OUT}")
    order = [outputs[i] for i in range(len(classes))]
    if order == list(range(len(order))):
        return Pairs(None, "" if how == "by name" else f"outputs and classes are paired {how}")
    return Pairs(order, f"outputs and classes are paired {how}, not by position")


def _quote(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:SHOWN]) + more


def _normal(name: str) -> str:
    """Return a name in lower case: its words of letters and digits, joined by single blanks."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(re.findall(r"[^\W_]+", folded))


def _numbers(names: Sequence[str]) -> list[int]:
    """Return the values of names that are all whole numbers; otherwise an empty list."""
    digits = [name.strip() for name in names]
    return [int(digit) for digit in digits] if all(map(str.isdecimal, digits)) else []
