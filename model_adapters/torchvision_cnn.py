"""Image classifiers of torchvision, with its weights or with published checkpoints.

In arXiv:2104.08313: ResNet-50 (arXiv:1512.03385), SIN (arXiv:1811.12231), MadryLab's robust models,
VirTex (arXiv:2006.06666) and ICMLM (arXiv:2008.01392).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from vlbench.adapter_kit.class_names import class_order_of, read_class_names
from vlbench.adapter_kit.images import Interpolation, resizing
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.library_models import (
    RENORMALISED,
    normaliser_of,
    open_torchvision,
    require_torchvision,
    require_torchvision_weights,
    torchvision_models,
    view_of_weights,
)
from vlbench.adapter_kit.weights import load_weights, read_weights, weights_file
from vlbench.errors import CannotDo, WeightsError, unknown

# The modules of torchvision's networks whose outputs are pooled; each network has one of these.
TRUNKS = (
    *("layer4", "features", "conv5", "trunk_output", "layers"),
    *("Mixed_7c", "inception5b", "blocks.3", "encoder"),
)

# The key of the state dict in published files; `cnn` is the key of ICMLM.
ENVELOPES = ("state_dict", "model", "model_state_dict", "net", "cnn")


class TorchvisionCnn(LayersOfModel):
    """A classifier of torchvision. Its features are the inputs of its last layer with weights.

    That layer is linear, except SqueezeNet's, a convolution, whose inputs are averaged over
    positions. A transformer reads images of only one size, given by `resize` and `crop`.

    A file without a classification head gives only features. A file's normaliser is used if it has
    one; else mean and deviation are the tag's. The defaults of `resize` and `interpolation` are the
    values with which the tag's weights were published; if there is no tag, 256 x 256 and bicubic.

    Args:
        architecture: name of a model in torchvision.
        weights: tag of torchvision, a file (a state dict, in the format of any paper that the
            module cites), or `random`.
        source: where the file can be downloaded, for the message if it is missing.
        tag: tag whose weights a file contains; empty: none.
        resize: pixels of the shorter side of an image, or of both sides with `squash`; None takes
            the tag's, or 256.
        crop: pixels of the side of the square cut from the centre; None: equal to `resize`.
        squash: whether both sides are resized to `resize`, which loses the aspect ratio.
        interpolation: how images are resized; None takes the tag's, or bicubic.
        layer: module, such as `layer3.0.conv1`, whose outputs are the features, [N, D] or [N, D, H,
            W] averaged over positions; empty: the inputs of the last layer.
        classes: the outputs of a file without a tag: `imagenet`, for the 1,000 classes in
            their usual order, or a file with a name per line; empty: unknown.
        init_seed: seed that draws random weights.
    """

    def __init__(  # noqa: PLR0913 - models.yaml and tasks fill them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "resnet50",
        weights: str = "IMAGENET1K_V1",
        source: str = "",
        tag: str = "",
        resize: int | None = None,
        crop: int | None = None,
        squash: bool = False,
        interpolation: Interpolation | None = None,
        layer: str = "",
        classes: str = "",
        init_seed: int = 0,
    ) -> None:
        tags = require_torchvision(architecture, tag)
        members = tags.__members__
        published = members.get(weights)
        trained = published or members.get(tag)
        self.settled = view_of_weights(trained, resize, crop, interpolation)
        self._steps = resizing(**self.settled, squash=squash)
        there_are = f"{architecture} has the tags {', '.join(one.name for one in tags)}, random"
        hint = _hint(source or there_are)
        file = None if published or weights == "random" else weights_file(weights, hint)
        again = {"transform_input": True, "init_weights": False}
        options = again if file and architecture in RENORMALISED else {}
        model = open_torchvision(architecture, published, init_seed, **options)
        head = _head_name(model)
        usual = normaliser_of(trained)
        normaliser = _load(file, model, head, usual) if file else usual
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._head, self._layer = head, _require_layer(layer, model)
        is_known = bool(trained) or weights == "random"
        self._named, count = classes, _width(model, head)
        self.class_order = class_order_of(classes, count, published=is_known)
        self._mean, self._std = normaliser.view(2, 3, 1, 1).to(device)
        self._dtype = dtype
        self._categories: list[str] = tags.DEFAULT.meta["categories"]
        self._size = _fixed_size(model)

    @staticmethod
    def require_weights(architecture: str, weights: str, source: str) -> None:
        """Raise WeightsError if the weights are neither here nor available; read nothing."""
        tags = partial(require_torchvision, architecture)
        require_torchvision_weights(weights, tags, _hint(source or "the people who trained it"))

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, crop, crop] in [0, 1]."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]; for a ResNet-50 the average over positions, D = 2048."""
        if self._layer:
            return self._inner(pixels)
        read: list[Tensor] = []
        head = self.model.get_submodule(self._head)
        with head.register_forward_pre_hook(lambda _, inputs: read.extend(inputs)):
            self.model(self._normalise(pixels))
        (features,) = read
        return (features.mean((2, 3)) if features.ndim == 4 else features).float()

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, rows, columns], of `layer` or of the last layer before pooling.

        Raises CannotDo for a layer that has no such maps.
        """
        modules = dict(self.model.named_modules())
        layer = self._layer or next(name for name in TRUNKS if name in modules)
        maps = self._output_of(layer, pixels)
        if isinstance(self.model, torchvision_models().SwinTransformer):
            maps = maps.movedim(-1, 1)
        if layer == "encoder":  # of a transformer, whose first token is for the class
            side = self.model.image_size // self.model.patch_size
            maps = maps[:, 1:].mT.unflatten(2, (side, side))
        if maps.ndim != 4:
            raise CannotDo(f"{layer} gives no grid")
        return maps.float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        self._classes()
        scores: Tensor = self.model(self._normalise(pixels))
        return scores.float()

    def class_names(self) -> list[str]:
        """Return torchvision's names of the 1,000 classes of ImageNet, or the names in `classes`.

        Raises CannotDo for other classes if `classes` is empty, WeightsError for a file of a wrong
        number of names.
        """
        count = self._classes()
        return self._categories if self.class_order else read_class_names(self._named, count)

    def _inner(self, pixels: Tensor) -> Tensor:
        """Return the features of `layer`. Raises CannotDo unless its outputs are features."""
        output = self._output_of(self._layer, pixels)
        if output.ndim not in {2, 4}:
            shape = list(output.shape)
            raise CannotDo(f"{self._layer} gives {shape}, not [N, D] or [N, D, H, W]")
        return (output.mean((2, 3)) if output.ndim == 4 else output).float()

    def _output_of(self, layer: str, pixels: Tensor) -> Tensor:
        """Return the output of a layer. Raises CannotDo unless it ran once."""
        read: list[Tensor] = []
        inner = self.model.get_submodule(layer)
        # Copied: a later module, such as an in-place ReLU, may overwrite the output.
        with inner.register_forward_hook(lambda _, __, output: read.append(output.clone())):
            self.model(self._normalise(pixels))
        if len(read) != 1:
            raise CannotDo(f"{layer} runs {len(read)} times, not once; name another layer")
        return read[0]

    def _normalise(self, pixels: Tensor) -> Tensor:
        size = self._size
        if size and tuple(pixels.shape[2:]) != (size, size):
            why = f"this model reads images of {size} x {size}, not {list(pixels.shape[2:])}"
            raise CannotDo(f"{why}; give --model-args resize={size},crop={size}")
        return ((pixels.float() - self._mean) / self._std).to(self._dtype)

    def _classes(self) -> int:
        """Return the number of classes. Raises CannotDo for a checkpoint that has no head."""
        count = _width(self.model, self._head)
        if not count:
            raise CannotDo("this checkpoint has no classification head")
        return count


def _hint(origin: str) -> str:
    return f"where to get it: {origin}; give its path as weights=PATH"


def _width(model: nn.Module, head: str) -> int:
    """Return the number of classes; 0 for a checkpoint that has no head."""
    layer = model.get_submodule(head)
    return 0 if isinstance(layer, nn.Identity) else len(layer.weight)


def _head_name(model: nn.Module) -> str:
    """Return the name of the last linear layer, or else of the last convolution."""
    layers = list(model.named_modules())
    linear = [name for name, layer in layers if isinstance(layer, nn.Linear)]
    return (linear or [name for name, layer in layers if isinstance(layer, nn.Conv2d)])[-1]


def _require_layer(layer: str, model: nn.Module) -> str:
    """Return the name of a layer. Raises UnknownNameError, and CannotDo for Swin transformers."""
    names = [name for name, _ in model.named_modules() if name]
    if layer and layer not in names:
        raise unknown("layer", layer, names)
    if layer and isinstance(model, torchvision_models().SwinTransformer):
        raise CannotDo("`layer` cannot read the maps of a Swin transformer: D comes last")
    return layer


def _fixed_size(model: nn.Module) -> int | None:
    """Return the side of a model's fixed input size; None if it reads images of any size."""
    if isinstance(model, torchvision_models().VisionTransformer):
        return int(model.image_size)
    # The size of MaxViT's windows divides its maps' size only at 224 x 224.
    return 224 if isinstance(model, torchvision_models().MaxVit) else None


def _load(file: Path, model: nn.Module, head: str, usual: Tensor) -> Tensor:
    """Load a file's weights into a model; return its normaliser, [2, 3], or else the usual one.

    The head becomes as wide as the file's, or Identity if the file has no head. Raises
    WeightsError.
    """
    stored = _open(file)
    needed = model.state_dict()
    prefix = _prefix(stored, needed)
    state = _fit(stored, prefix, needed)
    weight = state.get(f"{head}.weight")
    if not any(key.startswith(f"{head}.") for key in state):
        model.set_submodule(head, nn.Identity())
    elif weight is not None and weight.ndim and len(weight) != len(needed[f"{head}.weight"]):
        model.set_submodule(head, _make_head(model.get_submodule(head), len(weight)))
    load_weights(model, state, file)
    beside = f"{prefix.removesuffix('model.')}normalizer.new_"
    parts = [stored[f"{beside}{k}"] for k in ("mean", "std") if f"{beside}{k}" in stored]
    if any(part.numel() != 3 for part in parts):
        raise WeightsError(f"{file} has a normaliser that does not have three channels")
    return torch.stack([p.view(3).float() for p in parts]) if len(parts) == 2 else usual


def _make_head(head: Any, count: int) -> nn.Module:
    """Return a head of the same kind for `count` classes."""
    bias = head.bias is not None
    if isinstance(head, nn.Conv2d):
        return nn.Conv2d(head.in_channels, count, head.kernel_size, bias=bias)
    return nn.Linear(head.in_features, count, bias=bias)


def _fit(stored: Mapping[str, Any], prefix: str, needed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a model's weights among a file's, under the model's keys.

    Other modules under the same prefix are omitted. Additional layers of the model's modules are
    kept, so that the file of a larger architecture is refused.
    """
    parts = {key.partition(".")[0] for key in needed}
    # Older checkpoints do not contain the counts of batches, which are used only in training.
    counts = {key: v for key, v in needed.items() if key.endswith("num_batches_tracked")}
    stripped = {key.removeprefix(prefix): v for key, v in stored.items() if key.startswith(prefix)}
    return counts | {key: v for key, v in stripped.items() if key.partition(".")[0] in parts}


def _prefix(stored: Mapping[str, Tensor], needed: Mapping[str, Tensor]) -> str:
    """Return the prefix of most of the wanted keys; among equals, the shortest."""
    splits = ((key, [0, *(i + 1 for i, c in enumerate(key) if c == ".")]) for key in stored)
    counts = Counter(key[:i] for key, starts in splits for i in starts if key[i:] in needed)
    return min(counts, key=lambda prefix: (-counts[prefix], len(prefix)), default="")


def _open(file: Path) -> dict[str, Tensor]:
    """Return the state dict in a file, also if it is under one of the keys in ENVELOPES."""
    content = read_weights(file, past_pickles=True)
    inner = [content[e] for e in ENVELOPES if isinstance(content.get(e), Mapping)]
    state = inner[0] if inner else content
    return {str(key): value for key, value in state.items() if isinstance(value, Tensor)}
