"""Checks of each pass: pixels are in range and unchanged, outputs independent of the batch.

`vlbench check` applies them to samples, and a run to its first batch and some later batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.capabilities import Regions, TokenVectors
from vlbench.errors import SpecError, defined_at

# Two outputs are equal within this fraction of their largest magnitude, or within ROUNDINGS units
# of rounding in a narrower dtype: rounding in each layer depends on the batch size.
TOLERANCE, ROUNDINGS = 1e-4, 16

# Number of examples of a larger batch that are passed again.
REPEATED = 4

# Number of these examples that are passed again with later batches of pixels.
SOME = 2

# Unless a row is all 0, its largest |x| is between this and its inverse: sums of squares and
# products of such rows are finite in float32, so probes need not handle overflow.
SMALLEST = 1e-15

CHANGES_PIXELS = (
    "changes the pixels that it is given; copy them first, for example pixels = pixels - mean "
    "instead of pixels -= mean"
)

NORMALISES = "Move Normalize from preprocess into encode_images."

# The compared field of an output that is not a tensor.
PARTS = {"encode_tokens": "vectors", "attend": "weights"}

# Methods that return a number per example, [N].
SCORES = frozenset({"score_pairs", "score_answers"})

WAY_OUT = (
    "an output must depend only on its own example: call model.eval(), keep the batch's order, "
    "and draw nothing at random (for half precision, pass --dtype; if the model's library does "
    "not mask padding, pass --batch-size 1)"
)


def tolerance(dtype: torch.dtype) -> float:
    """Return the accepted difference of outputs in a dtype, relative to the largest."""
    return max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps)


def wrong_pixels(pixels: Any) -> str:
    """Return what pixels are if they are not float32 [3, H, W] in [0, 1]; else ""."""
    if not isinstance(pixels, Tensor):
        return type(pixels).__name__
    if pixels.dtype != torch.float32 or pixels.ndim != 3 or len(pixels) != 3:
        return f"{pixels.dtype} {list(pixels.shape)}"
    if pixels.numel() == 0:
        return f"no pixels, {list(pixels.shape)}"
    low, high = (value.item() for value in pixels.aminmax())
    if 0 <= low <= high <= 1:
        return ""
    return f"values from {low:.3g} to {high:.3g}. {NORMALISES}"


def pixels_of(preprocess: Callable[[Image], Tensor], image: Image) -> Tensor:
    """Return the pixels that an adapter's `preprocess` makes of an image.

    Raises SpecError, with its line, unless they are float32 [3, H, W] in [0, 1].
    """
    pixels = preprocess(image)
    if wrong := wrong_pixels(pixels):
        problem, _, way_out = wrong.partition(". ")
        why = f"preprocess gave {problem}; return float32 [3, H, W] in [0, 1]"
        raise SpecError(f"{defined_at(preprocess)}: {why}{way_out and f'. {way_out}'}")
    return pixels


def require_tensor(name: str, values: Any) -> Tensor:
    """Return the output of a method of this name. Raises ValueError unless it is a tensor."""
    if isinstance(values, Tensor):
        return values
    kind = type(values)
    label = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise ValueError(f"{name} returned a {label}; return a torch.Tensor [N, D]")


def require_steady(preprocess: Callable[[Image], Tensor], images: Sequence[Image]) -> None:
    """Raise SpecError, with its line, if `preprocess` of the same image gives other pixels."""
    for image in images:
        first, second = pixels_of(preprocess, image), pixels_of(preprocess, image)
        if not torch.equal(first, second):
            why = "preprocess gave different pixels for the same image; draw nothing at random"
            raise SpecError(f"{defined_at(preprocess)}: {why}")


def first_outside(rows: Tensor) -> tuple[int, str] | None:
    """Return the first of [N, D] rows whose numbers are too small or too large, and why."""
    largest = rows.abs().amax(1)
    outside = (largest > 0) & ((largest < SMALLEST) | (largest > 1 / SMALLEST))
    if not outside.any():
        return None
    i = int(outside.nonzero()[0])
    problem = (
        f"values of up to {float(largest[i]):.3g}, whose squares overflow or underflow float32"
    )
    return i, f"{problem}; scale them into {SMALLEST:g} to {1 / SMALLEST:g}"


def tensors(method: str, outputs: Sequence[Any]) -> list[Tensor]:
    """Return the compared tensor of each output of an adapter's method."""
    part = PARTS.get(method)
    parts = [getattr(output, part) if part else output for output in outputs]
    return [*map(_joined, outputs)] if method == "detect" else parts


def _joined(regions: Regions) -> Tensor:
    """Return boxes, vectors and scores, [R, 4 + D + 1], all as large as the largest vector.

    Only the boxes are returned if there are none, or if the parts are not equally many, which the
    caller refuses.
    """
    count = len(regions.boxes)
    given: list[Any] = [torch.empty(count, 0) if x is None else x for x in regions[:3]]
    if not all(isinstance(part, Tensor) and len(part) == count > 0 for part in given):
        return regions.boxes
    boxes, vectors, scores = (part.cpu().reshape(count, -1) for part in given)
    largest = (float(vectors.abs().max()) if vectors.numel() else 0.0) or 1.0
    return torch.cat([boxes * (largest / max(regions.size)), vectors, largest * scores], 1)


@torch.no_grad()
def require_pairwise(model: Any, images: Tensor, texts: Tensor, dtype: torch.dtype) -> None:
    """Raise SpecError, with its line, if the similarity of a pair depends on other pairs.

    It is also raised if `similarity` changes its vectors, or its result for [N, D] images and
    [M, D] texts is not [N, M].
    """
    where = f"{defined_at(model.similarity)}: {type(model).__name__}.similarity"
    sides = images, texts
    copies = [side.clone() for side in sides]
    table = model.similarity(*copies)
    if table.shape != (len(images), len(texts)):
        gave = f"gave {[*table.shape]} for {len(images)} images and {len(texts)} texts"
        raise SpecError(f"{where} {gave}")
    single = model.similarity(*(side[-1:].clone() for side in sides))
    apart = float((single - table[-1:, -1:]).abs().max())
    # Cosines of orthogonal vectors are all rounding.
    largest = max(float(table.abs().max()), 1e-2)
    if apart > tolerance(dtype) * largest or not all(map(torch.equal, copies, sides)):
        why = "must depend only on the two vectors of a pair, and change none"
        raise SpecError(f"{where} {why}; a pair by itself differs by {apart:.3g}")


def difference(pairs: Sequence[tuple[Tensor, Tensor]], tolerance: float) -> str:
    """Return how the first unequal pair of outputs differs; empty if all are equal.

    Scalars are compared on the scale of their batch: a cosine near zero is all rounding.
    """
    if all(x.ndim == y.ndim == 0 for x, y in pairs):
        pairs = [(torch.stack([x for x, _ in pairs]), torch.stack([y for _, y in pairs]))]
    return next(filter(None, (_apart(x, y, tolerance) for x, y in pairs)), "")


def _apart(x: Tensor, y: Tensor, tolerance: float) -> str:
    """Return how two outputs differ, relative to their largest magnitude; empty if equal."""
    if x.shape != y.shape:
        return f"shape {tuple(x.shape)} becomes {tuple(y.shape)}"
    if x.numel() == 0:
        return ""
    scale = max(x.abs().max().item(), y.abs().max().item())
    apart = (x - y).abs().max().item()
    if apart <= tolerance * scale:
        return ""
    return f"values differ by {apart:.3g}; the largest is {scale:.3g}"


class Repeating:
    """An adapter's method that passes four examples of its first batch again, in reverse.

    A batch of up to four is passed again whole, and its first example alone. For a larger batch of
    texts, the shortest text, which is padded most, is passed alone. A first batch of one shows
    little, so the first larger batch is tested too. With batch 2, 4, 8, 16 and so on, the examples
    are passed again, texts beside some of that batch, because text lengths vary between batches.
    Only two images are passed again, with batch 4, 16, 64 and so on, beside two others of the same
    size: a pass of eight more images costs a tenth of a pass of 256. Raises SpecError if an output
    differs, or if the method changes its pixels.
    """

    def __init__(self, method: Callable[..., Any], dtype: torch.dtype = torch.float32) -> None:
        self.__self__ = getattr(method, "__self__", method)
        self.__name__: str = getattr(method, "__name__", "features")
        self._method, self._tolerance = method, tolerance(dtype)
        self._tried = self._batches = 0
        self._first: tuple[list[Any], list[Tensor]] | None = None

    def __call__(self, *values: Any) -> Any:
        """Return copies of the method's outputs, because its next call may overwrite their memory.

        Raises ValueError for a list that contains a non-finite number, for scores that are not [N],
        and for parts of an output that are not equally many.
        """
        outputs = self._outputs(values)
        if isinstance(outputs, Tensor):
            if self.__name__ in SCORES and outputs.shape != (len(values[0]),):
                gave = f"gave {list(outputs.shape)} for {len(values[0])} pairs; return [N]"
                raise ValueError(f"{self.__name__} of {type(self.__self__).__name__} {gave}")
            # The caller reports the non-finite row.
            return outputs.clone()
        if _count(outputs) == len(values[0]):
            for i, output in enumerate(outputs):
                if not _is_finite(output):
                    example = (
                        f"{values[-1][i]!r:.60}" if isinstance(values[-1][i], str) else f"row {i}"
                    )
                    message = (
                        f"{self.__name__} gave NaN or infinite values for {example} of a batch"
                    )
                    raise ValueError(message)
                boxes = values[1][i] if self.__name__ == "encode_regions" else None
                if len(set((sizes := _sizes(output, boxes)).values())) > 1:
                    parts = " and ".join(f"{size} {part}" for part, size in sizes.items())
                    raise ValueError(f"{self.__name__} gave {parts} for example {i} of a batch")
            return [_own(output) for output in outputs]
        return outputs

    def _outputs(self, values: Sequence[Any]) -> Any:
        count = len(values[0])
        self._batches += 1
        if self._tried > 1 or count <= self._tried:
            every = 4 if isinstance(values[0], Tensor) else 2
            is_due = self._first and _is_power(self._batches, every)
            return self._look_again(values) if is_due else self._method(*values)
        self._tried = count
        shortest = _shortest(values[0])
        places = sorted({*_places(count), *shortest})
        alone = [(0,)] if count <= REPEATED else [shortest] if shortest else []
        # Before the batch itself, whose outputs an adapter may overwrite in the next call.
        batches = dict.fromkeys([tuple(reversed(places)), *alone])
        repeats = {batch: self._repeat(batch, values) for batch in batches}
        outputs = self._method(*values)
        # The caller refuses outputs that are too few, not tensors or not finite.
        if _count(outputs) == count and (whole := self._copy([outputs[i] for i in places])):
            together = dict(zip(places, whole, strict=True))
            for batch, repeated in repeats.items():
                how = "in reverse" if len(batch) > 1 else "alone"
                among = f"in a batch of {count} than for {len(batch)} of its examples {how}"
                self._compare(among, [together[place] for place in batch], repeated)
            self._first = [_select(value, places) for value in values], whole
        return outputs

    def _look_again(self, values: Sequence[Any]) -> Any:
        """Return a later batch's outputs, after passing the first examples beside some of it."""
        assert self._first
        first, expected = self._first
        if isinstance(values[0], Tensor):
            first, expected = [part[:SOME] for part in first], expected[:SOME]
        # Both together are no larger than the batch, which may already fill the memory.
        room = max(0, len(values[0]) - len(expected))
        places = _places(len(values[0]))[: min(room, len(expected))]
        some = [_select(value, places) for value in values]
        pairs = list(zip(first, some, strict=True))
        is_mixed = all(_are_alike(*pair) for pair in pairs)
        repeated = self._pass([_join(*pair) for pair in pairs] if is_mixed else first)
        outputs = self._method(*values)
        beside = self._copy([outputs[i] for i in places]) if is_mixed and _count(outputs) else []
        if len(beside) == len(places) or not is_mixed:
            among = (
                f"for examples of its first batch, put among others after {self._batches} batches"
            )
            self._compare(among, [*expected, *beside], repeated)
        return outputs

    @torch.no_grad()
    def _pass(self, values: Sequence[Any]) -> list[Tensor]:
        return self._copy(self._method(*values))

    def _repeat(self, batch: Sequence[int], values: Sequence[Any]) -> list[Tensor]:
        again = [_select(value, batch) for value in values]
        outputs = self._pass(again)
        before = values[0]
        if isinstance(before, Tensor) and not torch.equal(again[0], before[list(batch)]):
            raise SpecError(f"{self._name} {CHANGES_PIXELS}")
        return outputs

    def _copy(self, outputs: Sequence[Any]) -> list[Tensor]:
        """Return copies, because an adapter may reuse its memory; empty if one is not finite."""
        originals = tensors(self.__name__, outputs) if _count(outputs) else []
        if not all(isinstance(original, Tensor) for original in originals):
            return []
        copies = [original.cpu().detach().to(torch.float32, copy=True) for original in originals]
        return copies if all(copy.isfinite().all() for copy in copies) else []

    def _compare(self, among: str, whole: Sequence[Tensor], repeated: Sequence[Tensor]) -> None:
        if len(repeated) == len(whole):
            pairs = [*zip(whole, repeated, strict=True)]
            # Each layer by its own magnitude, because that of another may be thousands of times it.
            widths = getattr(self._method, "widths", None)
            if widths and all(len(x) == len(y) == sum(widths) for x, y in pairs):
                split = ([torch.split(part, widths) for part in pair] for pair in pairs)
                pairs = [parts for pair in split for parts in zip(*pair, strict=True)]
            why = difference(pairs, self._tolerance)
        else:
            why = f"{len(repeated)} finite outputs for {len(whole)}"
        if why:
            raise SpecError(f"{self._name} gives different outputs {among}: {why}; {WAY_OUT}")

    @property
    def _name(self) -> str:
        owner = type(self.__self__).__name__
        return f"{defined_at(self._method)}: {owner}.{self.__name__}"


def _count(outputs: Any) -> int:
    """Return the number of outputs; 0 if `outputs` is not a sequence."""
    if isinstance(outputs, Tensor):
        return len(outputs) if outputs.ndim else 0
    return len(outputs) if isinstance(outputs, Sequence) else 0


def _is_finite(output: Any) -> bool:
    """Return whether all tensors of an output, such as boxes and their vectors, are finite."""
    parts = output if isinstance(output, tuple) else (output,)
    return all(bool(part.isfinite().all()) for part in parts if isinstance(part, Tensor))


def _sizes(output: Any, boxes: Tensor | None) -> dict[str, int]:
    """Return the sizes of the parts of an output that must be equally many, by name."""
    if isinstance(output, TokenVectors):
        return {"spans": len(output.spans), "vectors": len(output.vectors)}
    if isinstance(output, Regions):
        parts = {part: getattr(output, part) for part in ("boxes", "vectors", "scores", "labels")}
        return {name: len(part) for name, part in parts.items() if part is not None}
    return {} if boxes is None else {"boxes": len(boxes), "vectors": len(output)}


def _own(output: Any) -> Any:
    """Return an output with its own memory; regions and attention, read at once, are unchanged."""
    if isinstance(output, TokenVectors):
        return output._replace(vectors=output.vectors.clone())
    return output.clone() if isinstance(output, Tensor) else output


def _is_power(number: int, base: int) -> bool:
    """Return whether a number is a power of a base."""
    while number > 1 and number % base == 0:
        number //= base
    return number == 1


def _places(count: int) -> list[int]:
    """Return the places of the examples of a batch that are passed again, evenly spread."""
    return sorted({count * i // REPEATED for i in range(REPEATED)})


def _shortest(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the place of the shortest text of a batch; empty if its values are not texts."""
    if not all(isinstance(value, str) for value in values):
        return ()
    return (min(range(len(values)), key=lambda i: len(values[i])),)


def _are_alike(first: Any, others: Any) -> bool:
    """Return whether two batches can be joined: texts, or tensors of one shape."""
    if isinstance(first, Tensor) and isinstance(others, Tensor):
        return first.shape[1:] == others.shape[1:] and len(others) > 0
    return bool(others) and all(isinstance(text, str) for text in [*first, *others])


def _join(first: Any, others: Any) -> Any:
    return torch.cat([first, others]) if isinstance(first, Tensor) else [*first, *others]


def _select(values: Any, places: Sequence[int]) -> Any:
    """Return a copy of the values at some places of a batch."""
    if not isinstance(values, Tensor):
        return [values[i] for i in places]
    last = values.ndim == 4 and values.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    return values[list(places)].contiguous(memory_format=layout)
