"""Given features: stand-ins for the model, the data and the engine of a probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.data.names import label_names
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.passes import check_features
from vlbench.errors import CannotDo, SpecError, TooFewRows
from vlbench.schema import plain
from vlbench.system.digests import digest
from vlbench.system.threads import single_thread


class Vectors:
    """Stand-in for the model whose features are given; it encodes nothing."""

    def preprocess(self, image: Any) -> Tensor:
        """Refuse: there are no images."""
        raise CannotDo(f"{type(image).__name__}: there are features, but no images")

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Refuse: there are no images."""
        raise CannotDo(f"{list(pixels.shape)}: there are features, but no images")


class VectorEngine(Engine):
    """Returns a column of vectors as its features."""

    def __init__(self) -> None:
        super().__init__(ComputeSettings(torch.device("cpu")))

    @single_thread()  # no model passes
    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Tensor:
        del encode, most
        return check_features("features", column.rows, torch.stack(list(column)))


def as_vectors(features: Any) -> Tensor:
    """Return arrays, lists or tensors of any precision and device as float32 on the CPU.

    Raises SpecError for anything except real numbers.
    """
    if hasattr(features, "vectors"):
        raise SpecError("features must be an array; give the `vectors` of what features() returned")
    if isinstance(features, Tensor):
        values = features
    else:
        try:
            array = np.asarray(features)
        except ValueError as error:
            raise SpecError(f"features must be [N, D]: {error}") from error
        if array.dtype.kind not in "biufc":
            raise SpecError(f"features must be real numbers, not {array.dtype}")
        values = torch.from_numpy(array)
    if values.is_complex():
        raise SpecError("features must be real numbers, not complex")
    return values.detach().to("cpu", torch.float32, copy=True)


def labelled_vectors(features: Any, labels: Any) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Return features float32 [N, D], and the names of their classes [N].

    Raises SpecError for other shapes, and DataError for labels that are
    neither texts nor numbers, and for a name with a control character.
    """
    vectors, values = as_vectors(features), plain(labels)
    if not isinstance(values, list) or vectors.ndim != 2 or len(vectors) != len(values):
        shape, text = list(vectors.shape), f"{labels!r:.40}"
        count = f"{len(values)} labels" if isinstance(values, list) else f"the labels {text}"
        raise SpecError(f"features {shape} for {count}; they must be [N, D] and [N]")
    return vectors, np.array(label_names(values))


def vector_split(vectors: Tensor, labels: np.ndarray[Any, Any], classes: Sequence[str]) -> Split:
    """Return features [N, D] and labels [N], which are names in `classes`, as a split."""
    place = {name: i for i, name in enumerate(classes)}
    column = Column(digest(vectors.numpy()), "value", list(vectors), range(len(vectors)))
    return Split({"image": column, "label": value_column([place[one] for one in labels.tolist()])})


def halves_of_classes(names: np.ndarray[Any, Any], seed: int) -> tuple[list[int], list[int]]:
    """Return two halves of the rows of each class; if the number is odd, the first is larger."""
    rng = np.random.default_rng(seed)
    first, second = list[int](), list[int]()
    for name in sorted(set(names.tolist())):
        rows = rng.permutation(np.flatnonzero(names == name))
        if len(rows) < 2:
            raise TooFewRows(f"class {name} has one example; two halves need two")
        half, rest = np.array_split(rows, 2)
        first += sorted(half.tolist())
        second += sorted(rest.tolist())
    return first, second
