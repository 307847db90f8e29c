"""Which adapter reads a model of transformers, by that library's own mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlbench.errors import UnknownNameError

# The adapters that read models of transformers, and that library's mappings that list their types.
# Of a type that several read, the class that saved the checkpoint decides, or else the order.
READERS = {
    "hf_vlm:HfVlm": ("IMAGE_TEXT_TO_TEXT",),
    "hf_dual:HfDual": ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
    "hf_vision:HfVision": ("IMAGE", "IMAGE_CLASSIFICATION"),
    "hf_text:HfText": ("TEXT_ENCODING", "MASKED_LM", "CAUSAL_LM"),
}

# Adapters of one architecture alone, by the class that saved the checkpoint.
READERS_OF_CLASS = {
    "BlipForImageTextRetrieval": "blip:Blip",
    "DetrForObjectDetection": "detr:Detr",
    "ViltForImageAndTextRetrieval": "vilt:Vilt",
    "ViltForMaskedLM": "vilt:Vilt",
}


def reader_of(config: Mapping[str, Any], name: str) -> str:
    """Return the adapter that reads a model of transformers, by its configuration.

    Raises UnknownNameError where there is none.
    """
    listed = config.get("architectures")
    saved_by = {str(one) for one in listed} if isinstance(listed, list) else set()
    of_class = [READERS_OF_CLASS[one] for one in sorted(saved_by & set(READERS_OF_CLASS))]
    if of_class:
        return of_class[0]
    kind = str(config.get("model_type", ""))
    classes = {reader: _classes(kind, mappings) for reader, mappings in READERS.items()}
    fitting = [reader for reader, known in classes.items() if known]
    exact = [reader for reader in fitting if saved_by & classes[reader]]
    if not fitting:
        raise UnknownNameError(f"hf:{name} {_why_unread(config, kind)}")
    return (exact or fitting)[0]


def _classes(kind: str, mappings: tuple[str, ...]) -> set[str]:
    """Return the classes of transformers for a type of model in some of its mappings."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 - takes a second

    named = [getattr(modeling_auto, f"MODEL_FOR_{one}_MAPPING_NAMES").get(kind) for one in mappings]
    if "IMAGE" in mappings:  # Towers of larger models, such as CLIP's, are in none of them.
        base = modeling_auto.MODEL_MAPPING_NAMES.get(kind)
        named.append(base if str(base).endswith(("VisionModel", "VisionTransformer")) else None)
    several = [(one,) if isinstance(one, str) else one for one in named if one]
    return {name for names in several for name in names}


def _why_unread(config: Mapping[str, Any], kind: str) -> str:
    published = config.get("pretrained_cfg")
    if isinstance(published, dict) and "architecture" in config:
        tag = published.get("tag", "")
        return f"is a model of timm; write timm:{config['architecture']}{tag and f'.{tag}'}"
    why = f"is of type '{kind}'" if kind else "has a configuration without a model_type"
    return f"{why}, which no adapter is known to read; name one in a models.yaml of your own"
