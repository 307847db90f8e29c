"""The adapter contract, tried on an adapter: one finding for each promise of each capability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import offered
from vlbench.check.promises import PROMISES, Check
from vlbench.check.samples import ODD_IMAGES, ODD_PAIRS, ODD_TEXTS, Samples, draw_samples

# Two outputs are the same within this share of the larger one's largest magnitude.
TOLERANCE = 1e-4


class Finding(NamedTuple):
    """Whether an adapter keeps one promise, and if not, why."""

    capability: str
    what: str
    ok: bool
    why: str


Outputs = Callable[[Any, Samples, Sequence[int]], Sequence[Tensor]]


class Pass(NamedTuple):
    """How a capability is tried: outputs for some samples, their dimensions, the odd samples."""

    outputs: Outputs
    dimensions: int
    odd: Mapping[int, str]


def _pixels(adapter: Any, samples: Samples, places: Sequence[int]) -> Tensor:
    return torch.stack([adapter.preprocess(samples.images[i]) for i in places]).to(samples.device)


def _some(samples: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [samples[i] for i in places]


PASSES: dict[str, Pass] = {
    "ImageEncoder": Pass(lambda a, s, i: a.encode_images(_pixels(a, s, i)), 1, ODD_IMAGES),
    "TextEncoder": Pass(lambda a, s, i: a.encode_texts(_some(s.texts, i)), 1, ODD_TEXTS),
    "Classifier": Pass(lambda a, s, i: a.logits(_pixels(a, s, i)), 1, ODD_IMAGES),
    "TokenEncoder": Pass(
        lambda a, s, i: [tokens.vectors for tokens in a.encode_tokens(_some(s.texts, i))],
        2,
        ODD_TEXTS,
    ),
    "RegionEncoder": Pass(
        lambda a, s, i: a.encode_regions(_some(s.pictures, i), _some(s.boxes, i)), 2, ODD_IMAGES
    ),
    "Detector": Pass(
        lambda a, s, i: [regions.boxes for regions in a.detect(_some(s.pictures, i))],
        2,
        ODD_IMAGES,
    ),
    "ImageTextScorer": Pass(
        lambda a, s, i: a.score_pairs(_some(s.pictures, i), _some(s.texts, i)), 0, ODD_PAIRS
    ),
    "JointAttender": Pass(
        lambda a, s, i: [x.weights for x in a.attend(_some(s.pictures, i), _some(s.texts, i))],
        4,
        ODD_PAIRS,
    ),
}


def check_adapter(
    adapter: Any,
    *,
    without: Sequence[str] = (),
    device: torch.device | str = "cpu",
    region_width: int = 2048,
) -> list[Finding]:
    """Return what holds of each capability that an adapter offers, less those in `without`.

    `device` is where the adapter lives, `region_width` that of the region vectors it is shown.
    """
    samples = draw_samples(torch.device(device), region_width)
    checks = [
        (capability, what, check)
        for capability in offered(type(adapter), without)
        for what, check in {**_common(capability), **PROMISES[capability]}.items()
    ]
    return [Finding(c, what, *_verdict(check, adapter, samples)) for c, what, check in checks]


def _verdict(check: Check, adapter: Any, samples: Samples) -> tuple[bool, str]:
    try:
        with torch.no_grad():
            why = check(adapter, samples)
    except Exception as error:  # noqa: BLE001 - an adapter may raise anything: that is the finding
        why = f"{type(error).__name__}: {error}"
    return not why, why


def _common(capability: str) -> dict[str, Check]:
    """Return what every capability promises that has one output an example."""
    if capability not in PASSES:
        return {}
    fresh = PASSES[capability]
    tried = fresh._replace(outputs=_remembered(fresh.outputs))
    odd: dict[str, Check] = {
        f"takes {what}": partial(_finite, tried, [i]) for i, what in tried.odd.items()
    }
    return {
        **odd,
        "one float32 output an example": partial(_shapes, tried),
        "finite": partial(_finite, tried, [0, 1, 2]),
        "the same twice": partial(_same, fresh, [0, 1, 2], [0, 1, 2], 0.0),
        "a batch of one equals a batch of three": partial(_one_by_one, tried),
        "does not depend on its neighbours": partial(_same, tried, [0, 1, 2], [0, 3, 3], TOLERANCE),
    }


def _remembered(outputs: Outputs) -> Outputs:
    """Return the same function, which runs the model only once for each batch."""
    known: dict[tuple[int, ...], Sequence[Tensor]] = {}

    def remembered(adapter: Any, samples: Samples, places: Sequence[int]) -> Sequence[Tensor]:
        batch = tuple(places)
        if batch not in known:
            known[batch] = outputs(adapter, samples, places)
        return known[batch]

    return remembered


def _shapes(tried: Pass, adapter: Any, samples: Samples) -> str:
    outputs = tried.outputs(adapter, samples, [0, 1, 2])
    if len(outputs) != 3:
        return f"a batch of 3 gave {len(outputs)} outputs"
    kinds = {(output.dtype, output.ndim) for output in outputs}
    widths = {output.shape[-1] for output in outputs if output.ndim == 1}
    if kinds != {(torch.float32, tried.dimensions)} or len(widths) > 1:
        shapes = [f"{output.dtype} {tuple(output.shape)}" for output in outputs]
        return f"outputs are {', '.join(shapes)}; float32 of {tried.dimensions} dimensions expected"
    return ""


def _finite(tried: Pass, places: Sequence[int], adapter: Any, samples: Samples) -> str:
    outputs = tried.outputs(adapter, samples, places)
    if len(outputs) != len(places):
        return f"a batch of {len(places)} gave {len(outputs)} outputs"
    bad = sum(int((~output.isfinite()).sum()) for output in outputs)
    return f"{bad} of {sum(o.numel() for o in outputs)} values are NaN or infinite" if bad else ""


def _same(
    tried: Pass,
    these: Sequence[int],
    those: Sequence[int],
    tolerance: float,
    adapter: Any,
    samples: Samples,
) -> str:
    """Compare the examples that stand at the same place in both batches."""
    first = tried.outputs(adapter, samples, these)
    second = tried.outputs(adapter, samples, those)
    pairs = zip(these, those, first, second, strict=True)
    return next(filter(None, (_apart(x, y, tolerance) for i, j, x, y in pairs if i == j)), "")


def _one_by_one(tried: Pass, adapter: Any, samples: Samples) -> str:
    together = tried.outputs(adapter, samples, [0, 1, 2])
    alone = [output for i in range(3) for output in tried.outputs(adapter, samples, [i])]
    pairs = zip(together, alone, strict=True)
    return next(filter(None, (_apart(x, y, TOLERANCE) for x, y in pairs)), "")


def _apart(x: Tensor, y: Tensor, tolerance: float) -> str:
    """Say how far two outputs are apart, relative to the largest magnitude in them."""
    if x.shape != y.shape:
        return f"shape {tuple(x.shape)} becomes {tuple(y.shape)}"
    if x.numel() == 0:
        return ""
    scale = max(x.abs().max().item(), y.abs().max().item())
    apart = (x - y).abs().max().item()
    if apart <= tolerance * scale:
        return ""
    return f"values differ by {apart:.3g}, where the largest is {scale:.3g}"
