"""Which tokens of a layer are patches, by the inputs of its modules and not by the adapter's rule.

Where special tokens join the patches, before the first attention, they are equal for all images.
Until the number of tokens changes they keep their places.
"""

import re
from contextlib import ExitStack
from math import isqrt
from typing import NamedTuple

import torch
from torch import Tensor

# Images of a batch: no number of heads of these networks.
IMAGES = 7
CLASS = re.compile(r"cls|class")


class Seen(NamedTuple):
    """Tensors [N, T, D] in the order in which modules read them, and the outputs of layers.

    An output has the number of tensors that were read before it.
    """

    inputs: list[Tensor]
    outputs: dict[str, tuple[int, Tensor]]


def expected_vectors(family, pixels, places):
    """Return `cls` or `mean` and the vectors of each module; None if its tokens cannot be told.

    Maps with as many channels as rows and columns are left out.
    """
    seen = _watch(family, pixels, places)
    changed = _watch_changed(family, pixels, places)
    kinds = {}
    for place, (count, output) in seen.outputs.items():
        if output.ndim == 4:
            kinds |= _map_mean(place, output)
        else:
            tokens = output.unflatten(0, (IMAGES, -1)) if output.ndim == 2 else _batch_first(output)
            kinds[place] = _token_vectors(tokens, seen.inputs[:count], changed.inputs[:count])
    return kinds


def _map_mean(place, output):
    """Return the mean over the two equal dimensions of maps, by place; none if all are equal."""
    _, first, second, third = output.shape
    if first == second == third:
        return {}
    if second == third:
        return {place: ("mean", output.mean((2, 3)))}
    return {place: ("mean", output.mean((1, 2))) if first == second else None}


def _token_vectors(tokens, inputs, changed):
    """Return the class token, or the mean of the patches if they form a square, else None."""
    special, for_class = _special(tokens.shape[1], inputs, changed)
    if for_class.sum() == 1:
        return "cls", tokens[:, for_class][:, 0]
    patches = int((~special).sum())
    if not patches or isqrt(patches) ** 2 != patches:
        return None
    return "mean", tokens[:, ~special].mean(1)


def _special(count, inputs, changed):
    """Return which of `count` tokens are equal for all images, and which is the class's."""
    for tokens, others in zip(reversed(inputs), reversed(changed), strict=True):
        special = _equal(tokens, tokens[:1])
        # Several tokens that are all equal are no tokens but positions.
        if len(special) == count and special.any() and (count == 1 or not special.all()):
            return special, special & ~_equal(tokens, others)
    return torch.zeros(2, count, dtype=torch.bool)


def _equal(tokens, others):
    """Return which tokens of [N, T, D] are equal for all images, bool [T]."""
    return (tokens - others).abs().amax((0, 2)) < 1e-5 * tokens.abs().max()


def _batch_first(tokens):
    return tokens if tokens.shape[0] == IMAGES else tokens.transpose(0, 1)


def _watch(family, pixels, places):
    seen = Seen([], {})
    with ExitStack() as hooks, torch.no_grad():
        for module in family.model.modules():
            hooks.enter_context(
                module.register_forward_pre_hook(
                    lambda _, args, kwargs: _read((args, kwargs), seen.inputs), with_kwargs=True
                )
            )
        for place in places:
            hooks.enter_context(
                family.model.get_submodule(place).register_forward_hook(
                    lambda _, __, output, place=place: seen.outputs.update(
                        {place: (len(seen.inputs), _first(output).clone())}
                    )
                )
            )
        family.encode(pixels)
    return seen


def _read(values, inputs):
    """Add the tokens among the arguments of a module to `inputs`."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, tuple | list):
        for value in values:
            _read(value, inputs)
    elif (
        isinstance(values, Tensor)
        and values.ndim == 3
        and values.is_floating_point()
        and (values.shape[0] == IMAGES) != (values.shape[1] == IMAGES)
    ):
        inputs.append(_batch_first(values).clone())


def _first(output):
    return output[0] if isinstance(output, tuple | list) else output


def _watch_changed(family, pixels, places):
    """Return what modules see after the class token was changed."""
    tokens = {
        name: weight.data
        for name, weight in family.model.named_parameters()
        if CLASS.search(name.rpartition(".")[2])
    }
    weights = dict(family.model.named_parameters())
    for name, data in tokens.items():
        weights[name].data = data + torch.linspace(-1, 1, data.shape[-1])
    seen = _watch(family, pixels, places)
    for name, data in tokens.items():
        weights[name].data = data
    return seen
