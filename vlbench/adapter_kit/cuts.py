"""Forward passes with some attention heads, or the attention between some positions, removed.

An adapter has a class attribute `_cut = Cut()` and runs its passes inside `without`, as in
`vlbench.adapter_kit.one_stream_ports`. If its `score_pairs` is a single pass, the decorator
`with_donors` lets removed heads have their outputs for other pictures in place of 0 (resample
ablation). Within one sequence, attention masks hide positions; cross-attention from one stream to
another is removed as a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import cycle, product
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from vlbench.adapter_kit.hugging_face import cache_argument
from vlbench.capabilities import Cut, Donors, Intervenable, Look, Parts, Picture, size_of
from vlbench.errors import CannotDo, SpecError, counted

Model = TypeVar("Model", bound=Intervenable)
Scoring: TypeAlias = Callable[[Model, Sequence[Picture], Sequence[str]], Tensor]


class Attention(NamedTuple):
    """A layer's attention: module, projection of the heads' outputs, and number of heads.

    The module takes hidden states and an attention mask as its first arguments, or by name.
    """

    module: nn.Module
    projection: nn.Module
    heads: int


class CrossAttention(NamedTuple):
    """The cross-attention of a layer: the output projection of each direction, and its heads.

    A direction is (source, target). A projection that two directions share is called once for each
    of them, in the order of `projections`. `heads` is the number of heads from text to image.
    """

    projections: Mapping[tuple[str, str], nn.Module]
    heads: int

    @property
    def projection(self) -> nn.Module:
        """The projection of the heads' outputs."""
        return self.projections["text", "image"]


class Positions(NamedTuple):
    """The kinds of the positions of N prompts.

    `image` contains the indices of the image's positions. A prompt's end begins at its index in
    `ends`; `ends` is empty if prompts have no end.
    """

    image: Sequence[int]
    ends: Sequence[int] = ()

    def are(self, kind: str, places: Tensor) -> Tensor:
        """Return which positions [L] are of a kind, bool [N, L], or [1, L] if equal for all."""
        image = torch.isin(
            places, torch.tensor(self.image, dtype=torch.long, device=places.device)
        )[None]
        ends = torch.tensor(self.ends or [2**62], device=places.device)
        end = places >= ends[:, None]
        return {"image": image, "end": end, "text": ~image & ~end}[kind]


def one_stream_layers(network: nn.Module) -> list[Attention]:
    """Return the attention of each layer of a BERT or a ViT of transformers."""
    attentions = []
    for layer in network.modules():
        module: Any = getattr(layer, "attention", None)
        inner = getattr(module, "self", None) or getattr(module, "attention", None)
        if inner is not None:
            attentions.append(Attention(module, module.output.dense, inner.num_attention_heads))
    return attentions


def decoder_layers(decoder: Any, name: str) -> list[Attention]:
    """Return the attention of each layer of a language model of transformers.

    Raises CannotDo for a layer without softmax attention or without its projection `o_proj`.
    """
    attentions = []
    for number, layer in enumerate(decoder.layers):
        module = getattr(layer, "self_attn", None)
        projection = getattr(module, "o_proj", None)
        size = getattr(module, "head_dim", None)
        if module is None or projection is None or not size:
            what = "has no softmax attention with a projection o_proj"
            raise CannotDo(f"layer {number} of {name} {what}, so no part can be removed")
        attentions.append(Attention(module, projection, projection.in_features // size))
    return attentions


def parts_of(layers: Sequence[Attention | CrossAttention], *positions: str) -> Parts:
    """Return the parts of a model with these layers and kinds of positions."""
    return Parts(tuple(layer.heads for layer in layers), positions)


def cut_copy(model: Model, what: Cut, looks: Collection[tuple[str, str]] = ()) -> Model:
    """Return a shallow copy of an adapter with more parts in its `_cut`.

    `looks` lists the directions of its cross-attention; it is empty for a model of one sequence,
    which has every direction. Raises SpecError for a part that the model does not have.
    """
    heads, kinds = model.parts()
    for layer, head in what.heads:
        if not (0 <= layer < len(heads) and 0 <= head < heads[layer]):
            raise SpecError(
                f"there is no head {head} in layer {layer}; the layers 0..{len(heads) - 1} have "
                f"{', '.join(map(str, heads))} heads, counted from 0"
            )
    for source, target, (first, last) in what.looks:
        if (source, target) not in (looks or product(kinds, kinds)):
            missing = f"there is no attention of '{source}' to '{target}'"
            have = " or ".join(f"'{kind}' to '{other}'" for kind, other in looks)
            way = f"remove cross-attention of {have}" if looks else ""
            raise SpecError(f"{missing}; {way or 'positions are ' + ', '.join(kinds)}")
        if not 0 <= first < last <= len(heads):
            missing = f"layers {first} up to, not including, {last}"
            raise SpecError(f"there are no {missing}; there are {len(heads)} layers, from 0")
    before: Cut = model._cut  # type: ignore[attr-defined]  # noqa: SLF001 - of an adapter that calls this
    donors = what.donors or before.donors
    both = Cut((*before.heads, *what.heads), (*before.looks, *what.looks), donors)
    return _with_cut(model, both)


class Tape(NamedTuple):
    """The outputs of the heads of a cut, in the order of calls: recorded, or played in a pass."""

    cut: Cut
    outputs: list[Tensor]
    plays: bool


def with_donors(score_pairs: Scoring[Model]) -> Scoring[Model]:
    """Wrap `score_pairs` of an adapter: removed heads have their outputs for the donors of the cut.

    The whole model first scores the same texts with the donors; looks are masked afterwards only.
    """

    @wraps(score_pairs)
    def score(model: Model, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        cut = model._cut  # type: ignore[attr-defined]  # noqa: SLF001 - of an adapter that has it
        if isinstance(cut, Tape) or not (cut.heads and cut.donors):
            return score_pairs(model, pictures, texts)
        tapes = []
        for others in zip(*(_donors_of(picture, cut.donors) for picture in pictures), strict=True):
            tapes.append(Tape(cut, [], plays=False))
            score_pairs(_with_cut(model, tapes[-1]), others, texts)
        by_call = zip(*(tape.outputs for tape in tapes), strict=True)
        outputs = [torch.stack(same).mean(0) for same in by_call]
        return score_pairs(_with_cut(model, Tape(cut, outputs, plays=True)), pictures, texts)

    score.takes_donors = True  # type: ignore[attr-defined]
    return score


def _donors_of(picture: Picture, donors: Donors) -> list[Picture]:
    """Return the donors for a picture. Raises CannotDo if too few are as large."""
    alike = [donor for donor in donors.pictures if size_of(donor) == size_of(picture)]
    if len(alike) < donors.averaged:
        what = f"{counted(donors.averaged, 'other image')} with {size_of(picture)}"
        raise CannotDo(f"outputs of heads need {what}, and there are {len(alike)}")
    return alike[: donors.averaged]


def _with_cut(model: Model, cut: Cut | Tape) -> Model:
    other: Any = copy.copy(model)
    other._cut = cut  # noqa: SLF001 - of an adapter that has it
    return other  # type: ignore[no-any-return]


@contextmanager
def without(
    cut: Cut | Tape,
    layers: Callable[[], Sequence[Attention | CrossAttention]],
    positions: Positions = Positions(()),  # noqa: B008 - it cannot change
) -> Iterator[None]:
    """Remove some parts of a network during the block; `layers` is called only if parts are cut.

    Cross-attention needs no positions. The network is restored afterwards, also after an error.
    Raises CannotDo for donors outside a method that is wrapped in `with_donors`.
    """
    tape, what = (cut, cut.cut) if isinstance(cut, Tape) else (None, cut)
    if what.heads and what.donors and not tape:
        raise CannotDo("it cannot give heads their outputs for other images, only zero (by: zero)")
    change = partial(_recording, tape.outputs) if tape else _zeroing
    if tape and tape.plays:
        change = partial(_playing, iter(tape.outputs))
    # The outputs are recorded in the whole model.
    masked = what.looks if tape is None or tape.plays else ()
    with ExitStack() as hooks:
        for number, layer in enumerate(layers() if what.heads or masked else []):
            gone = [head for at, head in what.heads if at == number]
            if gone:
                hook = change(gone, layer.heads)
                hooks.enter_context(layer.projection.register_forward_pre_hook(hook))
            looks = [look for look in masked if look.layers[0] <= number < look.layers[1]]
            if not looks:
                continue
            if isinstance(layer, CrossAttention):
                pairs = {look[:2] for look in looks}
                for projection in {*layer.projections.values()}:
                    linked = [pair for pair, one in layer.projections.items() if one is projection]
                    silence = _silencing([pair in pairs for pair in linked])
                    hooks.enter_context(projection.register_forward_hook(silence))
            else:
                hook = _blocking(looks, positions)
                hooks.enter_context(layer.module.register_forward_pre_hook(hook, with_kwargs=True))
        yield


def _zeroing(gone: Sequence[int], heads: int) -> Callable[..., Any]:
    """Return a hook that sets the outputs of some heads to 0 before the projection."""

    def zero(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states = args[0].view(*args[0].shape[:-1], heads, -1)
        places = torch.tensor(gone, device=states.device)
        return (states.index_fill(-2, places, 0).flatten(-2), *args[1:])

    return zero


def _recording(outputs: list[Tensor], gone: Sequence[int], heads: int) -> Callable[..., Any]:
    """Return a hook that adds the outputs of some heads, [..., G, size], in each call."""

    def record(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        outputs.append(args[0].view(*args[0].shape[:-1], heads, -1)[..., gone, :].clone())

    return record


def _playing(outputs: Iterator[Tensor], gone: Sequence[int], heads: int) -> Callable[..., Any]:
    """Return a hook that replaces the outputs of some heads by the next ones."""

    def play(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, others = args[0].view(*args[0].shape[:-1], heads, -1), next(outputs)
        if others.shape != states[..., gone, :].shape:
            raise CannotDo("another image has another number of positions in the network")
        places = torch.tensor(gone, device=states.device)
        return (states.index_copy(-2, places, others).flatten(-2), *args[1:])

    return play


def _silencing(gone: Sequence[bool]) -> Callable[..., Any]:
    """Return a hook that sets the output of a module to 0 in some of the calls of each pass."""
    calls = cycle(gone)

    def silence(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        return torch.zeros_like(output) if next(calls) else output

    return silence


def _blocking(looks: Sequence[Look], positions: Positions) -> Callable[..., Any]:
    """Return a hook that masks some looks in an attention module."""

    def block(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        states = args[0] if args else named["hidden_states"]
        mask = args[1] if len(args) > 1 else named.get("attention_mask")
        cache = named.get(cache_argument())
        before = 0 if cache is None else cache.get_seq_length(module.layer_idx)
        mask = _mask(mask, states, before, causal=getattr(module, "is_causal", False))
        total = before + states.shape[1]
        queries = torch.arange(before, total, device=states.device)
        # Keys outside a layer's attention window have left the cache.
        keys = torch.arange(total - mask.shape[-1], total, device=states.device)
        for source, target, _ in looks:
            hidden = (
                positions.are(source, queries)[..., None] & positions.are(target, keys)[:, None]
            )
            hidden = (hidden & (queries[:, None] != keys))[:, None]
            mask = torch.where(hidden, torch.finfo(mask.dtype).min, mask)
        if len(args) > 1:
            return (states, mask, *args[2:]), named
        return args, {**named, "attention_mask": mask}

    return block


def _mask(mask: Tensor | None, states: Tensor, before: int, *, causal: bool) -> Tensor:
    """Return the addend to attention logits, [N, 1, Q, K], for a mask of transformers."""
    if mask is None:
        count = states.shape[1]
        mask = torch.ones(count, before + count, dtype=torch.bool, device=states.device)
        mask = mask.tril(before)[None, None] if causal else mask[None, None]
    if mask.dtype != torch.bool:
        return mask
    lowest = torch.finfo(states.dtype).min
    return torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, lowest)
