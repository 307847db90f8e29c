"""Small networks with random weights of every family of image models in timm and transformers."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import (
    CONFIG_MAPPING,
    model_type_to_module_name,
)
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

# The pixels of a side, in the order in which they are tried: 64 fits most networks.
SIZES = (64, 128, 224, 240, 256)
# A network with more weights takes longer than a table of a hundred families may.
LARGEST = 20_000_000
MOST_NUMBERS = 200_000
# The variants of a module that are tried until one is small.
MOST_VARIANTS = 8
# Options that shrink the networks that accept them, the smallest first.
SMALLER: tuple[dict[str, Any], ...] = (
    {"depth": 2, "embed_dim": 32, "num_heads": 2},
    {"depth": 2, "embed_dim": 64, "num_heads": 2},
    {"depths": (1, 1, 1, 1)},
    {"depths": (1, 1, 1)},
    {"layers": (1, 1, 1, 1)},
    {"depth": 2},
    {},
)
# The fields of a configuration of transformers that shrink a network.
FIELDS = {
    "hidden_size": 32,
    "embed_dim": 32,
    "d_model": 32,
    "intermediate_size": 64,
    "mlp_dim": 64,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "depth": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


class Family(NamedTuple):
    """A network, what maps pixels to its vectors, and the side of its images."""

    model: nn.Module
    encode: Callable[[torch.Tensor], torch.Tensor]
    side: int


class NotBuiltError(Exception):
    """A family has no small network here; the message is the reason."""


def timm_variants(module):
    """Return the names of the variants of a module of timm, the shortest first."""
    return sorted(timm.list_models(module=module), key=lambda name: (len(name), name))


def timm_family(module):
    """Return a small network of a module of timm. Raises NotBuiltError."""
    return _first_of(
        [
            partial(_timm_network, name, options, sized)
            for name in timm_variants(module)[:MOST_VARIANTS]
            for options in SMALLER
            for sized in (True, False)
        ]
    )


def _first_of(builders):
    """Return the first network that is built and reads its images. Raises NotBuiltError."""
    reasons = []
    for build in builders:
        for side in SIZES:
            try:
                return _tried(build(side))
            except (TypeError, NotBuiltError) as error:  # the other sides would not help
                reasons.append(f"{type(error).__name__}: {error}")
                break
            except Exception as error:  # noqa: BLE001 - the libraries raise of every kind
                reasons.append(f"{type(error).__name__}: {error}")
    raise NotBuiltError(reasons[-1])


def _timm_network(name, options, sized, side):
    def create():
        size = {"img_size": side} if sized else {}
        return timm.create_model(name, pretrained=False, **options, **size)

    model = _small(create)

    def encode(pixels):
        return model.forward_head(model.forward_features(pixels), pre_logits=True)

    return Family(_weighted(model), encode, side)


def _small(create):
    """Return a network, unless it has too many weights."""
    with torch.device("meta"):
        count = sum(weight.numel() for weight in create().parameters())
    if count > LARGEST:
        raise NotBuiltError(f"its smallest network has {count:,} weights")
    return create()


def transformers_sources():
    """Return the source of each type of models of transformers that reads images and no text.

    Nothing is imported, which would take a minute.
    """
    folder = Path(find_spec("transformers").origin).parent / "models"
    sources = {}
    for kind in MODEL_MAPPING_NAMES:
        module = model_type_to_module_name(kind)
        file = folder / module / f"modeling_{module}.py"
        source = file.read_text("utf-8") if file.exists() else ""
        if 'input_modalities = ("image",)' in source:
            sources[kind] = source
    return sources


def transformers_family(kind):
    """Return a small network of a type of transformers. Raises NotBuiltError."""
    narrow = {name: value for name, value in FIELDS.items() if "size" not in name}
    return _first_of(
        [partial(_transformers_network, kind, fields) for fields in (FIELDS, narrow, {})]
    )


def _transformers_network(kind, fields, side):
    config = CONFIG_MAPPING[kind]()
    if hasattr(config, "text_config"):
        raise NotBuiltError("it reads texts too; its image encoder is another type")
    for name, value in (fields | {"image_size": side}).items():
        if isinstance(getattr(config, name, None), int):
            setattr(config, name, value)
    depths = getattr(config, "depths", None)
    if fields and isinstance(depths, list | tuple) and not isinstance(depths[0], list | tuple):
        config.depths = [1] * len(depths)
    model = _small(lambda: transformers.AutoModel.from_config(config))

    def encode(pixels):
        torch.manual_seed(0)  # a masked autoencoder draws the patches that it hides
        return model(pixel_values=pixels).last_hidden_state

    return Family(_weighted(model), encode, side)


def _weighted(model):
    """Return a network whose weights all matter: also tokens that start as zero."""
    for weight in model.parameters():
        weight.data += 0.02 * torch.randn(weight.shape)
    return model.eval().requires_grad_(requires_grad=False)


def _tried(family):
    with torch.no_grad():
        output = family.encode(torch.rand(2, 3, family.side, family.side))
    # All inputs of a network with a token per pixel would not fit in memory.
    if output[0].numel() > MOST_NUMBERS:
        raise NotBuiltError(f"it gives {output[0].numel():,} numbers per image")
    return family
