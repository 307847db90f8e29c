"""Layers of an image network, read by hooks in the forward pass that encodes its images.

Layers are the children of the outermost lists of modules (`blocks.3` of a ViT, `layer2.0` of a
ResNet), or several sibling modules of one class, if they run once and return maps of positions or
tokens. A layer gives one vector per image: the class token (`_cls`) if the layer returns it, else
the mean over positions or tokens (`_mean`). So the last layer is not yet the model's output, which
follows after a norm, a pooling or a projection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from PIL import Image as PilImage
from torch import Tensor, nn

from vlbench.capabilities import OUTPUT
from vlbench.errors import CannotDo, require_known

# Names of the parameters of the class token, which is the first token if it is present.
CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")

# At least this many sibling modules of one class are layers.
SEVERAL = 3

# This number of images in a batch shows which dimension of an output is the batch.
TRIED = 3

# A layer contains the class token if its first token changes by more than this fraction of its
# largest value when the parameter changes: some GPU kernels round differently in each call.
DIFFERS = 1e-4


class HookedLayers:
    """The layers of a network; `encode` maps pixels [N, 3, H, W] of images to vectors.

    `preprocess` returns the pixels of an image.
    """

    def __init__(
        self,
        model: nn.Module,
        encode: Callable[[Tensor], Tensor],
        preprocess: Callable[[PilImage.Image], Tensor],
    ) -> None:
        self._model, self._encode, self._preprocess = model, encode, preprocess
        self._channels_last = False

    @property
    def names(self) -> list[str]:
        """The names of the layers in the order in which they run, `output` last."""
        return [*self._modules, OUTPUT]

    def encode_at(self, pixels: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested layer. Raises UnknownNameError for others."""
        require_known("layer", layers, self.names)
        with self.watch([name for name in layers if name != OUTPUT], len(pixels)) as vectors:
            output = self._encode(pixels)
        return {name: output if name == OUTPUT else vectors[name] for name in layers}

    @contextmanager
    def watch(self, wanted: Sequence[str], count: int) -> Iterator[dict[str, Tensor]]:
        """Collect float32 [N, D] of each layer except `output` from a pass over `count` images.

        Raises CannotDo at the end if a layer was not reached.
        """
        vectors = dict[str, Tensor]()
        with ExitStack() as hooks:
            for name in wanted:
                hooks.enter_context(self._hook(name, vectors, count))
            yield vectors
        if unreached := [name for name in wanted if name not in vectors]:
            why = "these images do not pass through this layer; leave it out"
            raise CannotDo(f"no vectors of layer {', '.join(unreached)}: {why}")

    def _hook(self, name: str, vectors: dict[str, Tensor], count: int) -> Any:
        """Add a hook that writes a layer's vectors to `vectors` in a pass over `count` images."""

        def pool(_: nn.Module, __: Any, output: Any) -> None:
            # Pool at once: a later module, such as an in-place ReLU, may overwrite the output.
            vectors[name] = self._pool(name, _tensor(output), count).float()

        return self._modules[name].register_forward_hook(pool)

    @cached_property
    def _modules(self) -> Mapping[str, nn.Module]:
        """The module of each layer. Raises CannotDo for a network that has no layers."""
        parts = _parts_of(self._model)
        pixels = self._preprocess(PilImage.new("RGB", (256, 256)))
        spread = self._outputs(parts, pixels)
        self._channels_last = _are_channels_last(spread.values(), pixels.shape[-2:])
        with self._other_class_token() as has_class:
            others = self._outputs(parts, pixels) if has_class else spread
        kept = {
            f"{name}_{'cls' if _is_other(output, others[name]) else 'mean'}": parts[name]
            for name, output in spread.items()
        }
        if not kept:
            kind = type(self._model).__name__
            raise CannotDo(f"a {kind} has no list of layers that give maps or tokens")
        return kept

    def _outputs(self, parts: Mapping[str, nn.Module], pixels: Tensor) -> dict[str, Tensor]:
        """Return the outputs of modules that run once and return maps or tokens of images."""
        runs: list[tuple[str, Any]] = []
        with ExitStack() as hooks, torch.no_grad(), evaluating(self._model):
            for name, module in parts.items():
                hook = module.register_forward_hook(
                    lambda _, __, output, name=name: runs.append((name, _tensor(output)))
                )
                hooks.enter_context(hook)
            self._encode(pixels.expand(TRIED, -1, -1, -1).to(next(self._model.parameters()).device))
        names = [name for name, _ in runs]
        return {n: x for n, x in runs if names.count(n) == 1 and _is_spread(x, TRIED)}

    @contextmanager
    def _other_class_token(self) -> Iterator[bool]:
        """Change the class token of the network during the block; yield whether it has one."""
        tokens = [
            parameter
            for name, parameter in self._model.named_parameters()
            if name.rpartition(".")[2] in CLASS_TOKENS
        ]
        before = [token.data for token in tokens]
        try:
            for token in tokens:
                # The change differs per dimension: a norm would remove a constant.
                token.data = token.data + torch.linspace(-1, 1, token.shape[-1]).to(token)
            yield bool(tokens)
        finally:
            for token, data in zip(tokens, before, strict=True):
                token.data = data

    def _pool(self, name: str, output: Tensor, count: int) -> Tensor:
        """Return one vector per image, [N, D]."""
        if output.ndim == 2:
            return output.reshape(count, -1, output.shape[1]).mean(1)
        if output.ndim == 3:
            tokens = output if output.shape[0] == count else output.transpose(0, 1)
            return tokens[:, 0].clone() if name.endswith("_cls") else tokens.mean(1)
        return output.mean((1, 2) if self._channels_last else (2, 3))


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


def _is_other(output: Tensor, other: Tensor) -> bool:
    """Return whether the first tokens of two outputs differ; False for maps."""
    if output.ndim != 3:
        return False
    ours, theirs = (x[:, 0] if len(x) == TRIED else x[0] for x in (output, other))
    return bool((ours - theirs).abs().max() > DIFFERS * ours.abs().max())


def _are_channels_last(outputs: Iterable[Tensor], cut: torch.Size) -> bool:
    """Return whether maps are [N, H, W, D], not [N, D, H, W]; only unambiguous maps count.

    The two spatial dimensions have the pixels' aspect ratio. Raises CannotDo if both forms occur.
    """
    forms = set()
    for output in (one for one in outputs if one.ndim == 4):
        first, last = (_fits(output, places, cut) for places in ((2, 3), (1, 2)))
        forms |= {last} if first != last else set()
    if len(forms) > 1:
        raise CannotDo(
            "this network has channels-first and channels-last maps, so its layers cannot be read"
        )
    return forms == {True}


def _fits(output: Tensor, places: tuple[int, int], cut: torch.Size) -> bool:
    """Return whether two dimensions of an output have the pixels' aspect ratio."""
    rows, columns = (output.shape[place] for place in places)
    return bool(rows * cut[1] == columns * cut[0])
