"""Tests an adapter against the contract: one check per promise of each capability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import (
    Answerer,
    AnswerScorer,
    Classifier,
    Cut,
    Detector,
    GridEncoder,
    ImageEncoder,
    ImageTextScorer,
    Intervenable,
    JointAttender,
    LayerEncoder,
    Look,
    MaskedLanguageModel,
    Recording,
    RegionEncoder,
    SharedSpace,
    TextEncoder,
    TextLayerEncoder,
    TokenEncoder,
    TokenLayerEncoder,
    offered,
)
from vlbench.check import checks
from vlbench.check.checks import Check
from vlbench.check.samples import (
    ANSWERS,
    ODD_IMAGES,
    ODD_PAIRS,
    ODD_QUESTIONS,
    ODD_TEXTS,
    Samples,
    draw_samples,
)
from vlbench.engine.pass_checks import difference, first_outside, tensors, tolerance
from vlbench.errors import CannotDo, SpecError, described, exits_as_errors, place_of

# The check of a capability for which vlbench has no promises.
NO_PROMISES = "has no promises yet"
# An adapter's outputs for the samples with these indices.
Outputs = Callable[[Any, Samples, Sequence[int]], Sequence[Tensor]]
_IMAGES: dict[str, Check] = {
    "preprocess gives float32 [3, H, W] in [0, 1]": checks.pixels_in_range,
    "one size for all images": checks.one_size,
}
_TEXTS: dict[str, Check] = {"counts what it cuts": checks.cut_texts_are_counted}


class PromiseCheck(NamedTuple):
    """Whether an adapter keeps one promise, and if not, the reason.

    Promises broken by the same error have the same `cause`: its type and line; empty if unknown.
    """

    capability: str
    what: str
    ok: bool
    why: str
    cause: str = ""


def check_adapter(
    adapter: Any,
    *,
    without: Sequence[str] = (),
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    region_width: int = 2048,
    others: Sequence[type] = (),
) -> list[PromiseCheck]:
    """Return a check of each promise of each capability that an adapter has.

    Capabilities named in `without` are left out. `device` and `dtype` are those of the adapter,
    `region_width` is the width of the region vectors in the samples. `others` are capabilities of a
    user's own source, which have no promises yet.
    """
    samples = draw_samples(torch.device(device), region_width, dtype)
    capabilities = offered(type(adapter), without, others)
    checks = [(c, what, check) for c in capabilities for what, check in _checks(c).items()]
    return [
        PromiseCheck(c.__name__, what, *_verdict(check, adapter, samples))
        for c, what, check in checks
    ]


def _checks(capability: type) -> dict[str, Check]:
    """Return the checks of a capability, by promise."""
    if capability not in PROMISES:
        return {NO_PROMISES: lambda *_: ""}
    promises = PROMISES[capability]
    return {**(_common(promises.tried) if promises.tried else {}), **promises.checks}


def _verdict(check: Check, adapter: Any, samples: Samples) -> tuple[bool, str, str]:
    try:
        with torch.no_grad(), exits_as_errors():
            why = check(adapter, samples)
    except Exception as error:  # noqa: BLE001 - an adapter may raise anything
        return False, described(error), f"{type(error).__name__} {place_of(error)}"
    return not why, why, ""


def _common(fresh: SamplePass) -> dict[str, Check]:
    """Return the checks for every capability that has one output per example."""
    fresh = fresh._replace(outputs=_require_tensors(fresh.outputs))
    tried = fresh._replace(outputs=_remember(fresh.outputs))
    odd: dict[str, Check] = {
        f"takes {what}": partial(_finite, tried, [i]) for i, what in tried.odd.items()
    }
    return {
        **odd,
        "one float32 output per example": partial(_shapes, tried),
        "finite": partial(_finite, tried, [0, 1, 2]),
        "the same twice": partial(_same, fresh, [0, 1, 2], exact=True),
        "a batch of one equals a batch of three": partial(_one_by_one, tried),
        "does not depend on its neighbours": partial(_same, tried, [0, 3, 3], exact=False),
    }


def _require_tensors(outputs: Outputs) -> Outputs:
    """Wrap a function so that an output that is not a tensor raises SpecError."""

    def checked(adapter: Any, samples: Samples, places: Sequence[int]) -> Sequence[Tensor]:
        results = outputs(adapter, samples, places)
        other = next((type(one).__name__ for one in results if not isinstance(one, Tensor)), "")
        if other:
            raise SpecError(f"an output is of type {other}, not a float32 Tensor")
        # Copied, since an adapter may reuse its memory for the next batch.
        return [result.detach().clone() for result in results]

    return checked


def _remember(outputs: Outputs) -> Outputs:
    """Wrap a function so that the model runs only once for each batch."""
    cache: dict[tuple[int, ...], Sequence[Tensor]] = {}

    def remembered(adapter: Any, samples: Samples, places: Sequence[int]) -> Sequence[Tensor]:
        batch = tuple(places)
        if batch not in cache:
            cache[batch] = outputs(adapter, samples, places)
        return cache[batch]

    return remembered


def _shapes(tried: SamplePass, adapter: Any, samples: Samples) -> str:
    outputs = tried.outputs(adapter, samples, [0, 1, 2])
    if len(outputs) != 3:
        return f"a batch of 3 gave {len(outputs)} outputs"
    kinds = {(output.dtype, output.ndim) for output in outputs}
    widths = {output.shape[-1] for output in outputs if output.ndim == 1}
    if kinds != {(torch.float32, tried.dimensions)} or len(widths) > 1:
        shapes = [f"{output.dtype} {tuple(output.shape)}" for output in outputs]
        return f"outputs are {', '.join(shapes)}; float32 of {tried.dimensions} dimensions expected"
    return ""


def _finite(tried: SamplePass, places: Sequence[int], adapter: Any, samples: Samples) -> str:
    outputs = tried.outputs(adapter, samples, places)
    if len(outputs) != len(places):
        return f"a batch of {len(places)} gave {len(outputs)} outputs"
    bad = sum(int((~output.isfinite()).sum()) for output in outputs)
    if not bad and all(output.ndim == 1 and output.numel() for output in outputs):
        problems = [flaw for output in outputs if (flaw := first_outside(output[None].float()))]
        return problems[0][1] if problems else ""
    return f"{bad} of {sum(o.numel() for o in outputs)} values are NaN or infinite" if bad else ""


def _same(
    tried: SamplePass, places: Sequence[int], adapter: Any, samples: Samples, *, exact: bool
) -> str:
    """Compare the first three examples with the same examples in another batch."""
    first = tried.outputs(adapter, samples, [0, 1, 2])
    second = tried.outputs(adapter, samples, places)
    pairs = zip(range(3), places, first, second, strict=True)
    same = [(x, y) for i, j, x, y in pairs if i == j]
    return difference(same, 0.0 if exact else tolerance(samples.dtype))


def _one_by_one(tried: SamplePass, adapter: Any, samples: Samples) -> str:
    together = tried.outputs(adapter, samples, [0, 1, 2])
    alone = [output for i in range(3) for output in tried.outputs(adapter, samples, [i])]
    return difference(list(zip(together, alone, strict=True)), tolerance(samples.dtype))


class SamplePass(NamedTuple):
    """A forward pass: outputs for some samples, their dimensions, and the unusual samples."""

    outputs: Outputs
    dimensions: int
    odd: Mapping[int, str]


class Promises(NamedTuple):
    """The promises of a capability: its forward pass, if any, and checks by name."""

    tried: SamplePass | None
    checks: Mapping[str, Check]


def _some(samples: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [samples[i] for i in places]


def _pairs(samples: Samples, places: Sequence[int]) -> tuple[list[Any], list[Any]]:
    return _some(samples.pictures, places), _some(samples.texts, places)


def _pixels(method: str) -> dict[str, Check]:
    """Return the checks of a method that takes pixels."""
    return {
        "gradients reach pixels": checks.gradients(method),
        "does not change its pixels": checks.unchanged_pixels(method),
    }


def _every_output(adapter: Any, samples: Samples) -> list[Tensor]:
    """Return the outputs of every method that works here, for one sample."""
    outputs: list[Tensor] = []
    for capability in offered(type(adapter)):
        tried = PROMISES[capability].tried if capability in PROMISES else None
        with suppress(CannotDo):
            outputs += _require_tensors(tried.outputs)(adapter, samples, [0]) if tried else []
    return outputs


def _all_parts(adapter: Any) -> Cut:
    heads, kinds = adapter.parts()
    pairs = ((layer, head) for layer, count in enumerate(heads) for head in range(count))
    blind = (Look(kind, "image", (0, len(heads))) for kind in kinds if kind != "image")
    return Cut((*pairs,), (*blind,))


def _whole_without_nothing(adapter: Any, samples: Samples) -> str:
    """Describe how outputs differ if nothing is removed."""
    pair = _every_output(adapter, samples), _every_output(adapter.cut(Cut()), samples)
    return difference(list(zip(*pair, strict=True)), 0.0)


def _differs_without_parts(adapter: Any, samples: Samples) -> str:
    """Report if outputs do not change without any parts; controls need no parts."""
    if getattr(adapter, "is_control", False):
        return ""
    pair = _every_output(adapter, samples), _every_output(adapter.cut(_all_parts(adapter)), samples)
    is_same = all(torch.equal(first, other) for first, other in zip(*pair, strict=True))
    return "without any part, all outputs are the same" if is_same else ""


def _whole_afterwards(adapter: Any, samples: Samples) -> str:
    """Describe how outputs differ after a cut model was used, and after an error in it."""
    before, cut = _every_output(adapter, samples), adapter.cut(_all_parts(adapter))
    calls: list[torch.nn.Module] = []
    with _each_module(calls.append):
        _every_output(cut, samples)
    apart = difference(list(zip(before, _every_output(adapter, samples), strict=True)), 0.0)
    if apart:
        return f"after a cut model was used, {apart}"

    def interrupt(_: torch.nn.Module) -> None:
        calls.pop()
        if not calls:
            raise InterruptedError

    with suppress(InterruptedError), _each_module(interrupt):
        _every_output(cut, samples)
    apart = difference(list(zip(before, _every_output(adapter, samples), strict=True)), 0.0)
    return f"after an error in a cut model, {apart}" if apart else ""


@contextmanager
def _each_module(tell: Callable[[torch.nn.Module], None]) -> Iterator[None]:
    """Call a function before each call of a torch module."""
    register = torch.nn.modules.module.register_module_forward_pre_hook
    with register(lambda module, _: tell(module)):
        yield


PROMISES: dict[type, Promises] = {
    ImageEncoder: Promises(
        SamplePass(lambda a, s, i: a.encode_images(checks.batch_of(a, s, i)), 1, ODD_IMAGES),
        {**_IMAGES, **_pixels("encode_images")},
    ),
    GridEncoder: Promises(
        SamplePass(lambda a, s, i: a.encode_grid(checks.batch_of(a, s, i)), 3, ODD_IMAGES),
        {"does not change its pixels": checks.unchanged_pixels("encode_grid")},
    ),
    LayerEncoder: Promises(
        SamplePass(checks.all_layers, 1, ODD_IMAGES),
        {"layers differ in their names, and the last is the output": checks.layers},
    ),
    TextEncoder: Promises(
        SamplePass(lambda a, s, i: a.encode_texts(_some(s.texts, i)), 1, ODD_TEXTS), _TEXTS
    ),
    TextLayerEncoder: Promises(
        SamplePass(lambda a, s, i: checks.all_text_layers(a, _some(s.texts, i)), 1, ODD_TEXTS),
        {"layers differ in their names, and the last is the output": checks.text_layers},
    ),
    TokenLayerEncoder: Promises(
        None, {"layers differ in their names, and the last is the output": checks.token_layers}
    ),
    SharedSpace: Promises(None, {"a number for each pair, in any batch": checks.similarity}),
    Classifier: Promises(
        SamplePass(lambda a, s, i: a.logits(checks.batch_of(a, s, i)), 1, ODD_IMAGES),
        {
            **_IMAGES,
            **_pixels("logits"),
            "a logit for each class name": checks.classes,
        },
    ),
    TokenEncoder: Promises(
        SamplePass(
            lambda a, s, i: tensors("encode_tokens", a.encode_tokens(_some(s.texts, i))),
            2,
            ODD_TEXTS,
        ),
        {"spans ascend inside the text": checks.token_spans, **_TEXTS},
    ),
    RegionEncoder: Promises(
        SamplePass(
            lambda a, s, i: a.encode_regions(_some(s.pictures, i), _some(s.boxes, i)), 2, ODD_IMAGES
        ),
        {"a vector for each box": checks.vector_a_box},
    ),
    Detector: Promises(
        SamplePass(
            lambda a, s, i: tensors("detect", a.detect(_some(s.pictures, i))),
            2,
            ODD_IMAGES,
        ),
        {"regions agree and are inside the image": checks.detections},
    ),
    ImageTextScorer: Promises(
        SamplePass(lambda a, s, i: a.score_pairs(*_pairs(s, i)), 0, ODD_PAIRS),
        {**_TEXTS, "scores of the kind in score_kind": checks.pair_scores},
    ),
    AnswerScorer: Promises(
        SamplePass(
            lambda a, s, i: a.score_answers(*_pairs(s, i), _some(ANSWERS, i)),
            0,
            ODD_QUESTIONS,
        ),
        {"log-likelihoods, also without a picture if declared": checks.answer_scores},
    ),
    Answerer: Promises(None, {"the same texts in any batch": checks.answers}),
    Recording: Promises(None, {"a list of replies for each item": checks.replies}),
    JointAttender: Promises(
        SamplePass(lambda a, s, i: tensors("attend", a.attend(*_pairs(s, i))), 4, ODD_PAIRS),
        {
            "spans ascend inside the text": checks.attended_spans,
            "a row is a share of attention": checks.attention,
            **_TEXTS,
        },
    ),
    Intervenable: Promises(
        None,
        {
            "the same outputs if no part is removed": _whole_without_nothing,
            "unchanged after a cut model was used": _whole_afterwards,
            "other outputs without its parts": _differs_without_parts,
        },
    ),
    MaskedLanguageModel: Promises(None, {"logits for every word": checks.masked_words}),
}
