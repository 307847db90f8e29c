"""ViLT. Kim et al. 2021, arXiv:2102.03334."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from vlbench.adapter_kit.attention import one_stream_attention, patch_boxes
from vlbench.adapter_kit.cuts import (
    Positions,
    cut_copy,
    one_stream_layers,
    parts_of,
    with_donors,
    without,
)
from vlbench.adapter_kit.hugging_face import Checkpoint, JointModel, require_checkpoint
from vlbench.adapter_kit.images import images_of, to_pixels
from vlbench.adapter_kit.regions import pad
from vlbench.adapter_kit.text import Spans
from vlbench.capabilities import Cut, JointAttention, Parts, Picture
from vlbench.errors import CannotDo

# The longer side is at most this many times the shorter: 1333 to 800, as in DETR.
STRETCH = 1333 / 800


class Inputs(NamedTuple):
    """The inputs of the model, the spans of each text, and (rows, columns) of each patch grid."""

    batch: dict[str, Any]
    spans: list[Spans]
    grids: list[tuple[int, int]]


class Vilt(JointModel):
    """A transformer that reads a text and the patches of an image as one sequence.

    Images keep their aspect ratio: the shorter side becomes the model's image size and the longer
    at most 5/3 of it, both cut to whole patches.

    transformers shuffles the patches and drops patches over the configuration's limit. This
    adapter reads all of them, row by row.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_checkpoint)
    score_kind = "ranking_logit"
    _cut = Cut()

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "dandelin/vilt-b32-mlm",
        weights: str = "pretrained",
        revision: str = "main",
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        opened = checkpoint.open("ViltForImageAndTextRetrieval", device, dtype, optional_heads=True)
        super().__init__(opened, "rank_output", checkpoint.tokenizer())
        self._short: int = opened.config.image_size
        self._patch: int = opened.config.patch_size

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each patch; all tokens share the softmax.

        A patch's box is its position in the picture. The image's class token is not a part of the
        picture, so it has no column.
        """
        batch, spans, grids = self._inputs(pictures, texts)
        output = self._run(batch, output_attentions=True)
        sizes = [image.size for image in images_of(pictures)]
        boxes = [patch_boxes(*grid, size) for grid, size in zip(grids, sizes, strict=True)]
        start = batch["input_ids"].shape[1] + 1
        return one_stream_attention(output.attentions, spans, boxes, start=start)

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the logit that retrieval ranks by, float32 [N]; it is not a probability.

        Raises CannotDo for a checkpoint that has no retrieval head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no retrieval head")
        pooled = self._run(self._inputs(pictures, texts).batch).pooler_output
        scores: Tensor = self.model.rank_output(pooled).float()[:, 0]
        return scores

    def parts(self) -> Parts:
        """Return the layers' heads; the image's class token counts as image."""
        return parts_of(one_stream_layers(self.model.vilt), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have."""
        return cut_copy(self, what)

    def _run(self, batch: Mapping[str, Any], **options: Any) -> Any:
        """Return the output of the model without its heads, and without the parts that are cut."""
        start, patches = batch["input_ids"].shape[1], batch["image_embeds"].shape[1]
        image = Positions(range(start, start + patches))
        with without(self._cut, lambda: one_stream_layers(self.model.vilt), image):
            return self.model.vilt(**batch, **options)

    def _inputs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Inputs:
        tokens, spans = self._reader.read(texts)
        pixels = [self._pixels(image) for image in images_of(pictures)]
        grids = [(p.shape[1] // self._patch, p.shape[2] // self._patch) for p in pixels]
        embedded = [self._embed(tensor.to(self._device, self._dtype)) for tensor in pixels]
        embeds, mask = pad(embedded, self._device)
        return Inputs({**tokens, "image_embeds": embeds, "pixel_mask": mask}, spans, grids)

    def _pixels(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in -1..1; H and W are whole patches."""
        short, long = min(image.size), max(image.size)
        scale = min(self._short / short, int(STRETCH * self._short) / long)
        width, height = (
            max(int(side * scale + 0.5) // self._patch, 1) * self._patch for side in image.size
        )
        return 2 * to_pixels(image.resize((width, height), Resampling.BICUBIC)) - 1

    def _embed(self, pixels: Tensor) -> Tensor:
        """Return the embeddings of the class token and of all patches, row by row, [1 + R, D]."""
        whole = torch.ones_like(pixels[None, 0], dtype=torch.long)
        # transformers draws the order of the patches from the global generator.
        with torch.random.fork_rng(devices=[]):
            embedded, _, (places, (_, across)) = self.model.vilt.embeddings.visual_embed(
                pixels[None], whole, max_image_length=-1
            )
        order = (places[0, :, 0] * across + places[0, :, 1]).argsort()
        vectors: Tensor = embedded[0]
        return torch.cat([vectors[:1], vectors[1:][order]])
