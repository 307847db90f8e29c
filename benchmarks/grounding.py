"""Measure entity_grounding against bare forward passes with attention, and its memory.

A VisualBERT of the size of BERT-base with random weights, 36 regions a picture, five captions of
12 words an image. Each round runs both in turn on the same captions; the target is a ratio of at
most 1.3. Then the peak memory of few and of eight times as many captions, each in a process of its
own: it must not grow with them.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import torch
from measuring import Against, compare
from torch import Tensor
from transformers import VisualBertConfig, VisualBertModel

from vlbench.capabilities import JointAttention, Picture, Regions
from vlbench.data.coco_files import Phrase
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.probes.grounding.entity_grounding import entity_grounding

REGIONS, WIDTH, WORDS, CAPTIONS, BATCH, ROUNDS = 36, 2_048, 12, 5, 8, 3
SIZES = (8, 64)  # images
TEXT = " ".join(["word"] * WORDS)
SPANS = [(5 * i, 5 * i + 4) for i in range(WORDS)]


class Attender:
    """A VisualBERT without a tokenizer: its attention from every word to every region."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        config = VisualBertConfig(visual_embedding_dim=WIDTH, attn_implementation="eager")
        self.model = VisualBertModel(config).eval().to(device)
        self.device = device

    def forward(self, vectors: Tensor) -> Sequence[Tensor]:
        """Return each layer's attention, [N, heads, T, T]."""
        n = len(vectors)
        found: Sequence[Tensor] = self.model(
            input_ids=torch.ones(n, WORDS + 2, dtype=torch.long, device=self.device),
            attention_mask=torch.ones(n, WORDS + 2, device=self.device),
            visual_embeds=vectors.to(self.device),
            visual_attention_mask=torch.ones(n, REGIONS, device=self.device),
            visual_token_type_ids=torch.zeros(n, REGIONS, dtype=torch.long, device=self.device),
            output_attentions=True,
        ).attentions
        return found

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each pair."""
        layers = self.forward(torch.stack([p.regions.vectors for p in pictures]))
        weights = torch.stack(
            [layer[:, :, 1:-1, :][:, :, :WORDS, -REGIONS:] for layer in layers], 1
        )
        return [
            JointAttention(SPANS, one, p.regions.boxes, whole=True)
            for one, p, _ in zip(weights, pictures, texts, strict=True)
        ]


def made(images: int) -> Data:
    """Return so many images with five captions of three entities."""
    rng = torch.Generator().manual_seed(0)
    corners = torch.rand(images, REGIONS, 2, 2, generator=rng) * 500
    boxes = torch.cat([corners.amin(2), corners.amax(2)], 2)
    vectors = torch.rand(1, REGIONS, WIDTH, generator=rng)[0]
    pictures = [Picture(None, Regions(b, vectors, b[:, 0], None, (500, 500))) for b in boxes]
    phrases = [Phrase(4 * k, 4 * k + 3, (k,)) for k in range(3)]
    columns = {
        "picture": Column("", "picture", pictures, range(images)),
        "boxes": Column("", "value", list(boxes), range(images)),
        "captions": value_column([[TEXT] * CAPTIONS] * images),
        "words": value_column([[TEXT.split()] * CAPTIONS] * images),
        "phrases": value_column([[phrases] * CAPTIONS] * images),
    }
    return Data(splits={"test": Split(columns)})


def peak(images: int) -> None:
    """Print the peak memory of this process after the probe, in MiB, on the CPU."""
    device = torch.device("cpu")
    entity_grounding(
        Attender(device),
        made(images),
        Engine(ComputeSettings(device, batch_size=BATCH)),
        examples=0,
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare_with_passes(device: torch.device, images: int, batch: int) -> None:
    """Compare the probe with bare passes."""
    model, data = Attender(device), made(images)
    vectors = data.splits["test"]["picture"][0].regions.vectors.expand(batch, -1, -1)
    engine = Engine(ComputeSettings(device, batch_size=batch))

    @torch.no_grad()
    def bare() -> None:
        for _ in range(images * CAPTIONS // batch):
            model.forward(vectors)
        if device.type == "cuda":
            torch.cuda.synchronize()

    def probe() -> None:
        entity_grounding(model, data, engine, examples=0)

    # On a CPU the process's own time, which other programs take nothing of.
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    bare()
    compare(Against("entity_grounding", "bare passes", 1.3), probe, bare, ROUNDS, clock)


def main() -> None:
    """Compare times, then memory."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    images, batch = (512, 64) if gpu else (16, BATCH)
    compare_with_passes(device, images, batch)
    if not gpu:
        for images in SIZES:
            command = [sys.executable, __file__, str(images)]
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            print(f"{images * CAPTIONS} captions: peak {float(found):.0f} MiB")


if __name__ == "__main__":
    peak(int(sys.argv[1])) if len(sys.argv) > 1 else main()
