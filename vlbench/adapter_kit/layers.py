"""Layers of an image network, read by hooks in the forward pass that encodes its images.

Layers are the children of the outermost lists of modules (`blocks.3` of a ViT, `layer2.0` of a
ResNet), or several sibling modules of one class, if they run once and return maps of positions or
tokens. A layer gives one vector per image: the class token (`_cls`) if the layer returns it, else
the mean over positions or patches (`_mean`). So the last layer is not yet the model's output, which
follows after a norm, a pooling or a projection.

Special tokens (of the class, registers) are learned, so they are equal for all images until an
attention mixes them with patches. Two passes over noise without any attention find them: the
special tokens are equal for all images at every layer, and the class token changes with its
parameter. A layer has no name if its other tokens form no grid of patches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from PIL import Image as PilImage
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vlbench.capabilities import OUTPUT
from vlbench.errors import CannotDo, listed, require_known

# The name of a parameter that belongs to the class token, such as `cls_token_1`.
OF_CLASS = re.compile("cls|class")

# The name of an operation of torch, or of an extension, that mixes tokens with learned weights.
ATTENTION = re.compile("softmax|attention|attn")

# Why a layer has no name.
UNTOLD = "positions or patches cannot be told from the rest of the output"

# At least this many sibling modules of one class are layers.
SEVERAL = 3

# This number of images in a batch shows which dimension of an output is the batch.
TRIED = 3

# Tokens differ if they do by more than this fraction of the layer's largest value: some GPU
# kernels round differently in each call.
DIFFERS = 1e-4


class Layer(NamedTuple):
    """A module and how its output becomes a vector per image.

    `class_token` is the place of the class token among the tokens, counted from the end if it is
    negative; None takes the mean over all tokens except `before` of them and `after`.
    """

    module: nn.Module
    is_batch_first: bool = True
    class_token: int | None = None
    before: int = 0
    after: int = 0


class HookedLayers:
    """The layers of a network; `encode` maps pixels [N, 3, H, W] of images to vectors.

    `preprocess` returns the pixels of an image. `untold` lists the modules whose patches cannot be
    told, once `names` was read.
    """

    def __init__(
        self,
        model: nn.Module,
        encode: Callable[[Tensor], Tensor],
        preprocess: Callable[[PilImage.Image], Tensor],
    ) -> None:
        self._model, self._encode, self._preprocess = model, encode, preprocess
        self._channels_last = False
        self.untold: list[str] = []

    @property
    def names(self) -> list[str]:
        """The names of the layers in the order in which they run, `output` last."""
        return [*self._layers, OUTPUT]

    def encode_at(self, pixels: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested layer.

        Raises UnknownNameError for others, CannotDo for layers whose patches cannot be told.
        """
        names = self.names
        untold = {name.rpartition("_")[0] for name in layers if name not in names} & {*self.untold}
        if untold:
            raise CannotDo(f"no vectors of layer {listed(untold)}: {UNTOLD}; leave it out")
        require_known("layer", layers, names)
        with self.watch([name for name in layers if name != OUTPUT], len(pixels)) as vectors:
            output = self._encode(pixels)
        return {name: output if name == OUTPUT else vectors[name] for name in layers}

    @contextmanager
    def watch(self, names: Sequence[str], count: int) -> Iterator[dict[str, Tensor]]:
        """Collect float32 [N, D] of each layer except `output` from a pass over `count` images.

        Raises CannotDo at the end if a layer was not reached.
        """
        vectors = dict[str, Tensor]()
        with ExitStack() as hooks:
            for name in names:
                hooks.enter_context(self._hook(name, vectors, count))
            yield vectors
        if unreached := [name for name in names if name not in vectors]:
            why = "these images do not pass through this layer; leave it out"
            raise CannotDo(f"no vectors of layer {', '.join(unreached)}: {why}")

    def _hook(self, name: str, vectors: dict[str, Tensor], count: int) -> Any:
        """Add a hook that writes a layer's vectors to `vectors` in a pass over `count` images."""

        def pool(_: nn.Module, __: Any, output: Any) -> None:
            # Pool at once: a later module, such as an in-place ReLU, may overwrite the output.
            vectors[name] = self._pool(layer, _tensor(output), count).float()

        layer = self._layers[name]
        return layer.module.register_forward_hook(pool)

    @cached_property
    def _layers(self) -> Mapping[str, Layer]:
        """The layers by name. Raises CannotDo for a network that has no layers."""
        parts = _parts_of(self._model)
        pixels = self._preprocess(PilImage.new("RGB", (256, 256)))
        edges = pixels.shape[-2:]
        rng = torch.Generator().manual_seed(0)
        noise = torch.rand(TRIED, *pixels.shape, generator=rng)
        outputs = self._outputs(parts, noise)
        with self._other_class_token():
            others = self._outputs(parts, noise)
        self._channels_last = _are_channels_last(outputs.values(), edges)
        layers = {
            name: _layer_of(parts[name], output, others[name], edges)
            for name, output in outputs.items()
        }
        self.untold = [name for name, layer in layers.items() if layer is None]
        kept = {
            f"{name}_{'mean' if layer.class_token is None else 'cls'}": layer
            for name, layer in layers.items()
            if layer
        }
        if not kept:
            kind = type(self._model).__name__
            if layers:
                raise CannotDo(f"a {kind} has no layers: {UNTOLD}")
            raise CannotDo(f"a {kind} has no list of layers that give maps or tokens")
        return kept

    def _outputs(self, parts: Mapping[str, nn.Module], pixels: Tensor) -> dict[str, Tensor]:
        """Return the outputs of modules that run once and return maps or tokens of images.

        No attention mixes tokens in this pass.
        """
        runs: list[tuple[str, Any]] = []
        device = next(self._model.parameters()).device
        with ExitStack() as hooks, torch.no_grad(), evaluating(self._model):
            for name, module in parts.items():
                hook = module.register_forward_hook(
                    lambda _, __, output, name=name: runs.append((name, _copy(_tensor(output))))
                )
                hooks.enter_context(hook)
            hooks.enter_context(_WithoutAttention())  # type: ignore[no-untyped-call]
            self._encode(pixels.to(device))
        names = [name for name, _ in runs]
        return {n: x for n, x in runs if names.count(n) == 1 and _is_spread(x, TRIED)}

    @contextmanager
    def _other_class_token(self) -> Iterator[None]:
        """Change the class token of the network during the block."""
        tokens = [
            parameter
            for name, parameter in self._model.named_parameters()
            if OF_CLASS.search(name.rpartition(".")[2]) and parameter.ndim
        ]
        before = [token.data for token in tokens]
        try:
            for token in tokens:
                # The change differs per dimension: a norm would remove a constant.
                token.data = token.data + torch.linspace(-1, 1, token.shape[-1]).to(token)
            yield
        finally:
            for token, data in zip(tokens, before, strict=True):
                token.data = data

    def _pool(self, layer: Layer, output: Tensor, count: int) -> Tensor:
        """Return one vector per image, [N, D]."""
        if output.ndim == 4:
            return output.mean((1, 2) if self._channels_last else (2, 3))
        tokens = _by_image(output, count, is_batch_first=layer.is_batch_first)
        if layer.class_token is not None:
            return tokens[:, layer.class_token].clone()
        return tokens[:, layer.before : tokens.shape[1] - layer.after].mean(1)


class _WithoutAttention(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets every token attend to itself only, or to nothing if queries are not the keys' tokens."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if not ATTENTION.search(str(func)):
            return output
        if isinstance(output, tuple):
            return (_alone(output[0], args), *output[1:])
        return _alone(output, args)


def _alone(output: Tensor, args: Sequence[Any]) -> Tensor:
    """Return the output of an attention, or of its softmax, in which no token reads another."""
    if len(args) > 2 and isinstance(args[2], Tensor):  # the arguments are query, key and value
        return args[2].clone() if args[2].shape == output.shape else torch.zeros_like(output)
    if output.ndim < 2 or output.shape[-2] != output.shape[-1]:
        return torch.zeros_like(output)
    return torch.eye(output.shape[-1]).to(output).expand_as(output).clone()


class LayersOfModel:
    """The methods of a LayerEncoder, for an adapter whose `encode_images` runs its `model`."""

    @cached_property
    def _hooked(self) -> HookedLayers:
        adapter: Any = self
        return HookedLayers(adapter.model, adapter.encode_images, adapter.preprocess)

    def layers(self) -> list[str]:
        """Return the names of the layers, in order of depth, and `output`.

        Raises CannotDo for a network that has no layers.
        """
        return self._hooked.names

    def encode_images_at(self, pixels: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested layer, from one pass."""
        return self._hooked.encode_at(pixels, layers)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode, then restore the training mode of each module."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _copy(output: Any) -> Any:
    """Return a copy of a tensor: a later module, such as an in-place ReLU, may overwrite it."""
    return output.clone() if isinstance(output, Tensor) else output


def _tensor(output: Any) -> Any:
    """Return a module's output; of a tuple, the first element."""
    return output[0] if isinstance(output, tuple | list) and output else output


def _parts_of(model: nn.Module, name: str = "") -> dict[str, nn.Module]:
    """Return the layers inside a module, by name.

    They are the children of its lists, and several other children of one class, such as the
    Inception modules of a GoogLeNet. All other children are searched recursively.
    """
    parts: dict[str, nn.Module] = {}
    children = dict(model.named_children())
    classes = Counter(type(child) for child in children.values())
    for key, child in children.items():
        whole = f"{name}{key}"
        if isinstance(child, nn.Sequential | nn.ModuleList):
            parts |= {f"{whole}.{number}": part for number, part in child.named_children()}
        elif classes[type(child)] >= SEVERAL and any(child.children()):
            parts[whole] = child
        else:
            parts |= _parts_of(child, f"{whole}.")
    return parts


def _is_spread(output: Any, count: int) -> bool:
    """Return whether an output contains maps of positions, or tokens, of `count` images.

    Tokens may be packed, the tokens of each image after those before it, [N T, D].
    """
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return False
    if output.ndim == 2:
        return len(output) > count and len(output) % count == 0
    if output.ndim == 3:
        return (output.shape[0] == count) != (output.shape[1] == count)
    return output.ndim == 4 and len(output) == count


def _by_image(output: Tensor, count: int, *, is_batch_first: bool) -> Tensor:
    """Return tokens as [N, T, D]; they may be packed, or [T, N, D]."""
    if output.ndim == 2:
        return output.reshape(count, -1, output.shape[1])
    return output if is_batch_first else output.transpose(0, 1)


def _layer_of(
    module: nn.Module, output: Tensor, other: Tensor, edges: Sequence[int]
) -> Layer | None:
    """Return how a module's output is read; None if its patches cannot be told.

    Attention was left out of both outputs, and the class token was changed in `other`.
    """
    if output.ndim == 4:
        # Rounding may add a row or a column to the maps of an image that is no square.
        slack = int(edges[0] != edges[1])
        is_map = any(_fits(output, places, edges, slack=slack) for places in ((1, 2), (2, 3)))
        return Layer(module) if is_map else None
    is_batch_first = len(output) == TRIED
    tokens, others = (_by_image(x, TRIED, is_batch_first=is_batch_first) for x in (output, other))
    count = tokens.shape[1]
    special = _are_equal(tokens, tokens[:1])
    changed = special & ~_are_equal(tokens, others)
    if changed.sum() == 1:
        place = int(changed.nonzero())
        return Layer(module, is_batch_first, place if place < count / 2 else place - count)
    if special.all():
        # Attention without a residual connection computes all of them from patches.
        special = torch.zeros_like(special)
    (patches,) = (~special).nonzero(as_tuple=True)
    before, after = int(patches[0]), count - 1 - int(patches[-1])
    is_run = len(patches) == count - before - after
    if not is_run or not _form_grid(len(patches), edges):
        return None
    return Layer(module, is_batch_first, None, before, after)


def _are_equal(tokens: Tensor, others: Tensor) -> Tensor:
    """Return which tokens of [N, T, D] are equal for all images, bool [T].

    NaN is never equal: a network that normalises its attention divides 0 by 0.
    """
    largest = tokens.nan_to_num().abs().max()
    return (tokens - others).abs().amax((0, 2)) <= DIFFERS * largest


def _form_grid(count: int, edges: Sequence[int]) -> bool:
    """Return whether square patches of some size divide an image into `count`."""
    height, width = edges
    return any(
        count in {(height // side) * (width // side), -(-height // side) * -(-width // side)}
        for side in range(1, min(edges) + 1)
    )


def _are_channels_last(outputs: Iterable[Tensor], edges: Sequence[int]) -> bool:
    """Return whether maps are [N, H, W, D], not [N, D, H, W]; only unambiguous maps count.

    The two spatial dimensions have the pixels' aspect ratio. Raises CannotDo if both forms occur.
    """
    forms = set()
    for output in (grid for grid in outputs if grid.ndim == 4):
        first, last = (_fits(output, places, edges) for places in ((2, 3), (1, 2)))
        forms |= {last} if first != last else set()
    if len(forms) > 1:
        raise CannotDo(
            "this network has channels-first and channels-last maps, so its layers cannot be read"
        )
    return forms == {True}


def _fits(output: Tensor, places: tuple[int, int], edges: Sequence[int], *, slack: int = 0) -> bool:
    """Return whether two dimensions of an output have the pixels' aspect ratio.

    They may miss it by `slack` rows or columns.
    """
    rows, columns = (output.shape[place] for place in places)
    return abs(rows * edges[1] - columns * edges[0]) <= slack * max(edges)
