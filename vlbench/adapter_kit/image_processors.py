"""Image processors of the library transformers, taken apart: resizing and cropping, normalising.

The pixels between the two steps are in [0, 1]. Where a box of a picture lies in them is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from PIL import Image as PilImage
from PIL.Image import Image, Resampling
from torch import Tensor

from vlbench.errors import WeightsError

# The pixels that a model sees may differ from the library's by so much on average, in [0, 1], or by
# one over their side: a crop that lies one pixel beside the library's. Padding differs by .1.
TOLERANCE = 0.01


class View(NamedTuple):
    """What a model sees of a picture: resized to `edges`, then the central `crop` cut out.

    `edges` is the length of the shorter side, or height and width; `crop` is height and width, and
    None cuts nothing. `resample` is PIL's number of the interpolation.
    """

    edges: int | tuple[int, int]
    crop: tuple[int, int] | None
    resample: int

    def steps(self) -> Callable[[Image], Tensor]:
        """Return a function that makes float32 [3, H, W] in [0, 1] of an image.

        The centre is cut as torchvision cuts it, which may differ from transformers by one pixel.
        """
        from torchvision import transforms  # noqa: PLC0415 - takes seconds

        interpolation = transforms.InterpolationMode[Resampling(self.resample).name]
        edges = self.edges if isinstance(self.edges, int) else list(self.edges)
        steps: list[Any] = [transforms.Resize(edges, interpolation)]
        if self.crop:
            steps.append(transforms.CenterCrop(list(self.crop)))
        composed: Callable[[Image], Tensor] = transforms.Compose([*steps, transforms.ToTensor()])
        return composed

    def place(self, boxes: Tensor, size: tuple[int, int]) -> Tensor:
        """Return boxes [R, 4], xyxy pixels of a picture of (W, H), as pixels of the view.

        What lies outside the view keeps its place there, below zero or above the view's size.
        """
        if isinstance(self.edges, int):
            short = min(size)
            width, height = (int(self.edges * side / short) for side in size)
        else:
            height, width = self.edges
        scale = torch.tensor([width / size[0], height / size[1]] * 2)
        tall, wide = self.crop or (height, width)
        offset = torch.tensor([round((width - wide) / 2.0), round((height - tall) / 2.0)] * 2)
        return boxes.float() * scale.to(boxes.device) - offset.to(boxes.device)


class Preparation(NamedTuple):
    """What a model sees of a picture: a view, then mean and std, [3, 1, 1] each, and BGR or RGB."""

    view: View
    mean: Tensor
    std: Tensor
    is_bgr: bool


def preparation_of(processor: Any, name: str) -> Preparation:
    """Return what an image processor does, taken apart.

    Raises WeightsError where its views of pictures are not all of one size, and where the processor
    makes other pixels of a picture, because it pads or tiles.
    """
    recipe, kind = processor.to_dict(), type(processor).__name__
    try:
        view, (mean, std) = view_of(recipe, name), normaliser_of(recipe)
    except KeyError as error:
        raise WeightsError(f"{name}: its {kind} has no {error}") from error
    prepared = Preparation(view, mean, std, bool(recipe.get("do_flip_channel_order")))
    sides = PilImage.linear_gradient("L"), PilImage.radial_gradient("L")
    parts = [*sides, sides[0].rotate(90)]
    picture = PilImage.merge("RGB", [part.resize((160, 90)) for part in parts])
    wanted = processor(picture, return_tensors="pt").get("pixel_values")
    found = (view.steps()(picture) - mean) / std
    found = found.flip(0) if prepared.is_bgr else found
    if wanted is None or wanted.shape != (1, *found.shape):
        shape = "none" if wanted is None else list(wanted.shape)
        why = f"pixels are {shape}, not {[1, *found.shape]}"
    else:
        apart = ((wanted[0] - found).abs() * std).mean().item()
        why = (
            f"pixels in [0, 1] differ by {apart:.2g}"
            if apart > max(TOLERANCE, 1 / found.shape[-1])
            else ""
        )
    if why:
        raise WeightsError(
            f"{name}: its {kind} does more than resize, crop and normalise ({why}); write an "
            "adapter whose preprocess does the same"
        )
    return prepared


def view_of(recipe: Mapping[str, Any], name: str) -> View:
    """Return the view of an image processor, by what its `to_dict` gives.

    Raises WeightsError where the views of pictures would not be all of one size.
    """
    size, crop = recipe["size"], recipe.get("crop_size")
    kind = str(recipe.get("image_processor_type", ""))
    short, fraction = size.get("shortest_edge"), recipe.get("crop_pct")
    cropped = (crop["height"], crop["width"]) if recipe.get("do_center_crop") and crop else None
    resample = int(recipe["resample"])
    if "height" in size and "width" in size:
        short = size["height"] if fraction and size["height"] == size["width"] else None
        if short is None:
            return View((size["height"], size["width"]), cropped, resample)
    if short and kind.startswith("ConvNext") and short >= 384:
        return View((short, short), cropped, resample)
    if short and kind.startswith("ConvNext"):
        return View(int(short / (fraction or 224 / 256)), cropped or (short, short), resample)
    if short and cropped:
        before = 224 / 256 if kind.startswith("Levit") else fraction or 1
        return View(int(short / before), cropped, resample)
    raise WeightsError(f"{name}: images resized to {dict(size)} are not all of one size")


def normaliser_of(recipe: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return mean and std, [3, 1, 1] each: on pixels in [0, 1] they do what the processor does.

    The processor of EfficientNet, which ALIGN uses, may subtract 1 and may divide by the std twice.
    """
    scale = 255 * recipe.get("rescale_factor", 1 / 255)
    offset = 1.0 if recipe.get("rescale_offset") else 0.0
    mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    # Absent means no: a processor that does not normalise has None there, which is not saved.
    if recipe.get("do_normalize"):
        mean, std = (torch.tensor(recipe[f"image_{k}"]).view(3, 1, 1) for k in ("mean", "std"))
    if recipe.get("include_top"):
        std = std * torch.tensor(recipe["image_std"]).view(3, 1, 1)
    return (mean + offset) / scale, std / scale
