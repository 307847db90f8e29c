"""Stages of a generative model in one pass, by hooks: vision tower, projector, language model."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from PIL import Image as PilImage
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.cuts import Positions, decoder_layers, without
from vlbench.adapter_kit.images import SquareView
from vlbench.adapter_kit.layers import HookedLayers
from vlbench.adapter_kit.vlm.prompts import PER_TOKEN, Prompts
from vlbench.capabilities import OUTPUT, Cut
from vlbench.errors import CannotDo, DataError, require_known

PROJECTED = "projected"


class StagePrompt(NamedTuple):
    """The inputs [1, L] of one image's prompt, and the positions of its image tokens, [T]."""

    inputs: dict[str, Tensor]
    image: Tensor


class Stages:
    """The stages of a generative model between square pixels and the end of its prompt.

    `tower.N`, from 0, is layer N of the longest list of layers in the vision tower. `projected` is
    the mean of the projected image tokens. After layer N of the language model, from 1,
    `language.N@image` is the mean at these tokens and `language.N@end` the state at the prompt's
    end. `output` is the stage that the argument `output` names. The last layer's states have passed
    the final norm. Each stage is pooled as soon as it is computed. The image is one view without
    tiles; each prompt asks the same question.
    """

    def __init__(
        self,
        model: Any,
        view: SquareView,
        preprocess: Callable[[Image], Tensor],
        prompts: Prompts,
        question: str,
        context: int,
        output: str,
    ) -> None:
        self._model, self._view, self._output = model, view, output
        self._prompts, self._question, self._context = prompts, question, context
        self._hooked = HookedLayers(model, view.tokens, preprocess)
        self._depth: int = model.config.get_text_config().num_hidden_layers

    @property
    def names(self) -> list[str]:
        """The names of all stages, in order of depth."""
        numbers = range(1, self._depth + 1)
        language = [f"language.{n}@{place}" for n in numbers for place in ("image", "end")]
        return [*self._tower, PROJECTED, *language, OUTPUT]

    def encode_at(self, pixels: Tensor, stages: Sequence[str], cut: Cut) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested stage; the language model runs only if requested.

        The parts in `cut` are removed. Raises UnknownNameError for other names, and CannotDo for
        a language model that cannot take this view.
        """
        if [*stages] != [OUTPUT]:  # whose name needs no look into the tower
            require_known("layer", stages, self.names)
        stage_of = {name: self._output if name == OUTPUT else name for name in stages}
        names = {*stage_of.values()}
        tower = {name: layer for name, layer in self._tower_of(names).items() if name in names}
        language = {name for name in names if name.startswith("language.")}
        with self._hooked.watch([*tower.values()], len(pixels)) as vectors:
            inputs = self._view.inputs(pixels)
            tokens, features = self._view.features(inputs)
        by_stage = {name: vectors[layer] for name, layer in tower.items()}
        if PROJECTED in names:
            by_stage[PROJECTED] = tokens.float().mean(1)
        if language:
            grids = {name: value for name, value in inputs.items() if name != "pixel_values"}
            with self._watch_language(language, by_stage):
                self._read(features, grids, len(pixels), cut)
        return {name: by_stage[stage] for name, stage in stage_of.items()}

    def _tower_of(self, names: set[str]) -> dict[str, str]:
        return self._tower if any(name.startswith("tower.") for name in names) else {}

    @cached_property
    def _tower(self) -> dict[str, str]:
        """The name in HookedLayers of each stage of the tower."""
        *names, _ = self._hooked.names
        lists = Counter(name.rpartition(".")[0] for name in names)
        (longest, _), *_ = lists.most_common(1)
        layers = [name for name in names if name.rpartition(".")[0] == longest]
        return {f"tower.{number}": name for number, name in enumerate(layers)}

    @cached_property
    def _prompt(self) -> StagePrompt:
        """The prompt of every image, on the model's device."""
        model, side, name = self._model, self._view.size, self._prompts.name
        if "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
            what = "does not read precomputed image tokens"
            raise CannotDo(f"{name} {what}; leave language.* out of the layers")
        blank = PilImage.new("RGB", (side, side))
        inputs, _ = self._prompts.read(blank, self._question, tiles=False)
        ids = inputs["input_ids"][0]
        image = ids == model.config.image_token_id
        with torch.no_grad():
            count = self._view.tokens(torch.zeros(1, 3, side, side, device=model.device)).shape[1]
        kept = ~image | (image.cumsum(0) <= count) if self._view.leaves_out_tiles else image | True
        seen = int((image & kept).sum())
        if seen != count:
            what = f"has {seen} image tokens in its prompt for a view of {count}"
            raise CannotDo(f"{name} {what}; leave language.* out of the layers")
        if kept.sum() > self._context:
            raise DataError(
                f"{name} reads {self._context} tokens, not {int(kept.sum())}; give a shorter "
                "layer_prompt, or a smaller size"
            )
        parts = {key: inputs[key][:, kept].to(model.device) for key in inputs.keys() & {*PER_TOKEN}}
        return StagePrompt(parts, image[kept].nonzero()[:, 0].to(model.device))

    def _read(self, features: Any, grids: dict[str, Tensor], count: int, cut: Cut) -> None:
        """Run the language model on the prompt of each of `count` images."""
        rows = {name: value.expand(count, -1) for name, value in self._prompt.inputs.items()}
        extra = {"mm_encoder_outputs": {"image": features}, "use_cache": False, "logits_to_keep": 1}
        places = Positions(self._prompt.image.tolist(), [rows["input_ids"].shape[1] - 1])
        layers = partial(decoder_layers, self._model.get_decoder(), self._prompts.name)
        with without(cut, layers, places):
            self._model(**rows, **grids, **extra)

    @contextmanager
    def _watch_language(self, stages: set[str], vectors: dict[str, Tensor]) -> Iterator[None]:
        """Add vectors of the language model's stages to `vectors` in a pass inside the block."""
        decoder = self._model.get_decoder()
        with ExitStack() as hooks:
            for number in range(1, self._depth + 1):
                last = number == self._depth
                names = stages & {f"language.{number}@image", f"language.{number}@end"}
                if names:
                    layer = decoder if last else decoder.layers[number - 1]
                    hooks.enter_context(layer.register_forward_hook(self._pooling(names, vectors)))
            yield

    def _pooling(self, names: set[str], vectors: dict[str, Tensor]) -> Callable[..., None]:
        """Return a hook that adds the means of a layer's states [N, L, D] to `vectors`."""

        def pool(_: Any, __: Any, output: Any) -> None:
            states = output if isinstance(output, Tensor) else output[0]
            for name in names:
                at_image = name.endswith("@image")
                some = states[:, self._prompt.image] if at_image else states[:, -1:]
                vectors[name] = some.float().mean(1)

        return pool
