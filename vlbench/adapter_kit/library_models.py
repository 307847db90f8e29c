"""Names of models that a library has: known, or refused with the nearest of them."""

from __future__ import annotations

from typing import Any

from vlbench.adapter_kit.torchvision_models import published_tags, torchvision_models
from vlbench.errors import UnknownNameError, unknown


def require_timm(name: str) -> None:
    """Raise UnknownNameError for an architecture, or a tag of one, that timm does not have."""
    import timm  # noqa: PLC0415 - takes seconds, which only a model that loads should cost

    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise unknown("architecture of timm", architecture, timm.list_models())
    known = timm.list_models(f"{architecture}.*", pretrained=True)
    if tag and name not in known:
        raise unknown("model of timm", name, known)


def require_torchvision(name: str, tag: str = "") -> Any:
    """Return torchvision's enumeration of the weights of a classifier.

    Raises UnknownNameError for a classifier, or a tag of one, that torchvision does not have.
    """
    models = torchvision_models()
    tags = published_tags(name, models.list_models(module=models), "architecture")
    known = [*(one.name for one in tags), "DEFAULT", "random"]
    if tag and tag not in known:
        raise unknown(f"pretrained tag of {name}", tag, known)
    return tags


def require_open_clip(name: str) -> None:
    """Raise UnknownNameError for an architecture that open_clip does not have."""
    known = _open_clip().list_models()
    if name not in known:
        raise unknown("architecture of open_clip", name, known)


def require_open_clip_tag(name: str, tag: str) -> None:
    """Raise UnknownNameError for a tag that open_clip has no weights of an architecture under."""
    library = _open_clip()
    known = [*library.list_pretrained_tags_by_model(name), "random"]
    if not tag:
        raise UnknownNameError(f"{name} of open_clip wants a tag, {name}/TAG: {', '.join(known)}")
    if not library.is_pretrained_cfg(name, tag):
        raise unknown(f"pretrained tag of {name}", tag, known)


def _open_clip() -> Any:
    import open_clip  # noqa: PLC0415 - as above

    return open_clip
