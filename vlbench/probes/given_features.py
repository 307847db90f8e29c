"""Given features: stand-ins for the model, the data and the engine of a probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.passes import check_features
from vlbench.errors import CannotDo, SpecError
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

    Raises SpecError for complex numbers.
    """
    is_tensor = isinstance(features, Tensor)
    values: Tensor = features if is_tensor else torch.from_numpy(np.asarray(features))
    if values.is_complex():
        raise SpecError("features must be real numbers, not complex")
    return values.detach().to("cpu", torch.float32, copy=True)


def vector_split(features: Any, labels: np.ndarray[Any, Any], classes: Sequence[str]) -> Split:
    """Return features [N, D] and labels [N], which are names in `classes`, as a split."""
    vectors = as_vectors(features)
    if vectors.ndim != 2 or len(vectors) != len(labels):
        shape = list(vectors.shape)
        raise ValueError(f"features {shape} for {len(labels)} labels; they must be [N, D] and [N]")
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
            raise ValueError(f"class {name} has one example; two halves need two")
        one, other = np.array_split(rows, 2)
        first += sorted(one.tolist())
        second += sorted(other.tolist())
    return first, second
