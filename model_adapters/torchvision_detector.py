"""Object detectors of torchvision: Faster R-CNN (arXiv:1506.01497) and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from vlbench.adapter_kit.images import images_of, to_pixels
from vlbench.adapter_kit.library_models import (
    open_torchvision,
    published_tags,
    require_torchvision_weights,
    torchvision_models,
)
from vlbench.adapter_kit.weights import load_weights, read_state_dict, weights_file
from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo

# The published weights of these detectors were trained with batch normalisation's epsilon at 0.
WITHOUT_EPSILON = (
    "fasterrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
)


class TorchvisionDetector:
    """An R-CNN of torchvision. Its box head gives the vectors of detected regions and of any boxes.

    Regions are in descending order of their scores; a picture may have no regions.

    Args:
        architecture: name of a detector in torchvision.
        weights: tag of torchvision, a file with a state dict, or `random`.
        threshold: least score of the class of a region, 0 to 1.
        most: most regions of a picture.
        shorter: pixels of the shorter side of a picture, fewer if `longer` requires it.
        longer: most pixels of the longer side of a picture.
        init_seed: seed that draws random weights.
    """

    differentiable = False

    def __init__(  # noqa: PLR0913 - models.yaml and tasks fill them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "fasterrcnn_resnet50_fpn",
        weights: str = "COCO_V1",
        threshold: float = 0.05,
        most: int = 100,
        shorter: int = 800,
        longer: int = 1333,
        init_seed: int = 0,
    ) -> None:
        if device.type == "cpu" and dtype == torch.bfloat16:
            raise CannotDo(
                "torchvision cannot align regions in bfloat16 on a CPU; use --dtype float32"
            )
        limits = {"box_score_thresh": threshold, "box_detections_per_img": most}
        limits |= {"min_size": shorter, "max_size": longer}
        tags = _tags(architecture)
        tag = next((tag for tag in tags if tag.name == weights), None)
        hint = f"the tags are {', '.join(tag.name for tag in tags)}, random"
        file = None if tag or weights == "random" else weights_file(weights, hint)
        model = open_torchvision(architecture, tag, init_seed, weights_backbone=None, **limits)
        if file:
            _load(file, model, architecture)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._device, self._dtype = device, dtype
        self._names: list[str] = tags.DEFAULT.meta["categories"]

    @staticmethod
    def require_weights(architecture: str, weights: str) -> None:
        """Raise WeightsError if the weights are neither here nor available; read nothing."""
        require_torchvision_weights(weights, partial(_tags, architecture), "")

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return the regions of each picture with vectors [R, 1024] and the names of classes.

        Each picture goes through the model separately: in a batch torchvision pads the smaller
        pictures, which changes their regions.
        """
        return [self._detect(image) for image in images_of(pictures)]

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, 1024] for the [R_i, 4] boxes (xyxy pixels) of each picture."""
        vectors = []
        for image, placed in zip(images_of(pictures), boxes, strict=True):
            resized, maps, original = self._maps(image)
            at = placed.to(self._device, self._dtype).reshape(-1, 4)
            scaled = _resize_boxes(at, original, list(resized.image_sizes[0]))
            vectors.append(self._vectors(resized, maps, scaled).float())
        return vectors

    def _detect(self, image: Image) -> Regions:
        resized, maps, original = self._maps(image)
        proposals, _ = self.model.rpn(resized, maps)
        (detected,), _ = self.model.roi_heads(maps, proposals, resized.image_sizes)
        return Regions(
            _resize_boxes(detected["boxes"], list(resized.image_sizes[0]), original).float().cpu(),
            self._vectors(resized, maps, detected["boxes"]).float().cpu(),
            detected["scores"].float().cpu(),
            [self._names[label] for label in detected["labels"].tolist()],
            image.size,
        )

    def _maps(self, image: Image) -> tuple[Any, Any, list[int]]:
        """Return the resized image, its feature maps, and its original height and width."""
        pixels = to_pixels(image).to(self._device, self._dtype)
        resized, _ = self.model.transform([pixels])
        return resized, self.model.backbone(resized.tensors), [image.height, image.width]

    def _vectors(self, resized: Any, maps: Any, boxes: Tensor) -> Tensor:
        """Return the box head's vectors of boxes in pixels of the resized image."""
        heads = self.model.roi_heads
        vectors: Tensor = heads.box_head(heads.box_roi_pool(maps, [boxes], resized.image_sizes))
        return vectors


def _tags(architecture: str) -> Any:
    return published_tags(architecture, _rcnns(), "R-CNN")


def _rcnns() -> list[str]:
    models = torchvision_models()
    return [name for name in models.list_models(module=models.detection) if "rcnn" in name]


def _resize_boxes(boxes: Tensor, before: list[int], after: list[int]) -> Tensor:
    """Return boxes in an image whose height and width change."""
    resized: Tensor = torchvision_models().detection.transform.resize_boxes(boxes, before, after)
    return resized


def _load(file: Path, model: nn.Module, architecture: str) -> None:
    """Load a file's weights into a model, as torchvision loads published weights."""
    counts = {k: v for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")}
    load_weights(model, counts | read_state_dict(file), file)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and architecture in WITHOUT_EPSILON:
            layer.eps = 0.0
