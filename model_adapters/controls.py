"""Control models, whose outputs do not depend on the input's meaning: they must score at chance.

A small change of the pixels does not change the outputs, so no true gradient reaches the pixels.
Instead the gradient is exactly zero: attacks run on controls, without effect.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Self

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn import functional

from vlbench.adapter_kit.cuts import cut_copy
from vlbench.adapter_kit.hugging_face import Checkpoint
from vlbench.adapter_kit.images import to_pixels
from vlbench.capabilities import Cut, JointAttention, Parts, Picture, Regions, TokenVectors

WORD = re.compile(r"\w+|[^\w\s]")

# The side of the input images in pixels.
SIDE = 16

# Numbers of layers, and of attention heads in each.
LAYERS, HEADS = 2, 3


class Control:
    """Has every capability: the same answer for every input, or, with `noise`, random numbers.

    The noise is drawn with `init_seed`, the parts that are cut and the content of the input: the
    same input has the same output in any batch and any run. A word's noise depends on its text and
    its position. Attention is to the regions of the data, or to the whole picture if it has none.
    The masked language model has random or zero weights.

    Args:
        noise: whether outputs are random numbers; else they are the same for every input.
        classes: number of classes of the classifier, whose names are numbers.
        width: width of vectors.
        labels: labels of the regions detected in each picture; each region is the whole picture.
        words: model on the hub, or folder, that gives the masked language model's tokenizer and
            configuration.
        init_seed: seed of the noise.
    """

    is_control = True
    reads_text_alone = True

    # Any classes in any order fit outputs that mean nothing.
    class_order = "any"
    _cut = Cut()

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        noise: bool = False,
        classes: int = 10,
        width: int = 32,
        labels: Sequence[str] = ("thing",),
        words: str = "bert-base-uncased",
        init_seed: int = 0,
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._noise = noise
        self._classes = classes
        self._width = width
        self._labels = list(labels)
        self._words = words
        self._seed = init_seed

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 16, 16] in [0, 1]; the aspect ratio is lost."""
        return to_pixels(image.convert("RGB").resize((SIDE, SIDE), Resampling.BILINEAR))

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]."""
        return self._of_pixels(pixels, self._width)

    def layers(self) -> list[str]:
        """Return the name of the output, the only layer."""
        return ["output"]

    def encode_images_at(self, pixels: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D], the same for each layer name."""
        return {name: self.encode_images(pixels) for name in layers}

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, 2, 2]."""
        return self._of_pixels(pixels, 4 * self._width).unflatten(1, (self._width, 2, 2))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D]."""
        return torch.cat([self._each([text], [""], self._width) for text in texts])

    def text_layers(self) -> list[str]:
        """Return the name of the output, the only layer."""
        return ["output"]

    def encode_texts_at(self, texts: Sequence[str], layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D], the same for each layer name."""
        return {name: self.encode_texts(texts) for name in layers}

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the cosine of each image with each text, [N, M], -1..1."""
        return functional.normalize(images, dim=1) @ functional.normalize(texts, dim=1).T

    def class_names(self) -> list[str]:
        """Return numbers."""
        return [str(i) for i in range(self._classes)]

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        return self._of_pixels(pixels, self._classes)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return a vector per word and per punctuation mark."""
        encoded = []
        for text in texts:
            spans = _spans(text)
            encoded.append(TokenVectors(spans, self._each([text], spans, self._width)))
        return encoded

    def encode_tokens_at(
        self, texts: Sequence[str], layers: Sequence[str]
    ) -> dict[str, list[TokenVectors]]:
        """Return a vector per word and punctuation mark, the same for each layer name."""
        return {name: self.encode_tokens(texts) for name in layers}

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D] for the boxes of each picture."""
        pairs = zip(pictures, boxes, strict=True)
        return [self._each(_bytes(picture), own.tolist(), self._width) for picture, own in pairs]

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return one region per label, each the whole picture."""
        detected = []
        for picture in pictures:
            size, count = _size(picture), len(self._labels)
            boxes = torch.tensor([[0.0, 0.0, *size]]).expand(count, 4)
            vectors = self._each(_bytes(picture), self._labels, self._width)
            detected.append(Regions(boxes, vectors, torch.ones(count), self._labels, size))
        return detected

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return float32 [N]."""
        pairs = zip(pictures, texts, strict=True)
        return torch.cat([self._each(_bytes(picture), [text], 1)[:, 0] for picture, text in pairs])

    def score_answers(
        self, pictures: Sequence[Picture], questions: Sequence[str], answers: Sequence[str]
    ) -> Tensor:
        """Return float32 [N], below 0."""
        pairs = zip(questions, answers, strict=True)
        texts = [f"{question}\n{answer}" for question, answer in pairs]
        return functional.logsigmoid(self.score_pairs(pictures, texts))

    def answer(self, pictures: Sequence[Picture], questions: Sequence[str]) -> list[str]:
        """Return yes to every question; with `noise`, yes or no at random."""
        scores = self.score_pairs(pictures, questions).tolist()
        return ["yes" if score > 0 else "no" for score in scores]

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each word to each region; the softmax is over the regions."""
        return [self._attention(*pair) for pair in zip(pictures, texts, strict=True)]

    def parts(self) -> Parts:
        """Return heads and positions; the outputs do not depend on them."""
        return Parts((HEADS,) * LAYERS, ("image", "text", "end"))

    def cut(self, what: Cut) -> Self:
        """Return the same control; with `noise`, a control that draws other numbers."""
        return cut_copy(self, what)

    def masked_lm(self) -> tuple[Any, Any]:
        """Return a tokenizer and a BERT."""
        checkpoint = Checkpoint(self._words, "random", seed=self._seed)
        module = checkpoint.open("BertForMaskedLM", self._device, self._dtype).model
        for weight in module.parameters() if not self._noise else ():
            weight.zero_()
        return checkpoint.tokenizer(), module

    def _attention(self, picture: Picture, text: str) -> JointAttention:
        boxes, spans = _boxes(picture), _spans(text)
        numbers = self._each([*_bytes(picture), text], spans, LAYERS * HEADS * len(boxes))
        weights = numbers.view(len(spans), LAYERS, HEADS, len(boxes)).softmax(-1)
        return JointAttention(spans, weights.permute(1, 2, 0, 3), boxes, whole=False)

    def _of_pixels(self, pixels: Tensor, width: int) -> Tensor:
        """Return numbers for each image, float32 [N, width], through which a gradient flows."""
        held = pixels.detach().float().cpu().numpy()
        numbers = torch.cat([self._each([vector.tobytes()], [""], width) for vector in held])
        level = pixels.float().flatten(1).mean(1, keepdim=True)
        # Zero, with a gradient that differs per output: a softmax would cancel equal gradients.
        return numbers + (level - level.detach()) * torch.arange(1.0, width + 1).to(level)

    def _each(self, shared: Sequence[str | bytes], parts: Sequence[Any], width: int) -> Tensor:
        """Return numbers for each of several parts of one input, float32 [n, width]."""
        if not self._noise:
            return torch.ones(len(parts), width, device=self._device)
        whole = hashlib.sha256(f"{self._seed}{self._cut if any(self._cut) else ''}".encode())
        for part in shared:
            whole.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
        drawn = [_draw(whole.digest() + repr(entry).encode(), width) for entry in parts]
        return torch.stack(drawn).to(self._device) if drawn else torch.empty(0, width)


def _draw(content: bytes, width: int) -> Tensor:
    seed = int.from_bytes(hashlib.sha256(content).digest()[:7], "big")
    return torch.randn(width, generator=torch.Generator().manual_seed(seed))


def _spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


def _size(picture: Picture) -> tuple[int, int]:
    if picture.image is not None:
        return picture.image.size
    return picture.regions.size if picture.regions else (1, 1)


def _boxes(picture: Picture) -> Tensor:
    """Return the boxes of a picture's regions; if it has none, the whole picture."""
    if picture.regions is not None and len(picture.regions.boxes):
        return picture.regions.boxes
    return torch.tensor([[0.0, 0.0, *_size(picture)]])


def _bytes(picture: Picture) -> list[bytes]:
    """Return the content of a picture as bytes."""
    image = b"" if picture.image is None else picture.image.tobytes()
    vectors = None if picture.regions is None else picture.regions.vectors
    held = b"" if vectors is None else vectors.float().cpu().numpy().tobytes()
    return [image, held]
