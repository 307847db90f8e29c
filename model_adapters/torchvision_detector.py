"""Object detectors that torchvision can build: Faster R-CNN (arXiv:1506.01497) and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn
from torchvision import models
from torchvision.models.detection.transform import resize_boxes
from torchvision.transforms.functional import to_tensor

from vlbench import hub
from vlbench.adapter_kit.weights import UNREADABLE, fill, read_state_dict
from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo, WeightsError, unknown

# Of these, torchvision's published weights were trained with batch normalisation of epsilon 0.
WITHOUT_EPSILON = (
    "fasterrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
)


class TorchvisionDetector:
    """A detector of torchvision's R-CNN kind; its box head gives the vectors of any boxes.

    `weights` is a tag of torchvision's, a file with a state dict, or "random", drawn with
    `init_seed`. Regions are what the detector keeps: at most `most` a picture, each with the score
    of its class, of at least `threshold`, ordered from the highest. A picture may have none.
    `shorter` and `longer` are the sides, at least and at most, that pictures are resized to.
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
        limits = {"box_score_thresh": threshold, "box_detections_per_img": most}
        limits |= {"min_size": shorter, "max_size": longer}
        tags = _tags(architecture)
        tag = next((tag for tag in tags if tag.name == weights), None)
        model = _fetch(architecture, tag, limits) if tag else _draw(architecture, init_seed, limits)
        if not tag and weights != "random":
            _put(_file(weights, [tag.name for tag in tags]), model, architecture)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._device, self._dtype = device, dtype
        self._names: list[str] = tags.DEFAULT.meta["categories"]

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return the regions of each picture, with box-head vectors and the names of classes.

        Vectors are those of the boxes as they are found, [R, 1024]. One picture at a time: of
        several, torchvision pads the smaller, and their regions change.
        """
        return [self._detect(_image(picture)) for picture in pictures]

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, 1024] for the [R_i, 4] boxes (xyxy pixels) of each picture."""
        vectors = []
        for picture, placed in zip(pictures, boxes, strict=True):
            resized, maps, original = self._maps(_image(picture))
            at = placed.to(self._device, self._dtype).reshape(-1, 4)
            scaled = resize_boxes(at, original, list(resized.image_sizes[0]))
            vectors.append(self._vectors(resized, maps, scaled).float())
        return vectors

    def _detect(self, image: Image) -> Regions:
        resized, maps, original = self._maps(image)
        proposals, _ = self.model.rpn(resized, maps)
        (found,), _ = self.model.roi_heads(maps, proposals, resized.image_sizes)
        return Regions(
            resize_boxes(found["boxes"], list(resized.image_sizes[0]), original).float().cpu(),
            self._vectors(resized, maps, found["boxes"]).float().cpu(),
            found["scores"].float().cpu(),
            [self._names[label] for label in found["labels"].tolist()],
            image.size,
        )

    def _maps(self, image: Image) -> tuple[Any, Any, list[int]]:
        """Return an image resized, the maps of its features, and its height and width."""
        pixels = to_tensor(image).to(self._device, self._dtype)
        resized, _ = self.model.transform([pixels])
        return resized, self.model.backbone(resized.tensors), [image.height, image.width]

    def _vectors(self, resized: Any, maps: Any, boxes: Tensor) -> Tensor:
        """Return what the box head says of boxes in pixels of the resized image."""
        heads = self.model.roi_heads
        vectors: Tensor = heads.box_head(heads.box_roi_pool(maps, [boxes], resized.image_sizes))
        return vectors


def _image(picture: Picture) -> Image:
    if picture.image is None:
        raise CannotDo("a detector needs images; the data set has regions alone")
    return picture.image


def _tags(architecture: str) -> Any:
    """Return torchvision's enumeration of the weights of a detector."""
    known = [name for name in models.list_models(module=models.detection) if "rcnn" in name]
    if architecture not in known:
        raise unknown("R-CNN of torchvision", architecture, known)
    return models.get_model_weights(architecture)


def _fetch(architecture: str, tag: Any, limits: dict[str, Any]) -> nn.Module:
    """Return the model with the weights of a tag: from torch's cache, or else downloaded."""
    refusal = (
        f"the weights {tag} cannot be downloaded from {tag.url}: {{}}; "
        "they can be given as a local file: --model-args weights=PATH"
    )
    cached = Path(torch.hub.get_dir(), "checkpoints", tag.url.rpartition("/")[2])
    if hub.is_offline() and not cached.is_file():
        raise WeightsError(refusal.format("this run is offline"))
    try:
        model: nn.Module = models.get_model(architecture, weights=tag, **limits)
    except UNREADABLE as error:
        raise WeightsError(refusal.format(error)) from error
    return model


def _draw(architecture: str, seed: int, limits: dict[str, Any]) -> nn.Module:
    """Return a fresh model with seeded weights; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: nn.Module = models.get_model(
            architecture, weights=None, weights_backbone=None, **limits
        )
    return model


def _file(weights: str, tags: Sequence[str]) -> Path:
    file = Path(weights).expanduser()
    if file.is_file():
        return file
    known = ", ".join((*tags, "random"))
    raise WeightsError(f"no file of weights at {file}; the tags are {known}")


def _put(file: Path, model: nn.Module, architecture: str) -> None:
    """Put a file's weights into a model, as torchvision does with its own of this architecture."""
    counts = {k: v for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")}
    fill(model, counts | read_state_dict(file), file)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and architecture in WITHOUT_EPSILON:
            layer.eps = 0.0
