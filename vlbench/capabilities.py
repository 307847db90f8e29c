"""Capabilities: the Protocols that probes require, and the tuples that their methods exchange.

A model has a capability if its adapter class defines all its methods. `pixels` are float32 [N, 3,
H, W] in [0, 1]; normalisation belongs to the adapter. Spans are character offsets.
"""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from PIL.Image import Image
from torch import Tensor


class Regions(NamedTuple):
    """Regions of one image: boxes [R, 4] as xyxy pixels, vectors [R, D], scores [R], (W, H)."""

    boxes: Tensor
    vectors: Tensor | None
    scores: Tensor | None
    labels: list[str] | None
    size: tuple[int, int]


class Picture(NamedTuple):
    """The image and the regions that a data set has of one image; either may be None."""

    image: Image | None
    regions: Regions | None


@dataclass(frozen=True)
class NoAnswer:
    """What a model gives if it has no answer: the kind of reason, and its own words about it.

    `may_pass` states whether the same question may be answered later, such as after a time limit.
    """

    why: str
    words: str = ""
    may_pass: bool = False


class Reply(NamedTuple):
    """A reply to options that were shown in an `order`, given by their numbers from 0.

    `said` is a text, a score for each option by its number (higher is likelier), or no answer.
    `target` is the right answer according to a recording, and `reading` the number of the option
    that its authors read in the reply, -1 for none, if it states them.
    """

    order: tuple[int, ...]
    said: str | Sequence[float] | NoAnswer
    target: str = ""
    reading: int | None = None


class Asked(NamedTuple):
    """An item that a recording may have answers to: its image by name, and the texts of the data.

    The texts are the options in the data's order; the question and the category are empty if the
    data have none. `place` is the item's index in the whole data, from 0; -1: in these items.
    """

    image: str
    texts: tuple[str, ...]
    question: str = ""
    category: str = ""
    place: int = -1


class TokenVectors(NamedTuple):
    """Vectors float32 [T, D] of T spans of a text, in ascending order."""

    spans: list[tuple[int, int]]
    vectors: Tensor


class JointAttention(NamedTuple):
    """Attention float32 [layers, heads, T, R] of T text spans to R boxes ([R, 4], xyxy pixels).

    The boxes of a picture are the same, in the same order, for each text.
    `whole` is True if the softmax runs over the whole input, so that a row's sum is its attention
    to the image, and False if it runs only over the image.
    """

    spans: list[tuple[int, int]]
    weights: Tensor
    boxes: Tensor
    whole: bool


class Parts(NamedTuple):
    """The number of attention heads of each layer, in order, and the kinds of positions.

    The kinds are "image", "text", and, for a model that generates, "end": the last position of the
    prompt and the positions of an answer after it. Every other position outside the image is
    "text".
    """

    heads: tuple[int, ...]
    positions: tuple[str, ...]


class Look(NamedTuple):
    """Attention from positions of kind `source` to positions of kind `target`, in some layers.

    `layers` are the first layer, from 0, and the layer after the last.
    """

    source: str
    target: str
    layers: tuple[int, int]


@dataclass(frozen=True)
class Donors:
    """Other pictures, on which a model computes the outputs of removed heads.

    A head's output is the mean over the first `averaged` pictures that are as large as the item's
    picture. `digest` identifies them.
    """

    digest: str
    averaged: int
    pictures: Sequence[Picture] = field(compare=False, repr=False)


def size_of(picture: Picture) -> str:
    """Return the number of a picture's regions or, if it has none, its width and height."""
    if picture.regions is not None:
        return f"{len(picture.regions.boxes)} regions"
    return "no image" if picture.image is None else "{} x {} pixels".format(*picture.image.size)


class Cut(NamedTuple):
    """The parts to remove from a model.

    `heads` are pairs (layer, head), from 0: the output of these heads is 0 or, with `donors`, their
    output in the whole model for the same text and other pictures. The attention weights of `looks`
    are 0, and the other weights of a position still sum to 1. A position always attends to itself.
    If a model reads the picture by cross-attention, a look removes the whole output of the block
    (it is 0); the attention is still returned.
    """

    heads: tuple[tuple[int, int], ...] = ()
    looks: tuple[Look, ...] = ()
    donors: Donors | None = None


@runtime_checkable
class ImageEncoder(Protocol):
    """Turns images into vectors."""

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1]: resized and cropped, nothing else."""
        ...

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D] for [N, 3, H, W] in [0, 1]; normalises inside; differentiable."""
        ...


@runtime_checkable
class GridEncoder(ImageEncoder, Protocol):
    """Turns images into grids of vectors, one vector per cell."""

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, rows, columns] for [N, 3, H, W] in [0, 1]."""
        ...


# The last layer of a model: the output of `encode_images`.
OUTPUT = "output"


@runtime_checkable
class LayerEncoder(ImageEncoder, Protocol):
    """Turns images into vectors at each of its layers."""

    def layers(self) -> Sequence[str]:
        """Return the names of layers in order of depth; the last is `output`.

        A name shows how a layer is pooled, such as `block3_cls` or `stage2_mean`.
        """
        ...

    def encode_images_at(self, pixels: Tensor, layers: Sequence[str]) -> Mapping[str, Tensor]:
        """Return float32 [N, D] of each of these layers for [N, 3, H, W] in [0, 1], in one pass.

        For `output`, it is the result of `encode_images`.
        """
        ...


@runtime_checkable
class TextEncoder(Protocol):
    """Turns texts into vectors."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D]."""
        ...


@runtime_checkable
class TextLayerEncoder(TextEncoder, Protocol):
    """Turns texts into vectors at each of its layers."""

    def text_layers(self) -> Sequence[str]:
        """Return the names of layers in order of depth, such as `layer3_mean`; last `output`."""
        ...

    def encode_texts_at(self, texts: Sequence[str], layers: Sequence[str]) -> Mapping[str, Tensor]:
        """Return float32 [N, D] of each of these layers, in one pass.

        For `output`, it is the result of `encode_texts`.
        """
        ...


@runtime_checkable
class SharedSpace(Protocol):
    """Compares image vectors with text vectors."""

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return [N, M] for [N, D] and [M, D]."""
        ...


@runtime_checkable
class DualEncoder(ImageEncoder, TextEncoder, SharedSpace, Protocol):
    """Turns images and texts into vectors that it can compare."""


@runtime_checkable
class Classifier(Protocol):
    """Classifies images into its classes.

    Outputs are paired with the classes of the data by their names. An adapter may have a
    `class_order` ("imagenet", "cifar10" or "cifar100") if its outputs are in the order of that data
    set.
    """

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1]: resized and cropped, nothing else."""
        ...

    def class_names(self) -> Sequence[str]:
        """Return the name of each of C classes."""
        ...

    def logits(self, pixels: Tensor) -> Tensor:
        """Return [N, C] for [N, 3, H, W] in [0, 1]; differentiable."""
        ...


@runtime_checkable
class TokenEncoder(Protocol):
    """Turns the words of a text into vectors, in context or static."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of each text's tokens; a word without a vector has no span."""
        ...


@runtime_checkable
class TokenLayerEncoder(TokenEncoder, Protocol):
    """Turns the words of a text into vectors at each of its layers."""

    def text_layers(self) -> Sequence[str]:
        """Return the names of layers in order of depth; the last is `output`."""
        ...

    def encode_tokens_at(
        self, texts: Sequence[str], layers: Sequence[str]
    ) -> Mapping[str, list[TokenVectors]]:
        """Return the result of `encode_tokens` at each of these layers, in one pass."""
        ...


@runtime_checkable
class RegionEncoder(Protocol):
    """Turns boxes of pictures into vectors."""

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D] for the [R_i, 4] boxes of each picture."""
        ...


@runtime_checkable
class Detector(Protocol):
    """Finds regions."""

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return the regions of each picture."""
        ...


@runtime_checkable
class ImageTextScorer(Protocol):
    """Scores how well a text fits a picture."""

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return how well each text fits its picture, float32 [N]; higher fits better.

        An adapter names the kind of its scores in `score_kind`, such as "probability", which must
        be in [0, 1] up to 0.001. Scores of two towers are cosines unless it names another kind.
        Scores of no stated kind are only compared. Probabilities of a confident model round to 0
        and 1, and are then tied; "logit", the log-odds of the published probability, avoids these
        ties.
        """
        ...


# Kinds of matching scores: the log-odds of a probability; a logit trained to rank, which belongs to
# no probability; a log-likelihood.
LOGIT, RANKING_LOGIT, LOG_LIKELIHOOD = "logit", "ranking_logit", "log_likelihood"
PROBABILITY, COSINE = "probability", "cosine"
# Scores whose adapter states no kind, and has no two towers.
UNSTATED = "unstated"

# The least and the largest score of a kind, and the rounding error that is accepted beyond them:
# of a single number, and of a sum of probabilities, which may be of half precision.
BOUNDS = {PROBABILITY: (0.0, 1.0), LOG_LIKELIHOOD: (-math.inf, 0.0)}
ROUNDING, ROUNDING_OF_SUM = 1e-3, 1e-2


def first_misfit(kind: str, scores: Tensor) -> tuple[int, str] | None:
    """Return the place of the first of [N] scores that cannot be of a kind, and why.

    Example:
        >>> import torch
        >>> first_misfit(PROBABILITY, torch.tensor([0.5, 1.5]))
        (1, 'a probability must be in [0, 1], up to 0.001')
    """
    low, high = BOUNDS.get(kind, (-math.inf, math.inf))
    fits = scores.isfinite() & (scores >= low - ROUNDING) & (scores <= high + ROUNDING)
    if fits.all():
        return None
    place = int((~fits).nonzero()[0])
    if not scores[place].isfinite():
        return place, "a score must be a finite number"
    limits = f"in [{low:g}, {high:g}]" if math.isfinite(low) else f"at most {high:g}"
    return place, f"a {kind.replace('_', '-')} must be {limits}, up to {ROUNDING}"


def score_kind(model: Any) -> str:
    """Return the adapter's `score_kind`; by default cosine for two towers, otherwise unstated.

    Scores of different kinds must not be averaged, nor scores of different models unless they are
    probabilities.
    """
    kind = getattr(model, "score_kind", "")
    return str(kind) if kind else COSINE if isinstance(model, SharedSpace) else UNSTATED


def is_log_odds(kind: str) -> bool:
    """Return whether scores of this kind are on a logarithmic scale, which has no bounds."""
    return kind in {LOGIT, RANKING_LOGIT, LOG_LIKELIHOOD}


@runtime_checkable
class AnswerScorer(Protocol):
    """Scores how likely an answer is, given a picture and a question."""

    def score_answers(
        self, pictures: Sequence[Picture], questions: Sequence[str], answers: Sequence[str]
    ) -> Tensor:
        """Return the log-likelihood of each answer, float32 [N], at most 0 (up to 0.001).

        It is the sum over the tokens of the answer. An adapter that works without a picture has
        `reads_text_alone = True`, and treats Picture(None, None) as no picture. A question is never
        cut: raises DataError if it does not fit.
        """
        ...


@runtime_checkable
class Answerer(Protocol):
    """Answers a question about a picture in words."""

    def answer(
        self, pictures: Sequence[Picture], questions: Sequence[str]
    ) -> Sequence[str | NoAnswer]:
        """Return the answer to each question, by greedy decoding, or why there is no answer.

        A question is never cut: there is no answer if it does not fit. `reads_text_alone` has the
        same meaning as in `AnswerScorer`.
        """
        ...


@runtime_checkable
class Recording(Protocol):
    """Answers recorded by others. It needs no images."""

    def replies(self, items: Sequence[Asked]) -> list[list[Reply]]:
        """Return the replies to each item, an empty list if nothing is recorded.

        The items are those of a data set, or some of them, in its order. `labels` is how a reply
        names an option: letters, numbers, brackets for "(1)", or words. After the call, `counts`
        has the numbers of unused parts of the recording by reason, and `notes` give an example.
        """
        ...


@runtime_checkable
class JointAttender(Protocol):
    """Returns where each text token attends in the picture, for each head."""

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each pair."""
        ...


@runtime_checkable
class Intervenable(Protocol):
    """Runs without some of its attention heads, or without attention between some positions."""

    def parts(self) -> Parts:
        """Return the parts that can be removed."""
        ...

    def cut(self, what: Cut) -> Self:
        """Return the same model without some parts; for a cut model, without these parts, too.

        It shares the weights, and this model is unchanged. All its methods run without these parts.
        The returned attention is still that of all heads: only the output of a head is removed.
        Raises SpecError for a part that the model does not have.
        """
        ...


@runtime_checkable
class MaskedLanguageModel(Protocol):
    """Fills masked words."""

    def masked_lm(self) -> tuple[Any, Any]:
        """Return the tokenizer and the torch module, as Hugging Face objects."""
        ...


def capabilities_in(module: types.ModuleType) -> list[type]:
    """Return the capabilities that a module defines: its Protocols that define methods."""
    protocols = [v for v in vars(module).values() if isinstance(v, type) and _is_protocol(v)]
    return [one for one in protocols if one.__module__ == module.__name__ and methods(one)]


def offered(adapter: type, without: Sequence[str] = (), others: Sequence[type] = ()) -> list[type]:
    """Return the capabilities that an adapter class has, except those named in `without`.

    The known capabilities are those of this module and `others`, such as those of a user's source.
    """
    capabilities = [*capabilities_in(sys.modules[__name__]), *others]
    return [capability for capability in capabilities if has(adapter, capability, without)]


def narrowed(adapter: type, without: Sequence[str]) -> type:
    """Return an adapter class without the methods that only some of its capabilities have."""
    can = offered(adapter)
    kept = {method for one in can if one.__name__ not in without for method in methods(one)}
    lost = {method for one in can if one.__name__ in without for method in methods(one)} - kept
    # A method set to None counts as missing, for Protocols as well.
    fields = {name: getattr(adapter, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(adapter.__name__, (adapter,), fields | dict.fromkeys(lost)) if lost else adapter


def count_truncated(model: Any, texts: Sequence[str]) -> dict[str, int]:
    """Return the number of texts that the model truncates, as `truncated_texts`; empty if unknown.

    It is known if the adapter has `context_length` and `count_tokens`.
    """
    if not (hasattr(model, "count_tokens") and hasattr(model, "context_length")):
        return {}
    return {"truncated_texts": sum(n > model.context_length for n in model.count_tokens(texts))}


def has(adapter: type, part: type, without: Sequence[str] = ()) -> bool:
    """Return whether an adapter class has all methods of a capability that is not in `without`."""
    defined = all(callable(getattr(adapter, method, None)) for method in methods(part))
    return defined and part.__name__ not in without


def element(annotation: Any) -> Any:
    """Return C of `list[C]`."""
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is list else annotation


def parts(annotation: Any) -> list[type]:
    """Return the Protocols that make up a capability and define methods themselves."""
    lineage = annotation.__mro__ if isinstance(annotation, type) else ()
    return [c for c in lineage if _is_protocol(c) and methods(c)]


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def methods(part: type) -> list[str]:
    """Return the names of the methods that a Protocol defines itself."""
    return [name for name, value in vars(part).items() if name[0] != "_" and callable(value)]
