"""Models of the library torchvision: with published weights, or with random ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vlbench import hub
from vlbench.adapter_kit.images import IMAGENET, Interpolation
from vlbench.adapter_kit.weights import UNREADABLE, not_downloaded, seeded, unreadable
from vlbench.errors import unknown

# Published weights of these see pixels normalised with ImageNet's mean and deviation, and normalise
# them again; the library says so to a model that loads them by their tag, and to no other.
RENORMALISED = ("googlenet", "inception_v3")

# The shorter side of images where no published weights say it, in pixels.
RESIZE = 256


def torchvision_models() -> Any:
    """Return the module torchvision.models."""
    from torchvision import models  # noqa: PLC0415 - takes seconds, for models that load alone

    return models


def published_tags(architecture: str, known: Iterable[str], kind: str) -> Any:
    """Return torchvision's enumeration of the published weights of an architecture.

    Raises UnknownNameError, which calls the architecture a `kind`, where it is none of `known`.
    """
    names = list(known)
    if architecture not in names:
        raise unknown(f"{kind} of torchvision", architecture, names)
    return torchvision_models().get_model_weights(architecture)


def seen_by(
    tag: Any, resize: int | None, crop: int | None, interpolation: Interpolation | None
) -> dict[str, Any]:
    """Return the size that images are resized to, that of the central crop, and how.

    What is None is as the weights of the tag were published with; for None as a tag it is 256 x 256
    and bicubic. A given `resize` has no crop unless one is given.
    """
    own = tag.transforms() if tag else None
    if resize is None:
        resize, crop = (own.resize_size[0], crop or own.crop_size[0]) if own else (RESIZE, crop)
    how = interpolation or (own.interpolation.value if own else "bicubic")
    return {"resize": resize, "crop": crop or resize, "interpolation": how}


def normaliser_of(tag: Any) -> Tensor:
    """Return mean and deviation, [2, 3], that the weights of a tag expect; None: ImageNet's."""
    own = tag.transforms() if tag else None
    return torch.tensor([own.mean, own.std] if own else IMAGENET)


def open_torchvision(architecture: str, tag: Any, seed: int, **options: Any) -> nn.Module:
    """Return a model with the weights of a published tag; None draws them from a seed.

    Raises WeightsError for weights that are not in torch's cache and cannot be downloaded, and for
    a broken file in the cache.
    """
    get = torchvision_models().get_model
    if tag is None:
        with seeded(seed):
            drawn: nn.Module = get(architecture, weights=None, **options)
        return drawn
    what = f"the weights {tag}"
    cached = Path(torch.hub.get_dir(), "checkpoints", tag.url.rpartition("/")[2])
    if hub.is_offline() and not cached.is_file():
        raise not_downloaded(what, tag.url, hub.why_offline())
    try:
        model: nn.Module = get(architecture, weights=tag, **options)
    except UNREADABLE as error:
        if cached.is_file():
            raise unreadable(cached, error) from error
        raise not_downloaded(what, tag.url, error) from error
    return model
