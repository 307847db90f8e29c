"""Speeds of passes of models that are loaded, against the libraries called bare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import transformers
from commands import make_images
from gpu import ADAPTERS, attack_ways
from measuring import Pair
from PIL import Image
from torch import Tensor, nn

import vlbench
from vlbench.capabilities import JointAttention, Picture, Regions
from vlbench.code.fingerprints import identified
from vlbench.code.functions import load_object
from vlbench.data.coco_files import Phrase
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine, devices
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.probes.grounding.entity_grounding import entity_grounding

CPU = torch.device("cpu")


def hf_vision(*, images: int = 256, batch: int = 32) -> Iterator[Pair]:
    """Compare the features of a small DINOv2 with random weights with a loop over transformers.

    JPEGs of 500 x 375 are read at 224 x 224 by the library's own image processor.
    """
    with tempfile.TemporaryDirectory() as place:
        torch.manual_seed(0)
        config = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518)
        square = {"height": 224, "width": 224}
        for part in (
            transformers.Dinov2Model(config),
            transformers.BitImageProcessor(size={"shortest_edge": 256}, crop_size=square),
        ):
            part.save_pretrained(place)
        processor = transformers.AutoImageProcessor.from_pretrained(place)
        bare = transformers.AutoModel.from_pretrained(place).eval()
        model = load_object("hf_vision:HfVision", [ADAPTERS])(device=CPU, architecture=place)
        # Once for a model that is loaded, not for each image: about what reading its file takes.
        identity = identified(model, {"architecture": place}, CPU, torch.float32).identity
        devices.set_up(CPU)
        column = image_folder(root=make_images(Path(place) / "images", images)).splits["test"][
            "image"
        ]

        @torch.no_grad()
        def loop() -> None:
            for start in range(0, images, batch):
                rows = range(start, min(start + batch, images))
                bare(**processor([column[row] for row in rows], return_tensors="pt"))

        def ours() -> None:
            with tempfile.TemporaryDirectory() as store:
                settings, known = ComputeSettings(CPU, batch_size=batch), {id(model): identity}
                engine = Engine(settings, store=Store(Path(store)), identities=known)
                engine.features(model.encode_images, column)

        what = f"features of a small DINOv2, {images} images, the model loaded"
        yield Pair(what, "a bare loop of transformers", ours, loop, 1.03)


NETWORKS: dict[str, dict[str, Any]] = {
    "timm:vit_small_patch16_224": {"weights": "random"},
    "torchvision:resnet50/random": {"resize": 224, "crop": 224},
    "timm:tf_efficientnet_lite0": {"weights": "random"},
    "open_clip:ViT-B-32/random": {},
    "tiny-vlm": {"image_vector": "last_token"},
}


def layers(*, batch: int = 32) -> Iterator[Pair]:
    """Compare all layers of a network in one pass with its output only, on random pixels."""
    for name, arguments in NETWORKS.items():
        model = vlbench.load_model(name, model_args=arguments)
        pixels = torch.rand(batch, *model.preprocess(Image.new("RGB", (224, 224))).shape)
        names = model.layers()
        both = [
            partial(model.encode_images_at, pixels, names),
            partial(model.encode_images, pixels),
        ]
        ours, output = (torch.no_grad()(way) for way in both)
        yield Pair(f"{len(names)} layers of {name}", "its output", ours, output, 1.1, rounds=5)


def robustness(*, images: int = 20, steps: int = 20) -> Iterator[Pair]:
    """Compare the attacks of robustness at one epsilon with foolbox called directly.

    The network has four convolutions and no trained weights. The probe also classifies the images
    before and after the attacks: (20 + 1) / 20 of the work, which is the target.
    """
    import foolbox  # noqa: PLC0415 - it warns

    torch.manual_seed(0)
    convolutions = [
        layer
        for before, after in pairwise([3, 32, 64, 64, 64])
        for layer in (nn.Conv2d(before, after, 3, padding=1), nn.ReLU())
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    net = nn.Sequential(*convolutions, *head)
    both = attack_ways(CPU, net, images=images, side=16, epsilons=[0.01], steps=steps)
    yield Pair("robustness, LinfPGD", f"foolbox {foolbox.__version__}", *both, 1.05, rounds=5)


# Of entity_grounding: regions of a picture, numbers of a region, words of a caption, captions of an
# image.
REGIONS, WIDTH, WORDS, CAPTIONS = 36, 2_048, 12, 5


class Attender:
    """A VisualBERT of the size of BERT-base with random weights, without a tokenizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        config = transformers.VisualBertConfig(
            visual_embedding_dim=WIDTH, attn_implementation="eager"
        )
        self.model = transformers.VisualBertModel(config).eval()
        self.spans = [(5 * i, 5 * i + 4) for i in range(WORDS)]

    def forward(self, vectors: Tensor) -> Sequence[Tensor]:
        """Return each layer's attention, [N, heads, T, T]."""
        n = len(vectors)
        attentions: Sequence[Tensor] = self.model(
            input_ids=torch.ones(n, WORDS + 2, dtype=torch.long),
            attention_mask=torch.ones(n, WORDS + 2),
            visual_embeds=vectors,
            visual_attention_mask=torch.ones(n, REGIONS),
            visual_token_type_ids=torch.zeros(n, REGIONS, dtype=torch.long),
            output_attentions=True,
        ).attentions
        return attentions

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention from every word to every region, of each pair."""
        del texts
        seen = [picture.regions for picture in pictures]
        layers = self.forward(torch.stack([regions.vectors for regions in seen]))
        weights = torch.stack([layer[:, :, 1 : WORDS + 1, -REGIONS:] for layer in layers], 1)
        return [
            JointAttention(self.spans, of_pair, regions.boxes, whole=True)
            for of_pair, regions in zip(weights, seen, strict=True)
        ]


def grounding(*, images: int = 16, batch: int = 8) -> Iterator[Pair]:
    """Compare entity_grounding with bare passes with attention: captions of three entities."""
    text = " ".join(["word"] * WORDS)
    rng = torch.Generator().manual_seed(0)
    corners = torch.rand(images, REGIONS, 2, 2, generator=rng) * 500
    boxes = torch.cat([corners.amin(2), corners.amax(2)], 2)
    vectors = torch.rand(REGIONS, WIDTH, generator=rng)
    pictures = [Picture(None, Regions(b, vectors, b[:, 0], None, (500, 500))) for b in boxes]
    phrases = [Phrase(4 * k, 4 * k + 3, (k,)) for k in range(3)]
    columns = {
        "picture": Column("", "picture", pictures, range(images)),
        "boxes": Column("", "value", list(boxes), range(images)),
        "captions": value_column([[text] * CAPTIONS] * images),
        "words": value_column([[text.split()] * CAPTIONS] * images),
        "phrases": value_column([[phrases] * CAPTIONS] * images),
    }
    data, model = Data(splits={"test": Split(columns)}), Attender()
    engine = Engine(ComputeSettings(CPU, batch_size=batch))

    @torch.no_grad()
    def bare() -> None:
        for _ in range(images * CAPTIONS // batch):
            model.forward(vectors.expand(batch, -1, -1))

    probe = partial(entity_grounding, model, data, engine, examples=0)
    yield Pair("entity_grounding", "bare passes", probe, bare, 1.3)
