"""What each capability promises. One without an entry here has no promises yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import (
    Classifier,
    Detector,
    ImageEncoder,
    ImageTextScorer,
    JointAttender,
    MaskedLanguageModel,
    RegionEncoder,
    SharedSpace,
    TextEncoder,
    TokenEncoder,
)
from vlbench.check import checks
from vlbench.check.checks import Check
from vlbench.check.passes import tensors
from vlbench.check.samples import ODD_IMAGES, ODD_PAIRS, ODD_TEXTS, Samples

# An adapter's outputs for the samples at these places.
Outputs = Callable[[Any, Samples, Sequence[int]], Sequence[Tensor]]


class Pass(NamedTuple):
    """A forward pass: outputs for some samples, their dimensions, and the unusual samples."""

    outputs: Outputs
    dimensions: int
    odd: Mapping[int, str]


class Promises(NamedTuple):
    """What a capability promises: the forward pass that it has, if any, and checks by name."""

    tried: Pass | None
    checks: Mapping[str, Check]


def _pixels(adapter: Any, samples: Samples, places: Sequence[int]) -> Tensor:
    return torch.stack([checks.preprocessed(adapter, samples.images[i]) for i in places]).to(
        samples.device
    )


def _some(samples: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [samples[i] for i in places]


def _pairs(samples: Samples, places: Sequence[int]) -> tuple[list[Any], list[Any]]:
    return _some(samples.pictures, places), _some(samples.texts, places)


_IMAGES: dict[str, Check] = {
    "preprocess gives float32 [3, H, W] in [0, 1]": checks.pixels_in_range,
    "one size for all images": checks.one_size,
}
_TEXTS: dict[str, Check] = {"counts what it cuts": checks.cut_texts_are_counted}

PROMISES: dict[type, Promises] = {
    ImageEncoder: Promises(
        Pass(lambda a, s, i: a.encode_images(_pixels(a, s, i)), 1, ODD_IMAGES),
        {**_IMAGES, "gradients reach pixels": checks.gradients("encode_images")},
    ),
    TextEncoder: Promises(
        Pass(lambda a, s, i: a.encode_texts(_some(s.texts, i)), 1, ODD_TEXTS), _TEXTS
    ),
    SharedSpace: Promises(None, {"a number for each pair, in any batch": checks.similarity}),
    Classifier: Promises(
        Pass(lambda a, s, i: a.logits(_pixels(a, s, i)), 1, ODD_IMAGES),
        {
            **_IMAGES,
            "gradients reach pixels": checks.gradients("logits"),
            "a logit for each class name": checks.classes,
        },
    ),
    TokenEncoder: Promises(
        Pass(
            lambda a, s, i: tensors("encode_tokens", a.encode_tokens(_some(s.texts, i))),
            2,
            ODD_TEXTS,
        ),
        {"spans ascend inside the text": checks.token_spans, **_TEXTS},
    ),
    RegionEncoder: Promises(
        Pass(
            lambda a, s, i: a.encode_regions(_some(s.pictures, i), _some(s.boxes, i)), 2, ODD_IMAGES
        ),
        {"a vector for each box": checks.vector_a_box},
    ),
    Detector: Promises(
        Pass(
            lambda a, s, i: tensors("detect", a.detect(_some(s.pictures, i))),
            2,
            ODD_IMAGES,
        ),
        {"regions agree and lie inside the image": checks.detections},
    ),
    ImageTextScorer: Promises(
        Pass(lambda a, s, i: a.score_pairs(*_pairs(s, i)), 0, ODD_PAIRS), _TEXTS
    ),
    JointAttender: Promises(
        Pass(lambda a, s, i: tensors("attend", a.attend(*_pairs(s, i))), 4, ODD_PAIRS),
        {
            "spans ascend inside the text": checks.attended_spans,
            "a row is a share of attention": checks.attention,
            **_TEXTS,
        },
    ),
    MaskedLanguageModel: Promises(None, {"logits for every word": checks.masked_words}),
}
