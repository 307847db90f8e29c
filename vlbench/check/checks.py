"""Checks of single promises: each returns why an adapter breaks it, or an empty string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.capabilities import (
    LOG_LIKELIHOOD,
    OUTPUT,
    Asked,
    NoAnswer,
    Picture,
    first_misfit,
    score_kind,
)
from vlbench.check.samples import ANSWERS, SENTENCES, Samples
from vlbench.engine.pass_checks import (
    CHANGES_PIXELS,
    difference,
    require_tensor,
    tolerance,
    wrong_pixels,
)
from vlbench.errors import CannotDo, SpecError, defined_at
from vlbench.metrics.replies import LABELS

# Returns why a promise is broken; empty if it is kept.
Check = Callable[[Any, Samples], str]


def preprocessed(adapter: Any, image: Image) -> Tensor:
    """Return the result of `preprocess`. Raises SpecError if it is not a tensor."""
    pixels = adapter.preprocess(image)
    if not isinstance(pixels, Tensor):
        where, kind = defined_at(adapter.preprocess), type(pixels).__name__
        raise SpecError(f"{where}: preprocess returns {kind}, not a float32 Tensor [3, H, W]")
    return pixels


def batch_of(adapter: Any, samples: Samples, places: Sequence[int] = (0, 1, 2)) -> Tensor:
    """Return the preprocessed images of the given samples, on the adapter's device."""
    pixels = [preprocessed(adapter, samples.images[i]) for i in places]
    return torch.stack(pixels).to(samples.device)


def pixels_in_range(adapter: Any, samples: Samples) -> str:
    """Name an image for which `preprocess` does not return float32 [3, H, W] in [0, 1]."""
    for image in samples.images:
        wrong = wrong_pixels(preprocessed(adapter, image))
        if wrong:
            return f"an image of {image.size} becomes {wrong}"
    return ""


def one_size(adapter: Any, samples: Samples) -> str:
    """Name the sizes that `preprocess` returns, if there are several."""
    sizes = {tuple(preprocessed(adapter, image).shape[1:]) for image in samples.images}
    if len(sizes) == 1 or getattr(adapter, "ragged", False):
        return ""
    return f"sizes are {sorted(sizes)}; if the adapter keeps an image's size, set ragged = True"


def all_layers(adapter: Any, samples: Samples, places: Sequence[int]) -> list[Tensor]:
    """Return an adapter's outputs at all its layers, concatenated."""
    pixels, names = batch_of(adapter, samples, places), adapter.layers()
    by_layer = adapter.encode_images_at(pixels, names)
    return list(torch.cat([by_layer[name] for name in names], 1))


def all_text_layers(adapter: Any, texts: Sequence[str]) -> list[Tensor]:
    """Return an adapter's outputs for texts at all its layers, concatenated."""
    names = adapter.text_layers()
    by_layer = adapter.encode_texts_at(texts, names)
    return list(torch.cat([by_layer[name] for name in names], 1))


def layers(adapter: Any, samples: Samples) -> str:
    """Describe wrong names of layers, or how the last layer differs from the output."""

    def last() -> tuple[Mapping[str, Tensor], Tensor]:
        pixels = batch_of(adapter, samples)
        return adapter.encode_images_at(pixels.clone(), [OUTPUT]), adapter.encode_images(pixels)

    return _wrong_layers(adapter.layers(), last, samples)


def text_layers(adapter: Any, samples: Samples) -> str:
    """Describe the same for the layers of texts."""

    def last() -> tuple[Mapping[str, Tensor], Tensor]:
        texts = samples.texts
        return adapter.encode_texts_at(texts, [OUTPUT]), adapter.encode_texts(texts)

    return _wrong_layers(adapter.text_layers(), last, samples)


def token_layers(adapter: Any, samples: Samples) -> str:
    """Describe the same for the layers of words."""

    def last() -> tuple[Mapping[str, Tensor], Tensor]:
        by_layer = adapter.encode_tokens_at(samples.texts, [OUTPUT])
        joined = {name: torch.cat([one.vectors for one in each]) for name, each in by_layer.items()}
        return joined, torch.cat([token.vectors for token in adapter.encode_tokens(samples.texts)])

    return _wrong_layers(adapter.text_layers(), last, samples)


def _wrong_layers(
    listed: Sequence[str],
    last: Callable[[], tuple[Mapping[str, Tensor], Tensor]],
    samples: Samples,
) -> str:
    """Describe wrong names of layers, or how the result at `output` differs from the output."""
    names = list(listed)
    if len(set(names)) != len(names) or not names or names[-1] != OUTPUT:
        return f"layers are {names}; names must differ, with `{OUTPUT}` last"
    at_output, output = last()
    if set(at_output) != {OUTPUT}:
        return f"asked for `{OUTPUT}`, it gives {sorted(at_output)}"
    rows = list(zip(at_output[OUTPUT], output, strict=True))
    apart = difference(rows, tolerance(samples.dtype))
    return f"`{OUTPUT}` differs from the output without layers: {apart}" if apart else ""


def gradients(method: str) -> Check:
    """Return a check that gradients of a method's output reach the pixels."""

    def check(adapter: Any, samples: Samples) -> str:
        if not getattr(adapter, "differentiable", True):
            return ""
        leaf = batch_of(adapter, samples).requires_grad_()
        with torch.enable_grad():
            outputs: Any = require_tensor(method, getattr(adapter, method)(leaf))
        if not outputs.requires_grad:
            return (
                "outputs have no gradient to the pixels; if that is so, set differentiable = False"
            )
        # Unequal weights, because the plain sum of softmaxed outputs has no gradient.
        outputs.backward(torch.linspace(1, 2, outputs.shape[1]).to(outputs).expand_as(outputs))
        gradient = leaf.grad
        if gradient is None or not gradient.isfinite().all():
            return "gradients are missing, NaN or infinite"
        dead = [i for i, of_one in enumerate(gradient) if not of_one.any()]
        return f"gradients are zero everywhere for images {dead} of the batch" if dead else ""

    return check


def unchanged_pixels(method: str) -> Check:
    """Return a check that a method does not change its pixels."""

    def check(adapter: Any, samples: Samples) -> str:
        pixels = batch_of(adapter, samples)
        before = pixels.clone()
        getattr(adapter, method)(pixels)
        return "" if torch.equal(pixels, before) else f"{method} {CHANGES_PIXELS}"

    return check


def cut_texts_are_counted(adapter: Any, samples: Samples) -> str:
    """Describe how `count_tokens` disagrees with `context_length`."""
    limit = getattr(adapter, "context_length", None)
    if limit is None:
        return ""
    counts = list(adapter.count_tokens(samples.texts))
    if len(counts) != len(samples.texts):
        return f"{len(samples.texts)} texts have {len(counts)} counts"
    if counts[5] < SENTENCES or counts[3] > limit:
        return (
            f"{SENTENCES} sentences have {counts[5]} tokens, one sentence has {counts[3]}; the "
            f"limit is {limit}"
        )
    return ""


def similarity(adapter: Any, samples: Samples) -> str:
    """Describe a `similarity` that is not [N, M], changes its vectors or depends on the batch."""
    images = adapter.encode_images(batch_of(adapter, samples))
    texts = adapter.encode_texts(samples.texts[:2])
    copies = images.clone(), texts.clone()
    table = adapter.similarity(*copies)
    if table.shape != (3, 2) or not table.isfinite().all():
        return f"3 images and 2 texts give {tuple(table.shape)}, {table.isfinite().sum()} finite"
    if not (torch.equal(copies[0], images) and torch.equal(copies[1], texts)):
        return "it changes the vectors that it is given; copy them first"
    single = adapter.similarity(images[2:], texts[1:])
    apart = (single - table[2:, 1:]).abs().max().item()
    is_other = apart > tolerance(samples.dtype) * table.abs().max()
    return f"a pair scored by itself differs by {apart:.3g}" if is_other else ""


def classes(adapter: Any, samples: Samples) -> str:
    """Describe different numbers of class names and logits; names may be unknown."""
    logits = adapter.logits(batch_of(adapter, samples, [0]))
    try:
        names = list(adapter.class_names())
    except CannotDo:
        return ""
    if len(names) != logits.shape[1]:
        return f"{len(names)} class names, {logits.shape[1]} logits"
    return ""


def token_spans(adapter: Any, samples: Samples) -> str:
    """Describe wrong spans of encoded tokens."""
    texts = zip(samples.texts, adapter.encode_tokens(samples.texts), strict=True)
    return _first(_spans(text, tokens.spans, len(tokens.vectors)) for text, tokens in texts)


def attended_spans(adapter: Any, samples: Samples) -> str:
    """Describe wrong spans of attention."""
    attentions = adapter.attend(samples.pictures, samples.texts)
    texts = zip(samples.texts, attentions, strict=True)
    return _first(_spans(text, joint.spans, joint.weights.shape[2]) for text, joint in texts)


def _spans(text: str, spans: Sequence[tuple[int, int]], count: int) -> str:
    """Describe wrong spans of a text. Two tokens of the same character share its span."""
    if len(spans) != count:
        return f"{text[:20]!r} has {len(spans)} spans and {count} vectors or rows"
    outside = [span for span in spans if not 0 <= span[0] < span[1] <= len(text)]
    if outside:
        return f"{text[:20]!r} has no characters {outside[0]}"
    if list(spans) != sorted(spans):
        return f"the spans of {text[:20]!r} do not ascend"
    return ""


def attention(adapter: Any, samples: Samples) -> str:
    """Describe attention whose columns have no box, or whose rows are not fractions of 1."""
    for joint in adapter.attend(samples.pictures[:3], samples.texts[:3]):
        if joint.weights.shape[3] != len(joint.boxes):
            return f"{joint.weights.shape[3]} columns, {len(joint.boxes)} boxes"
        sums = joint.weights.sum(3)
        low, high = sums.min().item(), sums.max().item()
        if joint.weights.min() < 0 or high > 1.001 or (low < 0.999 and not joint.whole):
            return f"rows sum to {low:.3g}..{high:.3g}; whole is {joint.whole}"
    return ""


def vector_a_box(adapter: Any, samples: Samples) -> str:
    """Describe different numbers of boxes and vectors."""
    boxes = [samples.boxes[0], samples.boxes[1][:1]]
    counts = [len(vectors) for vectors in adapter.encode_regions(samples.pictures[:2], boxes)]
    return "" if counts == [3, 1] else f"pictures with 3 and 1 boxes give {counts} vectors"


def detections(adapter: Any, samples: Samples) -> str:
    """Describe detected regions whose parts differ in number, or whose boxes leave the image."""
    pairs = zip(adapter.detect(samples.pictures), samples.images, strict=True)
    return _first(_regions(regions, image.size) for regions, image in pairs)


def _regions(regions: Any, size: tuple[int, int]) -> str:
    count = len(regions.boxes)
    parts = [regions.vectors, regions.scores, regions.labels]
    if any(part is not None and len(part) != count for part in parts):
        return f"{count} boxes, but {[None if p is None else len(p) for p in parts]} of the rest"
    if tuple(regions.size) != size:
        return f"the size of an image of {size} is given as {regions.size}"
    return "" if _lie_inside(regions.boxes.cpu(), size) else f"boxes leave an image of {size}"


def _lie_inside(boxes: Tensor, size: tuple[int, int]) -> bool:
    low, high = boxes.reshape(-1, 2, 2).unbind(1)
    return bool(((low >= 0) & (low <= high) & (high <= torch.tensor(size) + 1e-3)).all())


def masked_words(adapter: Any, samples: Samples) -> str:
    """Describe a masked language model that does not give a finite logit per token and word."""
    tokenizer, module = adapter.masked_lm()
    if tokenizer.mask_token is None:
        return "the tokenizer has no mask token"
    tokens = tokenizer(f"a {tokenizer.mask_token} sat", return_tensors="pt").to(samples.device)
    logits = module(**tokens).logits
    shape = (*tokens["input_ids"].shape, len(tokenizer))
    if logits.shape[:2] != shape[:2] or logits.shape[2] < shape[2]:
        return f"logits are {tuple(logits.shape)}, for (texts, tokens, words) {shape}"
    return "" if logits.isfinite().all() else "logits are NaN or infinite"


def pair_scores(adapter: Any, samples: Samples) -> str:
    """Describe a score that cannot be of the adapter's `score_kind`."""
    scores = adapter.score_pairs(samples.pictures[:3], samples.texts[:3])
    misfit = first_misfit(score_kind(adapter), scores)
    return f"a score of {float(scores[misfit[0]]):.3g}; {misfit[1]}" if misfit else ""


def answer_scores(adapter: Any, samples: Samples) -> str:
    """Describe log-likelihoods above 0, or missing scores of answers without a picture."""
    words = samples.texts[:3], [*ANSWERS[:3]]
    scores = adapter.score_answers(samples.pictures[:3], *words)
    if misfit := first_misfit(LOG_LIKELIHOOD, scores):
        return f"a score of {float(scores[misfit[0]]):.3g}; {misfit[1]}"
    if not getattr(adapter, "reads_text_alone", False):
        return ""
    alone = adapter.score_answers([Picture(None, None)] * 3, *words)
    return "" if alone.isfinite().all() else "without a picture, scores are NaN or infinite"


def answers(adapter: Any, samples: Samples) -> str:
    """Describe an answer that is no text, or that differs if its question is asked separately."""
    # Asked for words that differ, a model's answers are likely to show their order.
    questions = [f"Answer with the word {word} only." for word in ("cat", "dog", "tree")]
    texts = adapter.answer(samples.pictures[:3], questions)
    if len(texts) != 3 or not all(isinstance(text, str | NoAnswer) for text in texts):
        return f"3 questions gave {texts!r:.80}; return a list of 3 texts"
    for picture, question, expected in zip(samples.pictures, questions, texts, strict=False):
        (alone,) = adapter.answer([picture], [question])
        if alone != expected:
            return (
                f"'{question}' is answered with {alone!r:.60} by itself, but otherwise with "
                f"{expected!r:.60}"
            )
    return ""


def replies(adapter: Any, samples: Samples) -> str:
    """Describe replies to unknown items that are not a list for each item, or unknown labels."""
    items = [Asked(f"no image {i}", (text, f"no {text}")) for i, text in enumerate(samples.texts)]
    lists = adapter.replies(items)
    if len(lists) != len(items) or not all(isinstance(answer, list) for answer in lists):
        return f"{len(items)} items gave {lists!r:.80}; return a list of replies for each item"
    if adapter.labels not in LABELS:
        return f"its labels are {adapter.labels!r:.40}; use one of {', '.join(LABELS)}"
    return ""


def _first(complaints: Any) -> str:
    return next(filter(None, complaints), "")
