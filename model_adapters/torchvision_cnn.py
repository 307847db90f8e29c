"""Image classifiers of torchvision, with its own weights or with published checkpoints.

In arXiv:2104.08313: ResNet-50 (arXiv:1512.03385), SIN (arXiv:1811.12231), MadryLab's robust models,
VirTex (arXiv:2006.06666) and ICMLM (arXiv:2008.01392).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from vlbench.adapter_kit.images import IMAGENET, Interpolation, resizing
from vlbench.adapter_kit.torchvision_models import (
    open_torchvision,
    published_tags,
    torchvision_models,
)
from vlbench.adapter_kit.weights import load_weights, read_past_pickles, weights_file
from vlbench.errors import CannotDo, SpecError, WeightsError

# Published files have the state dict under one of these keys; `cnn` is the key of ICMLM.
ENVELOPES = ("state_dict", "model", "model_state_dict", "net", "cnn")


class TorchvisionCnn:
    """A classifier of torchvision. Its features are the inputs of its last linear layer.

    `weights` is a tag of torchvision, a file (a state dict in the layout of any of the papers
    above), or "random" (drawn with `init_seed`). `source` says where the file can be downloaded. A
    file without a classification head gives features alone. A file with a normaliser keeps it.

    `resize` is the length of the shorter side, or of both sides with `squash`; `interpolation` says
    how. `crop` is the side of the square cut from the centre; None means as large as `resize`.
    """

    def __init__(  # noqa: PLR0913 - models.yaml and tasks fill them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "resnet50",
        weights: str = "IMAGENET1K_V1",
        source: str = "",
        resize: int = 256,
        crop: int | None = None,
        squash: bool = False,
        interpolation: Interpolation = "bicubic",
        init_seed: int = 0,
    ) -> None:
        self._steps = resizing(resize, crop, squash=squash, interpolation=interpolation)
        models = torchvision_models()
        known = models.list_models(module=models)
        tags = published_tags(architecture, known, "architecture")
        tag = next((tag for tag in tags if tag.name == weights), None)
        there_are = f"{architecture} has the tags {', '.join(tag.name for tag in tags)}, random"
        hint = f"where to get it: {source or there_are}; give its path as weights=PATH"
        file = None if tag or weights == "random" else weights_file(weights, hint)
        model = open_torchvision(architecture, tag, init_seed)
        head = _head_name(model, architecture)
        normaliser = _load(file, model, head) if file else torch.tensor(IMAGENET)
        model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        last = model.get_submodule(head)
        self._head = last if isinstance(last, nn.Linear) else None
        model.set_submodule(head, nn.Identity())
        self.model = model
        self._mean, self._std = normaliser.view(2, 3, 1, 1).to(device)
        self._dtype = dtype
        self._categories: list[str] = tags.DEFAULT.meta["categories"]

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, crop, crop] in [0, 1]."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]; for a ResNet-50 the average over positions, D = 2048."""
        return self._features(pixels).float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        scores: Tensor = self._classifier()(self._features(pixels))
        return scores.float()

    def class_names(self) -> list[str]:
        """Return torchvision's names of the 1000 classes of ImageNet.

        Raises CannotDo for a checkpoint with other classes.
        """
        count = self._classifier().out_features
        if count != len(self._categories):
            raise CannotDo(f"the names of this checkpoint's {count} classes are not known")
        return list(self._categories)

    def _features(self, pixels: Tensor) -> Tensor:
        normalised = (pixels.float() - self._mean) / self._std
        features: Tensor = self.model(normalised.to(self._dtype))
        return features

    def _classifier(self) -> nn.Linear:
        if self._head is None:
            raise CannotDo("this checkpoint has no classification head")
        return self._head


def _head_name(model: nn.Module, architecture: str) -> str:
    names = [str(name) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise SpecError(f"{architecture} of torchvision has no linear layer at its end")
    return names[-1]


def _load(file: Path, model: nn.Module, head: str) -> Tensor:
    """Load a file's weights into a model; return its normaliser, mean and std, [2, 3].

    The head becomes as wide as that of the file, or Identity where the file has none. Raises
    WeightsError.
    """
    stored = _open(file)
    wanted = model.state_dict()
    prefix = _prefix(stored, wanted)
    state = _own(stored, prefix, wanted)
    weight = state.get(f"{head}.weight")
    if not any(key.startswith(f"{head}.") for key in state):
        model.set_submodule(head, nn.Identity())
    elif weight is not None and weight.ndim and len(weight) != len(wanted[f"{head}.weight"]):
        width = wanted[f"{head}.weight"].shape[1]
        model.set_submodule(head, nn.Linear(width, len(weight), bias=f"{head}.bias" in wanted))
    load_weights(model, state, file)
    beside = f"{prefix.removesuffix('model.')}normalizer.new_"
    own = [stored[f"{beside}{k}"] for k in ("mean", "std") if f"{beside}{k}" in stored]
    if any(part.numel() != 3 for part in own):
        raise WeightsError(f"{file} has a normaliser of other than three channels")
    return (
        torch.stack([p.view(3).float() for p in own]) if len(own) == 2 else torch.tensor(IMAGENET)
    )


def _own(stored: Mapping[str, Any], prefix: str, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a model among those of a file, under the model's own keys.

    Other modules under the same prefix are left out. Additional layers of the model's own modules
    are kept, so that the file of a larger architecture is refused.
    """
    parts = {key.partition(".")[0] for key in wanted}
    # Older checkpoints lack the counts of batches, which are only read in training.
    counts = {key: v for key, v in wanted.items() if key.endswith("num_batches_tracked")}
    own = {key.removeprefix(prefix): v for key, v in stored.items() if key.startswith(prefix)}
    return counts | {key: v for key, v in own.items() if key.partition(".")[0] in parts}


def _prefix(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Return the prefix of most of the wanted keys; among equals, the shortest."""
    splits = ((key, [0, *(i + 1 for i, c in enumerate(key) if c == ".")]) for key in stored)
    counts = Counter(key[:i] for key, starts in splits for i in starts if key[i:] in wanted)
    return min(counts, key=lambda prefix: (-counts[prefix], len(prefix)), default="")


def _open(file: Path) -> dict[str, Tensor]:
    """Return the state dict in a file, also from under one of the keys in ENVELOPES."""
    content = read_past_pickles(file)
    inner = [content[e] for e in ENVELOPES if isinstance(content.get(e), Mapping)]
    state = inner[0] if inner else content
    return {str(key): value for key, value in state.items() if isinstance(value, Tensor)}
