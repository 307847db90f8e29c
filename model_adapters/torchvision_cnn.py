"""Image classifiers that torchvision can build, and others' checkpoints of them.

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
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision import models

from vlbench import hub
from vlbench.adapter_kit.images import resizing
from vlbench.adapter_kit.weights import UNREADABLE, fill, read_harmlessly
from vlbench.errors import CannotDo, SpecError, WeightsError, unknown

# Mean and standard deviation of ImageNet's red, green and blue.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

# Under one of these keys authors keep the state dict; `cnn` is ICMLM's.
ENVELOPES = ("state_dict", "model", "model_state_dict", "net", "cnn")


class TorchvisionCnn:
    """A classifier of torchvision: its logits, and as features what its last linear layer reads.

    `weights` is a tag of torchvision's, a file (a state dict in the layout of any of the papers
    above), or "random", drawn with `init_seed`; `source` says where that file can be had. A file
    without a classification head gives features alone; one with a normaliser keeps its own.

    `resize` is the length of the shorter side, bicubic, or of both with `squash`; `crop` is the
    side of the square taken from the centre, None for as large as `resize`.
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
        init_seed: int = 0,
    ) -> None:
        self._steps = resizing(resize, crop, squash=squash)
        tags = _tags(architecture)
        tag = next((tag for tag in tags if tag.name == weights), None)
        model = _fetch(architecture, tag) if tag else _build(architecture, init_seed)
        head = _head_name(model, architecture)
        normaliser = torch.tensor(IMAGENET)
        if not tag and weights != "random":
            known = ", ".join(tag.name for tag in tags)
            origin = source or f"{architecture} has the tags {known}, random"
            normaliser = _put(_file(weights, origin), model, head)
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
        pixels: Tensor = self._steps(image)
        return pixels

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]; of a ResNet-50 the average over positions, D = 2048."""
        return self._features(pixels).float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        scores: Tensor = self._classifier()(self._features(pixels))
        return scores.float()

    def class_names(self) -> list[str]:
        """Return torchvision's names of the classes: of ImageNet's 1000, and of no others."""
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


def _tags(architecture: str) -> Any:
    """Return torchvision's enumeration of the weights of a classifier."""
    known = models.list_models(module=models)
    if architecture not in known:
        raise unknown("architecture of torchvision", architecture, known)
    return models.get_model_weights(architecture)


def _fetch(architecture: str, tag: Any) -> nn.Module:
    """Return the model with the weights of a tag: from torch's cache, or else downloaded."""
    refusal = (
        f"the weights {tag} cannot be downloaded from {tag.url}: {{}}; "
        "they can be given as a local file: --model-args weights=PATH"
    )
    cached = Path(torch.hub.get_dir(), "checkpoints", tag.url.rpartition("/")[2])
    if hub.is_offline() and not cached.is_file():
        raise WeightsError(refusal.format("this run is offline"))
    try:
        model: nn.Module = models.get_model(architecture, weights=tag)
    except UNREADABLE as error:
        raise WeightsError(refusal.format(error)) from error
    return model


def _build(architecture: str, seed: int) -> nn.Module:
    """Return a fresh model with seeded weights; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: nn.Module = models.get_model(architecture, weights=None)
    return model


def _head_name(model: nn.Module, architecture: str) -> str:
    names = [str(name) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise SpecError(f"{architecture} of torchvision has no linear layer at its end")
    return names[-1]


def _file(weights: str, origin: str) -> Path:
    file = Path(weights).expanduser()
    if file.is_file():
        return file
    say = "say where it lies with --model-args weights=PATH"
    raise WeightsError(f"no file of weights at {file}; where to get it: {origin}; {say}")


def _put(file: Path, model: nn.Module, head: str) -> Tensor:
    """Put a file's weights into a model, and return the normaliser, mean and std, [2, 3].

    The head becomes as wide as the file's, or Identity where it has none. Raises WeightsError.
    """
    stored = _open(file)
    wanted = model.state_dict()
    prefix = _prefix(stored, wanted)
    state = _own(stored, prefix, wanted)
    weight = state.get(f"{head}.weight")
    if not any(key.startswith(f"{head}.") for key in state):
        model.set_submodule(head, nn.Identity())
    elif weight is not None and len(weight) != len(wanted[f"{head}.weight"]):
        width = wanted[f"{head}.weight"].shape[1]
        model.set_submodule(head, nn.Linear(width, len(weight), bias=f"{head}.bias" in wanted))
    fill(model, state, file)
    beside = f"{prefix.removesuffix('model.')}normalizer.new_"
    own = [stored[f"{beside}{k}"].view(3) for k in ("mean", "std") if f"{beside}{k}" in stored]
    return torch.stack(own).float() if len(own) == 2 else torch.tensor(IMAGENET)


def _own(stored: Mapping[str, Any], prefix: str, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a file holds for a model, under the model's own keys.

    What lies beside the model under its prefix is left out; further layers of the model's own
    parts are kept, so that they are found unexpected: the file is of a larger architecture.
    """
    parts = {key.partition(".")[0] for key in wanted}
    # Older checkpoints do not count batches, and nothing reads the counts after training.
    counts = {key: v for key, v in wanted.items() if key.endswith("num_batches_tracked")}
    own = {key.removeprefix(prefix): v for key, v in stored.items() if key.startswith(prefix)}
    return counts | {key: v for key, v in own.items() if key.partition(".")[0] in parts}


def _prefix(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Return what stands before most of the wanted keys; of equals, the shortest."""
    splits = ((key, [0, *(i + 1 for i, c in enumerate(key) if c == ".")]) for key in stored)
    counts = Counter(key[:i] for key, starts in splits for i in starts if key[i:] in wanted)
    return min(counts, key=lambda prefix: (-counts[prefix], len(prefix)), default="")


def _open(file: Path) -> dict[str, Tensor]:
    """Return the state dict in a file, out of its envelopes."""
    try:
        content = load_file(file) if file.suffix == ".safetensors" else read_harmlessly(file)
    except (*UNREADABLE, AttributeError, TypeError, IndexError) as error:
        raise WeightsError(f"{file} cannot be read as weights: {error}") from error
    if not isinstance(content, Mapping):
        raise WeightsError(f"{file} holds a {type(content).__name__}, not a state dict")
    inner = [content[e] for e in ENVELOPES if isinstance(content.get(e), Mapping)]
    state = inner[0] if inner else content
    return {str(key): value for key, value in state.items() if isinstance(value, Tensor)}
