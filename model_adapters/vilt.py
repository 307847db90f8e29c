"""ViLT. Kim et al. 2021, arXiv:2102.03334."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torchvision.transforms.functional import to_tensor
from transformers import AutoConfig, ViltForImageAndTextRetrieval

from vlbench.adapter_kit.attention import joint_attention, patch_boxes
from vlbench.adapter_kit.hugging_face import Source, draw_model
from vlbench.adapter_kit.images import images_of
from vlbench.adapter_kit.text import TextReader
from vlbench.capabilities import JointAttention, Picture
from vlbench.errors import CannotDo

# The longer side may be this much longer than the shorter: 1333 to 800, as in DETR.
STRETCH = 1333 / 800


class Vilt:
    """A transformer that reads a text and the patches of an image as one sequence.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, or "random", drawn
    with `init_seed`. Images keep their shape: the shorter side is the model's image size, the
    longer at most 5/3 of it, both cut to whole patches.

    The library shuffles the patches, and with a limit in the configuration drops some of them;
    here all are read, in the order of rows.
    """

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
        source = Source(architecture, weights, revision)
        config = source.load(AutoConfig)
        if config.model_type != "vilt":
            raise CannotDo(f"{source.name} is no ViLT")
        missing: list[str] = []
        if weights == "random":
            model = draw_model(ViltForImageAndTextRetrieval, config, init_seed)
        else:
            model, missing = source.load_model(ViltForImageAndTextRetrieval, config)
        source.refuse([key for key in missing if key.startswith("vilt.")])
        self._has_head = not any(key.startswith("rank_output") for key in missing)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._reader = TextReader(source, config.max_position_embeddings)
        self.context_length: int = self._reader.limit
        self._short: int = config.image_size
        self._patch: int = config.patch_size
        self._device = device
        self._dtype = dtype

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each patch, out of that to all tokens.

        Boxes are those of the patches in the picture. The image's class token, which is no part
        of the picture, has no column.
        """
        inputs, spans, grids = self._inputs(pictures, texts)
        output = self.model.vilt(**inputs, output_attentions=True)
        start = inputs["input_ids"].shape[1] + 1
        columns = [range(start, start + rows * across) for rows, across in grids]
        sizes = [image.size for image in images_of(pictures)]
        boxes = [patch_boxes(*grid, size) for grid, size in zip(grids, sizes, strict=True)]
        return joint_attention(output.attentions, spans, columns, boxes, whole=True)

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the one logit that retrieval ranks by, float32 [N]; it is no probability.

        Raises CannotDo for a checkpoint without the retrieval head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no retrieval head")
        pooled = self.model.vilt(**self._inputs(pictures, texts)[0]).pooler_output
        scores: Tensor = self.model.rank_output(pooled).float()[:, 0]
        return scores

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return self._reader.count(texts)

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[dict[str, Any], list[Any], list[tuple[int, int]]]:
        """Return what the model takes, the spans of each text, and rows and columns of patches."""
        tokens, spans = self._reader.read(texts, self._device)
        pixels = [self._pixels(image) for image in images_of(pictures)]
        grids = [(p.shape[1] // self._patch, p.shape[2] // self._patch) for p in pixels]
        embedded = [self._embed(one.to(self._device, self._dtype)) for one in pixels]
        embeds = torch.nn.utils.rnn.pad_sequence(embedded, batch_first=True)
        mask = torch.zeros(embeds.shape[:2], dtype=torch.long, device=self._device)
        for row, one in zip(mask, embedded, strict=True):
            row[: len(one)] = 1
        return {**tokens, "image_embeds": embeds, "pixel_mask": mask}, spans, grids

    def _pixels(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in -1..1, H and W whole patches."""
        short, long = min(image.size), max(image.size)
        scale = min(self._short / short, int(STRETCH * self._short) / long)
        width, height = (
            max(int(side * scale + 0.5) // self._patch, 1) * self._patch for side in image.size
        )
        resized = image.resize((width, height), Resampling.BICUBIC)
        pixels: Tensor = to_tensor(resized)
        return 2 * pixels - 1

    def _embed(self, pixels: Tensor) -> Tensor:
        """Return the embeddings of the class token and of all patches, row by row, [1 + R, D]."""
        whole = torch.ones_like(pixels[None, 0], dtype=torch.long)
        # The library draws the order of the patches from the global generator.
        with torch.random.fork_rng(devices=[]):
            embedded, _, (places, (_, across)) = self.model.vilt.embeddings.visual_embed(
                pixels[None], whole, max_image_length=-1
            )
        order = (places[0, :, 0] * across + places[0, :, 1]).argsort()
        vectors: Tensor = embedded[0]
        return torch.cat([vectors[:1], vectors[1:][order]])
