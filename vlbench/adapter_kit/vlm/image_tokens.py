"""The position in a picture of each image token of a generative model.

A model sees a picture in views: the whole, and for some models a grid of tiles or of finer tokens.
The boxes of a view are disjoint and cover the rectangle that it sees. The whole view is always
first, even if the model orders its tokens differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.adapter_kit.attention import patch_boxes
from vlbench.errors import CannotDo

# The width and height of a picture, and a rectangle in it: x1, y1, x2, y2, all in its pixels.
Size = tuple[int, int]
Rectangle = tuple[float, float, float, float]


class ImageTokens(NamedTuple):
    """The tokens with a position in the picture, among all image tokens of a prompt.

    `places` int64 [R] are their indices among the image tokens, `boxes` [R, 4] are xyxy pixels.
    """

    places: Tensor
    boxes: Tensor


class TokenGrid(NamedTuple):
    """A grid of tokens from index `first` on, and the rectangle of the picture that it sees.

    The rectangle may extend beyond the picture, into padding. Each row is followed by `extra`
    tokens that have no position.
    """

    first: int
    rows: int
    columns: int
    seen: Rectangle
    extra: int = 0


class TokenView(NamedTuple):
    """A picture of a size as a processor's inputs, with `tokens` image tokens."""

    processor: Any
    inputs: Mapping[str, Any]
    size: Size
    tokens: int

    @property
    def whole(self) -> Rectangle:
        """The whole picture."""
        return (0, 0, *self.size)


def locate(kind: str, seen: TokenView) -> ImageTokens:
    """Return the positions of the image tokens of a model of type `kind`.

    Raises CannotDo for a type whose layout is unknown, and if the layout does not account for all
    tokens.
    """
    if kind not in LAYOUTS:
        raise CannotDo(f"the positions of {kind}'s image tokens in a picture are not known")
    views = LAYOUTS[kind](seen)
    counted = sum(view.rows * (view.columns + view.extra) for view in views)
    if counted != seen.tokens:
        raise CannotDo(f"{counted} of {seen.tokens} image tokens of {kind} have a position")
    placed = [_place(view, seen.size) for view in views]
    return ImageTokens(*(torch.cat(parts) for parts in zip(*placed, strict=True)))


def _place(view: TokenGrid, size: Size) -> tuple[Tensor, Tensor]:
    """Return the indices and boxes of a view's tokens, without tokens that see only padding."""
    left, top, right, bottom = view.seen
    cells = patch_boxes(view.rows, view.columns, (view.columns, view.rows)).double()
    scale = torch.tensor([(right - left) / view.columns, (bottom - top) / view.rows]).double()
    start = torch.tensor([left, top]).double()
    boxes = cells * scale.repeat(2) + start.repeat(2)
    boxes = boxes.reshape(-1, 2, 2).clamp_min(0).minimum(torch.tensor(size).double())
    sides = boxes[:, 1] - boxes[:, 0]
    rows = torch.arange(view.rows)[:, None] * (view.columns + view.extra)
    places = view.first + (rows + torch.arange(view.columns)).flatten()
    kept = (sides > 1e-6 * max(size)).all(1)
    return places[kept], boxes.flatten(1).float()[kept]


def _merge(seen: TokenView) -> list[TokenGrid]:
    """Qwen-VL: the picture resized to whole patches, which are merged n by n."""
    merge = seen.processor.image_processor.merge_size
    _, rows, columns = (
        seen.inputs["image_grid_thw"][0] // torch.tensor([1, merge, merge])
    ).tolist()
    return [TokenGrid(0, rows, columns, seen.whole)]


def _square(seen: TokenView) -> list[TokenGrid]:
    """Gemma 3, PaliGemma: the picture squashed to a square."""
    side = math.isqrt(seen.tokens)
    return [TokenGrid(0, side, side, seen.whole)]


def _crop(seen: TokenView) -> list[TokenGrid]:
    """LLaVA, FastVLM: the picture padded to a square, cropped at its centre, or squashed."""
    height, width = seen.inputs["pixel_values"].shape[-2:]
    patch = seen.processor.patch_size
    return [TokenGrid(0, height // patch, width // patch, _centre(seen))]


def _centre(seen: TokenView) -> Rectangle:
    processor, (width, height) = seen.processor.image_processor, seen.size
    short, side = processor.size.get("shortest_edge"), max(seen.size)
    if getattr(processor, "do_pad", False):
        left, top = (width - side) // 2, (height - side) // 2
        return (left, top, left + side, top + side)
    if not (short and processor.do_center_crop):
        return seen.whole
    long = int(short * side / min(seen.size))
    resized = (short, long) if height > width else (long, short)
    cropped = (processor.crop_size["width"], processor.crop_size["height"])
    scale = [length / became for length, became in zip(seen.size, resized, strict=True)]
    start = [(became - cut) / 2 for became, cut in zip(resized, cropped, strict=True)]
    (left, right), (top, bottom) = (
        (first * by, (first + cut) * by)
        for first, cut, by in zip(start, cropped, scale, strict=True)
    )
    return (left, top, right, bottom)


def _tiles(seen: TokenView, grid: Size, side: int, first: int) -> list[TokenGrid]:
    """Return a view per tile of a grid of (rows, columns), from token index `first` on."""
    rows, columns = grid
    boxes = patch_boxes(rows, columns, seen.size).tolist()
    return [
        TokenGrid(first + i * side * side, side, side, tuple(box)) for i, box in enumerate(boxes)
    ]


def _idefics3(seen: TokenView) -> list[TokenGrid]:
    """Idefics 3 and SmolVLM: a grid of tiles, then the whole picture, squashed."""
    side = math.isqrt(seen.processor.image_seq_len)
    width, height = seen.size
    _, *grid = seen.processor.image_processor.get_number_of_image_patches(height, width, {})
    tiles = _tiles(seen, tuple(grid), side, 0) if all(grid) else []
    return [TokenGrid(len(tiles) * side * side, side, side, seen.whole), *tiles]


def _internvl(seen: TokenView) -> list[TokenGrid]:
    """InternVL: a grid of tiles, then a thumbnail; a single tile has no thumbnail."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import (  # noqa: PLC0415 - slow
        get_optimal_tiled_canvas,
    )

    side = math.isqrt(seen.processor.image_seq_length)
    processor, (width, height) = seen.processor.image_processor, seen.size
    if seen.tokens == side * side:
        return [TokenGrid(0, side, side, seen.whole)]
    tile = (processor.size["height"], processor.size["width"])
    columns, rows = get_optimal_tiled_canvas(
        (height, width), tile, processor.min_patches, processor.max_patches
    )
    tiles = _tiles(seen, (rows, columns), side, 0)
    return [TokenGrid(len(tiles) * side * side, side, side, seen.whole), *tiles]


def _anyres(seen: TokenView) -> list[TokenGrid]:
    """LLaVA-OneVision: the picture squashed, then a finer grid with a newline after each row.

    The picture is scaled to fit the best of several canvases and padded. Rows and columns of
    tokens in the padding are cut off as whole tokens, so some padding may remain.
    """
    from transformers.image_processing_utils import select_best_resolution  # noqa: PLC0415 - slow

    processor, (width, height) = seen.processor, seen.size
    side = math.isqrt(processor.num_image_tokens)
    tile = seen.inputs["pixel_values"].shape[-2:]
    canvas = select_best_resolution((height, width), processor.image_processor.image_grid_pinpoints)
    cells = [side * (long // tile_side) for long, tile_side in zip(canvas, tile, strict=True)]
    features, rows = processor._get_unpadded_features(  # noqa: SLF001 - the one place that knows
        height, width, side, side, *(cell // side for cell in cells)
    )
    fine = TokenGrid(side * side, rows, features // rows, _unpad(seen.size, canvas, cells), 1)
    return [TokenGrid(0, side, side, seen.whole), fine]


def _unpad(size: Size, canvas: Sequence[int], cells: Sequence[int]) -> Rectangle:
    """Return the rest of a canvas (height, width) of cells, without rows or columns of padding.

    Whole cells are cut off, equally on both sides.
    """
    width, height = size
    scale = min(canvas[0] / height, canvas[1] / width)
    by_width = width / height > cells[1] / cells[0]
    kept = int(
        round(height * cells[1] / width, 7) if by_width else round(width * cells[0] / height, 7)
    )
    cut = [(cells[0] - kept) // 2, 0] if by_width else [0, (cells[1] - kept) // 2]
    sides = []
    for side, whole, count, off in zip((height, width), canvas, cells, cut, strict=True):
        before = (whole - min(math.ceil(side * scale), whole)) // 2
        edges = (off * whole / count, whole - off * whole / count)
        sides.append([(edge - before) / scale for edge in edges])
    (top, bottom), (left, right) = sides
    return (left, top, right, bottom)


LAYOUTS: dict[str, Callable[[TokenView], list[TokenGrid]]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"), _merge),
    **dict.fromkeys(("idefics3", "smolvlm"), _idefics3),
    **dict.fromkeys(("gemma3", "paligemma"), _square),
    **dict.fromkeys(("llava", "fast_vlm"), _crop),
    "llava_onevision": _anyres,
    "internvl": _internvl,
}
