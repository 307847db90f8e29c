"""Passes: rows of columns through a model or a function, batch by batch."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from vlbench.data.records import Column
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.pass_checks import (
    REPEATED,
    first_outside,
    pixels_of,
    require_steady,
    require_tensor,
)
from vlbench.engine.shards import SHARD
from vlbench.errors import SpecError, VlbenchError, defined_at, described, exits_as_errors

# Kinds of columns whose values are decoded images, which workers load.
DECODED = frozenset({"image", "picture"})


class Batches(Protocol):
    """Batches of row numbers, at most `len` of them: another run may compute some first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[int]]: ...


class Compute(Protocol):
    """Turns batches of row numbers into outputs, one per row.

    The rows of a batch may be of any shards if it `spans_shards`: if all batches have one shape.
    """

    spans_shards: bool

    def __call__(self, batches: Batches) -> Iterator[tuple[list[int], Sequence[Any]]]:
        """Yield each batch's rows with their outputs."""
        ...


class Encode:
    """Passes rows of a column through an adapter's method that returns float32 [N, D].

    A batch with fewer rows is filled up with the same rows again. Libraries compute the same bits
    for a row in batches of one shape, but not of several: features would depend on the rows that
    are asked for together. Pixels of several sizes are not filled up.
    """

    def __init__(
        self, encode: Callable[[Any], Tensor], column: Column, settings: ComputeSettings
    ) -> None:
        self.adapter: Any = getattr(encode, "__self__", encode)
        self.name = getattr(encode, "__name__", "features")
        self._encode = encode
        self._settings = settings
        self._full = min(settings.rows_per_batch, SHARD)
        # A text may be padded to the longest of its batch: its batch must not depend on the number
        # of processes, which have whole shards each.
        is_image = column.kind == "image"
        self.spans_shards = is_image and not getattr(self.adapter, "ragged", False)
        prepare = self.adapter.preprocess if is_image else None
        self._rows = _Preprocessed(column, prepare)

    @torch.no_grad()
    def __call__(self, batches: Batches) -> Iterator[tuple[list[int], Sequence[Any]]]:
        """Yield each batch's rows with their outputs, float32 on the CPU, checked."""
        on_gpu = self._settings.device.type == "cuda"
        for rows, values in _load(self._rows, batches, self._settings.workers, pinned=on_gpu):
            yield rows, list(self._check(rows, self._of_filled(values)))

    def _of_filled(self, values: Any) -> Tensor:
        """Return the outputs of a batch that is filled up to the size of all batches."""
        count = len(values)
        if count >= self._full or (isinstance(values, list) and isinstance(values[0], Tensor)):
            return self._outputs(values)
        places = [i % count for i in range(self._full)]
        are_pixels = isinstance(values, Tensor)
        outputs = self._outputs(values[places] if are_pixels else [values[i] for i in places])
        return outputs[:count] if len(outputs) == self._full else outputs

    def _outputs(self, values: Any) -> Tensor:
        if isinstance(values, Tensor):
            pixels = values.to(self._settings.device, non_blocking=True)
            layout = (
                torch.channels_last if self._settings.channels_last else torch.contiguous_format
            )
            values = pixels.contiguous(memory_format=layout)
        if isinstance(values, Tensor) or not isinstance(values[0], Tensor):
            return require_tensor(self.name, self._encode(values))
        if not getattr(self.adapter, "ragged", False):
            sizes = sorted({tuple(value.shape) for value in values})
            where = defined_at(self.adapter.preprocess)
            raise SpecError(
                f"{where}: preprocess gave sizes {sizes}; return one size, or set ragged = True"
            )
        return self._by_size(values)

    def _by_size(self, values: list[Tensor]) -> Tensor:
        """Return outputs in order for pixels of different sizes, with one batch per size."""
        groups: dict[torch.Size, list[int]] = {}
        for i, value in enumerate(values):
            groups.setdefault(value.shape, []).append(i)
        parts = [self._outputs(stack([values[i] for i in group])) for group in groups.values()]
        order = torch.tensor([i for group in groups.values() for i in group])
        return torch.cat(parts)[order.argsort().to(parts[0].device)]

    def _check(self, rows: list[int], values: Tensor) -> Tensor:
        return check_features(self.name, rows, values)


def check_features(name: str, rows: Sequence[int], values: Tensor) -> Tensor:
    """Return a float32 copy on the CPU of a method's outputs for some rows, [N, D].

    Raises ValueError for another shape or dtype, for numbers too large or too small, and for NaN.
    """
    if values.ndim != 2 or len(values) != len(rows):
        shape = list(values.shape)
        raise ValueError(f"{name} gave {shape} for {len(rows)} rows; return [N, D]")
    if not values.is_floating_point() or values.shape[1] == 0:
        raise ValueError(f"{name} gave {values.dtype} {list(values.shape)}; wanted float32")
    # A copy, because an adapter may reuse its memory for the next batch.
    values = values.detach().to("cpu", torch.float32, copy=True)
    # NaN anywhere in a row makes both extremes NaN; they take a tenth of the time of all values.
    bad = ~(values.amax(1).isfinite() & values.amin(1).isfinite())
    if bad.any():
        row = rows[int(bad.nonzero()[0])]
        raise ValueError(f"{name} gave NaN or infinite values for row {row}")
    if misfit := first_outside(values):
        i, why = misfit
        raise ValueError(f"{name} gave row {rows[i]} {why}")
    return values


class Apply:
    """Passes rows of several columns through a function that returns one output per row."""

    spans_shards = False

    def __init__(
        self,
        function: Callable[..., Sequence[Any]],
        columns: Sequence[Column],
        settings: ComputeSettings,
    ) -> None:
        self._function = function
        self._rows = _Images([column for column in columns if column.kind in DECODED])
        self._columns = columns
        self._settings = settings

    @torch.no_grad()
    def __call__(self, batches: Batches) -> Iterator[tuple[list[int], Sequence[Any]]]:
        """Yield each batch's rows with the function's outputs for them."""
        workers = self._settings.workers if self._rows.columns else 0
        for rows, packed in _load(self._rows, batches, workers):
            are_bytes = isinstance(packed, bytes)
            images = iter(pickle.loads(packed) if are_bytes else packed)  # noqa: S301 - our worker's
            values = [
                next(images) if column.kind in DECODED else [column[row] for row in rows]
                for column in self._columns
            ]
            outputs = self._function(*values)
            if len(outputs) != len(rows):
                raise ValueError(f"{len(outputs)} outputs for {len(rows)} rows")
            yield rows, outputs


def _load(
    rows: Dataset[Any], batches: Batches, workers: int, *, pinned: bool = False
) -> Iterator[tuple[list[int], Any]]:
    """Yield each batch's rows with their values, loaded by `workers` processes."""
    queue: deque[list[int]] = deque()

    def remember() -> Iterator[list[int]]:
        for batch in batches:
            queue.append(batch)
            yield batch

    loader = DataLoader(
        rows,
        batch_size=None,
        sampler=remember(),
        num_workers=min(workers, len(batches)),
        pin_memory=pinned,
        generator=torch.Generator(),  # separate: torch's global generator must not change
    )
    for values in loader:
        if isinstance(values, Exception):
            raise values
        yield queue.popleft(), values


class _Preprocessed(Dataset[Any]):
    """Batches of a stored column, preprocessed; runs in loader workers, so errors are values."""

    def __init__(self, column: Column, prepare: Callable[[Any], Tensor] | None) -> None:
        self._column = column
        self._prepare = prepare
        self._is_first = True

    def __getitem__(self, rows: list[int]) -> Any:
        try:
            values = (self._column.stored[row] for row in rows)
            prepare = self._prepare
            with exits_as_errors():
                if not prepare:
                    return [*values]
                if self._is_first:
                    some = [self._column.stored[row] for row in rows[:REPEATED]]
                    require_steady(prepare, some)
                    self._is_first = False
                # One image at a time: a batch of uncropped photographs takes gigabytes.
                return stack([pixels_of(prepare, value) for value in values])
        except Exception as error:  # noqa: BLE001 - somebody's adapter; its line is known only here
            return _picklable(error)


class _Images(Dataset[Any]):
    """Batches of selected rows of image columns; runs in loader workers, so errors are values.

    A worker pickles a batch as a whole: sent separately, each small tensor would keep a file of
    shared memory open.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns

    def __getitem__(self, rows: list[int]) -> Any:
        try:
            with exits_as_errors():
                values = [[column[row] for row in rows] for column in self.columns]
            return pickle.dumps(values) if get_worker_info() else values
        except Exception as error:  # noqa: BLE001 - as above, of somebody's data
            return _picklable(error)


class LoadingError(VlbenchError):
    """An error of user code in a loader's worker, as a text with its line."""


def _picklable(error: Exception) -> Exception:
    """Return an error that a worker can send: it pickles, without its traceback."""
    if isinstance(error, VlbenchError) or not get_worker_info():
        return error
    return LoadingError(described(error))


def stack(values: list[Tensor]) -> Tensor | list[Tensor]:
    """Return tensors of one shape as one tensor, which a worker sends faster than many."""
    return torch.stack(values) if len({value.shape for value in values}) == 1 else values
