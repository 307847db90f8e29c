"""Pictures as pixels: reading, resizing, cropping and normalising."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from PIL import Image as PilImage
from PIL.Image import Image, Resampling
from torch import Tensor

from vlbench.capabilities import Picture
from vlbench.data.crops import crop_box as crop_box  # noqa: PLC0414 - adapters find it here
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

# Mean and standard deviation of red, green and blue: of ImageNet, and of CLIP's training data.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

# How the pixels of a resized image are computed.
Interpolation = Literal["bicubic", "bilinear", "nearest"]

# The side of the view, rounded to whole tokens, for models that accept pictures of any size.
SIDE = 448

# Largest accepted mean difference in [0, 1] between our pixels of noise and the processor's: one
# backend rounds to grey levels. A crop that is shifted by one pixel differs by .1.
TOLERANCE = 0.005

# Width and height of the pictures that are compared: their aspect ratios differ from the view's,
# and their edges leave odd numbers of pixels beside the central square. `preparation_of` adds one
# picture larger than the view: only reduced pictures show whether a processor smooths.
COMPARED = ((160, 90), (90, 161), (227, 227), (231, 310), (333, 250), (64, 65))


def to_pixels(image: Image) -> Tensor:
    """Return an RGB image as float32 [3, H, W] in [0, 1]."""
    from torchvision.transforms import functional  # noqa: PLC0415 - takes seconds

    pixels: Tensor = functional.to_tensor(image)
    return pixels


def resizing(
    resize: int,
    crop: int | None = None,
    *,
    squash: bool = False,
    interpolation: Interpolation = "bicubic",
) -> Callable[[Image], Tensor]:
    """Return a function that turns an image into float32 [3, crop, crop] in [0, 1].

    `resize` is the length of the shorter side, or of both with `squash`. `crop` is the side of the
    square cut from the centre; None means `resize`. Raises SpecError for a larger crop.
    """
    from torchvision import transforms  # noqa: PLC0415 - takes seconds

    crop = crop or resize
    if crop > resize:
        raise SpecError(f"crop {crop} is larger than resize {resize}: the border would be black")
    size = (resize, resize) if squash else resize
    steps: Callable[[Image], Tensor] = transforms.Compose(
        [
            transforms.Resize(size, transforms.InterpolationMode(interpolation)),
            transforms.CenterCrop(crop),
            transforms.ToTensor(),
        ]
    )
    return steps


def normalise(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return pixels [..., 3, H, W] minus the mean, divided by the deviation of each channel."""
    centre, scale = (torch.tensor(v, device=pixels.device).view(3, 1, 1) for v in (mean, std))
    return (pixels - centre) / scale


def images_of(pictures: Sequence[Picture]) -> list[Image]:
    """Return the image of each picture. Raises DataError for a picture without one."""
    images = [picture.image for picture in pictures]
    present = [image for image in images if image is not None]
    if len(present) < len(images):
        raise DataError(f"picture {images.index(None)} of the batch has no image")
    return present


def pixels_of(pictures: Sequence[Picture], preprocess: Callable[[Image], Tensor]) -> Tensor:
    """Return float32 [N, 3, H, W]. Raises DataError for a picture without an image."""
    return torch.stack([preprocess(image) for image in images_of(pictures)])


class SquareView:
    """Converts square pixels to the inputs of a model's `get_image_features`, in torch.

    `size` is the side in pixels. Its default is the vision encoder's input size, or 448 rounded to
    whole tokens if the encoder accepts any size. Raises SpecError for a size that the model does
    not accept, and CannotDo if the model does not declare its input size.
    """

    def __init__(self, model: Any, processor: Any, size: int | None) -> None:
        self._model = model
        self._images = processor.image_processor
        vision = model.config.vision_config
        fixed = getattr(vision, "image_size", None) or self._processor_side()
        fixed = fixed[0] if isinstance(fixed, list | tuple) else fixed
        merge = getattr(self._images, "merge_size", None)
        self._token: int | None = vision.patch_size * merge if merge else None
        if self._token:
            self.size: int = size or max(SIDE // self._token, 1) * self._token
            wrong = self.size % self._token and f"is not a multiple of {self._token}"
        elif fixed:
            self.size = size or fixed
            wrong = self.size != fixed and f"is not {fixed}, the model's only input size"
        else:
            raise CannotDo(f"{type(model).__name__} does not declare the size of its input")
        if wrong:
            raise SpecError(f"size {self.size} {wrong}")

    @property
    def leaves_out_tiles(self) -> bool:
        """Whether transformers would add tiles to the view; here they are left out."""
        return self._model.config.model_type in {"llava_onevision", "llava_next"}

    def tokens(self, pixels: Tensor) -> Tensor:
        """Return the projected image tokens [N, T, D] of [N, 3, size, size] in [0, 1]."""
        return self.features(self.inputs(pixels))[0]

    def inputs(self, pixels: Tensor) -> dict[str, Any]:
        """Return the model's inputs for [N, 3, size, size] in [0, 1]."""
        if self._images.do_normalize:
            pixels = normalise(pixels, self._images.image_mean, self._images.image_std)
        pixels = pixels.to(self._model.dtype)
        return {"pixel_values": pixels} if self.leaves_out_tiles else self._inputs(pixels)

    def features(self, inputs: Mapping[str, Any]) -> tuple[Tensor, Any]:
        """Return the projected image tokens [N, T, D], and the model's output object."""
        if self.leaves_out_tiles:
            from transformers.modeling_outputs import BaseModelOutputWithPooling  # noqa: PLC0415

            tokens = self._untile(inputs["pixel_values"])
            listed: Any = list(tokens)  # as transformers returns tiles, despite its annotation
            return tokens, BaseModelOutputWithPooling(pooler_output=listed)
        output = self._model.get_image_features(**inputs)
        flat = flat_tokens(output)
        # Qwen-VL has one row of image_grid_thw per image.
        count = len(inputs.get("image_grid_thw", inputs["pixel_values"]))
        return flat.view(count, -1, flat.shape[-1]), output

    def _processor_side(self) -> int | None:
        """Return the side of the processor's output images, for a vision encoder of timm."""
        made = self._images.crop_size if self._images.do_center_crop else self._images.size
        side: int | None = made.get("height")
        return side

    def _inputs(self, pixels: Tensor) -> dict[str, Any]:
        if self._token:
            return self._patches(pixels)
        nested = self._model.config.model_type in {"idefics3", "smolvlm"}
        return {"pixel_values": pixels[:, None] if nested else pixels}

    def _patches(self, pixels: Tensor) -> dict[str, Any]:
        """Return Qwen-VL's patches, grouped by token; each is repeated in two frames."""
        merge, frames = self._images.merge_size, self._images.temporal_patch_size
        side = self._model.config.vision_config.patch_size
        count = pixels.shape[-1] // side
        grid = (count // merge, merge, side)
        patches = pixels.reshape(len(pixels), 3, *grid, *grid).permute(0, 2, 5, 3, 6, 1, 4, 7)
        framed = patches.unsqueeze(6).expand(*[-1] * 6, frames, -1, -1)
        grids = torch.tensor([[1, count, count]], device=pixels.device).expand(len(pixels), 3)
        rows = framed.reshape(len(pixels) * count * count, -1)
        return {"pixel_values": rows, "image_grid_thw": grids}

    def _untile(self, pixels: Tensor) -> Tensor:
        """Return the tokens of the whole picture only; transformers would add tiles."""
        model, config = self._model.model, self._model.config
        layer = config.vision_feature_layer
        states = model.vision_tower(pixels, output_hidden_states=True).hidden_states
        chosen = (
            states[layer] if isinstance(layer, int) else torch.cat([states[i] for i in layer], -1)
        )
        if config.vision_feature_select_strategy == "default":
            chosen = chosen[:, 1:]
        tokens: Tensor = model.multi_modal_projector(chosen)
        return tokens


def image_features(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Return the projected image tokens [T, D] of all pictures, in the order of the prompt."""
    return flat_tokens(model.get_image_features(**inputs))


def flat_tokens(output: Any) -> Tensor:
    """Return the tokens [T, D] of all pictures in an output of `get_image_features`."""
    features = output.pooler_output
    parts: list[Tensor] = [features] if isinstance(features, Tensor) else list(features)
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])


class ResizeAndCrop(NamedTuple):
    """The part of a picture that a model sees: resized to `edges`, then the central `crop`.

    `edges` is the length of the shorter side, or height and width; `crop` is height and width;
    None means no crop. `resample` is PIL's number of the interpolation.
    """

    edges: int | tuple[int, int]
    crop: tuple[int, int] | None
    resample: int

    def steps(self) -> Callable[[Image], Tensor]:
        """Return a function that turns an image into float32 [3, H, W] in [0, 1].

        The crop follows transformers; torchvision rounds half a pixel to even.
        """
        from torchvision import transforms  # noqa: PLC0415 - takes seconds

        interpolation = transforms.InterpolationMode[Resampling(self.resample).name]
        edges = self.edges if isinstance(self.edges, int) else list(self.edges)
        steps: list[Any] = [transforms.Resize(edges, interpolation)]
        if self.crop:
            steps.append(partial(_cut_centre, self.crop))
        composed: Callable[[Image], Tensor] = transforms.Compose([*steps, transforms.ToTensor()])
        return composed

    def place(self, boxes: Tensor, size: tuple[int, int]) -> Tensor:
        """Return boxes [R, 4], xyxy pixels of a picture of (W, H), as pixels of the view.

        Coordinates outside the view stay below zero or above the view's size.
        """
        if isinstance(self.edges, int):
            short = min(size)
            width, height = (int(self.edges * side / short) for side in size)
        else:
            height, width = self.edges
        scale = torch.tensor([width / size[0], height / size[1]] * 2)
        tall, wide = self.crop or (height, width)
        offset = torch.tensor([_margin(width, wide), _margin(height, tall)] * 2)
        return boxes.float() * scale.to(boxes.device) - offset.to(boxes.device)


def _margin(whole: int, part: int) -> int:
    """Return the start of the central part of an edge; half a pixel rounds towards zero."""
    return int((whole - part) / 2)


def _cut_centre(crop: tuple[int, int], image: Image) -> Image:
    """Return the central (height, width) of an image; missing pixels are black."""
    left, top = (_margin(*sides) for sides in zip(image.size, crop[::-1], strict=True))
    return image.crop((left, top, left + crop[1], top + crop[0]))


class Preparation(NamedTuple):
    """The preprocessing of a model: a view, then mean and std, [3, 1, 1] each, and BGR or RGB."""

    view: ResizeAndCrop
    mean: Tensor
    std: Tensor
    is_bgr: bool


def preparation_of(processor: Any, name: str) -> Preparation:
    """Return the steps of an image processor.

    Raises WeightsError if its views of pictures differ in size, or if its pixels differ from the
    result of these steps, because it pads or tiles.
    """
    recipe, kind = processor.to_dict(), type(processor).__name__
    try:
        view, (mean, std) = view_of(recipe, name), normaliser_of(recipe)
    except KeyError as error:
        raise WeightsError(f"{name}: its {kind} has no {error}") from error
    prepared = Preparation(view, mean, std, bool(recipe.get("do_flip_channel_order")))
    noise = np.random.default_rng(0)
    side = view.edges if isinstance(view.edges, int) else max(view.edges)
    for width, height in (*COMPARED, (2 * side + 3, side + side // 2)):
        picture = PilImage.fromarray(noise.integers(0, 256, (height, width, 3), np.uint8))
        if why := _difference(processor, prepared, picture):
            raise WeightsError(
                f"{name}: its {kind} does more than resize, crop and normalise ({why}); write an "
                "adapter whose preprocess does the same"
            )
    return prepared


def _difference(processor: Any, prepared: Preparation, picture: Image) -> str:
    """Describe how a processor's pixels of a picture differ from the steps' pixels, else ""."""
    how = prepared.view.resample
    # torch cannot resize tensors so, nor torchvision before 0.27 by LANCZOS
    if how in {Resampling.BOX, Resampling.HAMMING, Resampling.LANCZOS}:
        how = Resampling.BILINEAR
        prepared = prepared._replace(view=prepared.view._replace(resample=how))
    expected = processor(picture, resample=how, return_tensors="pt").get("pixel_values")
    pixels = (prepared.view.steps()(picture) - prepared.mean) / prepared.std
    pixels = pixels.flip(0) if prepared.is_bgr else pixels
    if expected is None or expected.shape != (1, *pixels.shape):
        shape = "none" if expected is None else list(expected.shape)
        return f"pixels are {shape}, not {[1, *pixels.shape]}"
    apart = ((expected[0] - pixels).abs() * prepared.std).mean().item()
    size = " x ".join(map(str, picture.size))
    return f"pixels in [0, 1] of {size} noise differ by {apart:.2g}" if apart > TOLERANCE else ""


def view_of(recipe: Mapping[str, Any], name: str) -> ResizeAndCrop:
    """Return the view of an image processor from its `to_dict`.

    Raises WeightsError if the views of pictures would differ in size, and for an unknown
    interpolation.
    """
    size, crop = recipe["size"], recipe.get("crop_size")
    kind = str(recipe.get("image_processor_type", ""))
    short, fraction = size.get("shortest_edge"), recipe.get("crop_pct")
    cropped = (crop["height"], crop["width"]) if recipe.get("do_center_crop") and crop else None
    if recipe["resample"] not in range(6):  # Pillow's later ones are unknown to other libraries
        what = (
            f"resample {recipe['resample']!r} is not an interpolation; use one of Pillow's 0 to 5"
        )
        raise WeightsError(f"{name}: {what}")
    resample = int(recipe["resample"])
    if "height" in size and "width" in size:
        short = size["height"] if fraction and size["height"] == size["width"] else None
        if short is None:
            return ResizeAndCrop((size["height"], size["width"]), cropped, resample)
    if short and kind.startswith("ConvNext") and short >= 384:
        return ResizeAndCrop((short, short), cropped, resample)
    if short and kind.startswith("ConvNext"):
        return ResizeAndCrop(
            int(short / (fraction or 224 / 256)), cropped or (short, short), resample
        )
    if short and cropped:
        before = 224 / 256 if kind.startswith("Levit") else fraction or 1
        return ResizeAndCrop(int(short / before), cropped, resample)
    raise WeightsError(f"{name}: images resized to {dict(size)} are not all of one size")


def normaliser_of(recipe: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return mean and std, [3, 1, 1] each, that on pixels in [0, 1] match the processor.

    The processor of EfficientNet, which ALIGN uses, may subtract 1 and may divide by the std twice.
    """
    scale = 255 * recipe.get("rescale_factor", 1 / 255)
    offset = 1.0 if recipe.get("rescale_offset") else 0.0
    mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    # A missing key means no: a processor that does not normalise has None, which is not saved.
    if recipe.get("do_normalize"):
        mean, std = (torch.tensor(recipe[f"image_{k}"]).view(3, 1, 1) for k in ("mean", "std"))
    if recipe.get("include_top"):
        std = std * torch.tensor(recipe["image_std"]).view(3, 1, 1)
    return (mean + offset) / scale, std / scale
