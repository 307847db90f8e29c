"""Names of a library's models: found, or refused with the nearest known names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vlbench.adapter_kit.images import IMAGENET, Interpolation
from vlbench.adapter_kit.weights import (
    UNREADABLE,
    download_error,
    hub_obstacle,
    seeded,
    unreadable,
    weights_file,
)
from vlbench.errors import UnknownNameError, WeightsError, unknown
from vlbench.system import hub

# Published weights of these models take pixels normalised with ImageNet's mean and deviation, and
# normalise them again; torchvision sets this only if the model is loaded by its tag.
RENORMALISED = ("googlenet", "inception_v3")

# The shorter side of images, in pixels, if no published weights state it.
RESIZE = 256


def torchvision_models() -> Any:
    """Return the module torchvision.models."""
    from torchvision import models  # noqa: PLC0415 - takes seconds, for models that load alone

    return models


def published_tags(architecture: str, architectures: Iterable[str], kind: str) -> Any:
    """Return torchvision's enumeration of the published weights of an architecture.

    Raises UnknownNameError, which names the `kind`, if the architecture is not in `architectures`.
    """
    names = list(architectures)
    if architecture not in names:
        raise unknown(f"{kind} of torchvision", architecture, names)
    return torchvision_models().get_model_weights(architecture)


def view_of_weights(
    tag: Any, resize: int | None, crop: int | None, interpolation: Interpolation | None
) -> dict[str, Any]:
    """Return the resized side, the side of the central crop, and the interpolation.

    None means the value with which the weights of the tag were published; if the tag is None,
    256 x 256 and bicubic. If `resize` is given, there is no crop unless `crop` is given.
    """
    view = tag.transforms() if tag else None
    if resize is None:
        resize, crop = (view.resize_size[0], crop or view.crop_size[0]) if view else (RESIZE, crop)
    how = interpolation or (view.interpolation.value if view else "bicubic")
    return {"resize": resize, "crop": crop or resize, "interpolation": how}


def normaliser_of(tag: Any) -> Tensor:
    """Return mean and deviation, [2, 3], that the weights of a tag expect; None: ImageNet's."""
    view = tag.transforms() if tag else None
    return torch.tensor([view.mean, view.std] if view else IMAGENET)


def open_torchvision(architecture: str, tag: Any, seed: int, **options: Any) -> nn.Module:
    """Return a model with the weights of a published tag; None draws them from a seed.

    Raises WeightsError if the weights are not in torch's cache and cannot be downloaded, or if
    the file in the cache is broken.
    """
    get = torchvision_models().get_model
    if tag is None:
        with seeded(seed):
            drawn: nn.Module = get(architecture, weights=None, **options)
        return drawn
    if hub.is_offline():
        _require_cached(tag, hub.why_offline())
    try:
        model: nn.Module = get(architecture, weights=tag, **options)
    except UNREADABLE as error:
        _require_cached(tag, error)
        raise unreadable(_cache_path(tag), error) from error
    return model


def _cache_path(tag: Any) -> Path:
    return Path(torch.hub.get_dir(), "checkpoints", tag.url.rpartition("/")[2])


def _require_cached(tag: Any, why: object) -> None:
    """Raise WeightsError with the reason if the weights of a tag are not in torch's cache."""
    if not _cache_path(tag).is_file():
        raise download_error(f"the weights {tag}", tag.url, why)


def require_torchvision_weights(weights: str, tags: Callable[[], Any], hint: str) -> None:
    """Raise WeightsError if weights of torchvision are neither here nor available for download.

    `weights` is one of the `tags` (called only if the hub is unavailable), a file (the hint states
    how to get it), or "random". Reads no file.
    """
    if weights == "random" or Path(weights).expanduser().is_file():
        return
    if Path(weights).suffix:  # no tag has a suffix
        weights_file(weights, hint)
    if obstacle := hub_obstacle():
        members = tags().__members__
        if weights in members:
            _require_cached(members[weights], obstacle)


def require_timm(name: str) -> None:
    """Raise UnknownNameError for an architecture or a tag that timm does not have."""
    import timm  # noqa: PLC0415 - takes seconds, which only a model that loads should cost

    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise unknown("architecture of timm", architecture, timm.list_models())
    names = timm.list_models(f"{architecture}.*", pretrained=True)
    if tag and name not in names:
        raise unknown("model of timm", name, names)


def require_torchvision(name: str, tag: str = "") -> Any:
    """Return torchvision's enumeration of the weights of a classifier.

    Raises UnknownNameError for a classifier or a tag that torchvision does not have.
    """
    models = torchvision_models()
    tags = published_tags(name, models.list_models(module=models), "architecture")
    choices = [*(member.name for member in tags), "DEFAULT", "random"]
    if tag and tag not in choices:
        raise unknown(f"pretrained tag of {name}", tag, choices)
    return tags


def require_open_clip(name: str) -> None:
    """Raise UnknownNameError for an architecture that open_clip does not have."""
    names = _open_clip().list_models()
    if name not in names:
        raise unknown("architecture of open_clip", name, names)


def require_open_clip_tag(name: str, tag: str) -> None:
    """Raise UnknownNameError if open_clip has no weights of an architecture under a tag."""
    library = _open_clip()
    tags = [*library.list_pretrained_tags_by_model(name), "random"]
    if not tag:
        raise UnknownNameError(f"{name} of open_clip needs a tag, {name}/TAG: {', '.join(tags)}")
    if not library.is_pretrained_cfg(name, tag):
        raise unknown(f"pretrained tag of {name}", tag, tags)


def _open_clip() -> Any:
    import open_clip  # noqa: PLC0415 - as above

    return open_clip


def hub_file(repository: str, file: str, revision: str, instead: str) -> Path:
    """Return the path of one file, downloaded if it is not in the cache.

    Raises UnknownNameError for a repository, a revision or a file that the hub does not have, and
    WeightsError if the hub is unavailable; `instead` names the option that takes a local copy.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - reads HF_HUB_OFFLINE on import

    return _download(partial(hf_hub_download, filename=file), repository, revision, instead)


def hub_folder(repository: str, patterns: Sequence[str], revision: str, instead: str) -> Path:
    """Return the folder of all files that match some patterns; download files not in the cache.

    Raises as `hub_file` does.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - reads HF_HUB_OFFLINE on import

    download = partial(snapshot_download, allow_patterns=[*patterns])
    return _download(download, repository, revision, instead)


def _download(load: Callable[..., str], repository: str, revision: str, instead: str) -> Path:
    """Return the path that a function of the hub's library returns; offline, from the cache."""
    obstacle = hub_obstacle()
    try:
        return Path(load(repository, revision=revision, local_files_only=bool(obstacle)))
    except (OSError, ValueError) as error:
        raise _refusal(error, obstacle, f"{repository}, revision {revision},", instead) from error


def _refusal(
    error: Exception, obstacle: str, what: str, instead: str
) -> UnknownNameError | WeightsError:
    """Return the error for an unavailable file: its name is wrong, or the hub is unavailable."""
    from huggingface_hub import errors  # noqa: PLC0415 - as above

    local = f"give a local copy with {instead}"
    if isinstance(error, errors.HFValidationError):
        return UnknownNameError(f"{what} has no name on the hub: {error}")
    if isinstance(error, errors.GatedRepoError):
        page = "accept the terms on its hub page and set HF_TOKEN"
        return WeightsError(f"{what} is gated: {page}; or {local}")
    if isinstance(error, errors.RepositoryNotFoundError):
        why = "the hub has no repository of this name, or HF_TOKEN gives no access to it"
        return UnknownNameError(f"{what} was not found: {why}")
    if isinstance(error, errors.RevisionNotFoundError | errors.RemoteEntryNotFoundError):
        return UnknownNameError(f"{what} was not found: {str(error).strip().splitlines()[-1]}")
    why = obstacle or hub.why_failed(error)
    return WeightsError(f"{what} cannot be downloaded from the hub: {why}; {local}")
