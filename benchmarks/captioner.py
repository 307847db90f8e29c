"""Measure both stages of the captioner as ratios, side by side in one run.

Cross-entropy: against a bare PyTorch loop of the same arithmetic, on made-up features and captions;
the target is a ratio of at most 1.15. SCST: with a scorer that sleeps 1 ms and then 5 ms for each
caption, against the time of scoring the same distinct captions alone; the targets are 1.5 and 1.1.
Give the number of steps to measure more than 20.
"""

import sys
import time

import torch
from measuring import Against, compare
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from vlbench.probes.captioning.captioner_files import (
    Labels,
    StoredCaptioner,
    Vocabulary,
    draw_captioner,
)
from vlbench.probes.captioning.captioner_network import END, Sizes
from vlbench.probes.captioning.captioner_training import (
    CrossEntropy,
    CrossEntropyTraining,
    SelfCritical,
    SelfCriticalTraining,
    TrainingCaptions,
    ValidationCaptions,
)

IMAGES, FEATURES, WORDS, WIDTH = 200, 256, 500, 128
BATCH, CAPTIONS, LENGTH = 10, 5, 17
ROUNDS = 3
CPU = torch.device("cpu")


class Bare(nn.Module):
    """The network, written down plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.words = nn.Linear(FEATURES, WIDTH), nn.Embedding(WORDS + 1, WIDTH)
        self.i2h, self.h2h = nn.Linear(WIDTH, 5 * WIDTH), nn.Linear(WIDTH, 5 * WIDTH)
        self.logit = nn.Linear(WIDTH, WORDS + 1)

    def forward(self, features: Tensor, words: Tensor) -> Tensor:
        """Return logits [N, T, V + 1]."""
        hidden = cell = features.new_zeros(len(features), WIDTH)
        inputs = [self.image(features), *self.words(words).unbind(1)]
        outputs = []
        for one in inputs:
            gates = self.i2h(one) + self.h2h(hidden)
            input_gate, forget_gate, output_gate, first, second = gates.chunk(5, 1)
            candidate = torch.maximum(first, second)
            cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate
            hidden = output_gate.sigmoid() * cell.tanh()
            outputs.append(dropout(hidden, 0.5))
        logits: Tensor = self.logit(torch.stack(outputs[1:], 1))
        return logits


def made_up(rng: torch.Generator) -> TrainingCaptions:
    """Return features and captions of 5 to 16 words that mean nothing."""
    words = torch.randint(1, WORDS + 1, (IMAGES * CAPTIONS, LENGTH), generator=rng)
    length = torch.randint(5, LENGTH, (len(words), 1), generator=rng)
    words[torch.arange(LENGTH) >= length] = END
    labels = Labels(words.int(), torch.arange(IMAGES + 1) * CAPTIONS)
    vocabulary = Vocabulary(tuple(f"w{i}" for i in range(WORDS)))
    return TrainingCaptions(torch.randn(IMAGES, FEATURES, generator=rng), labels, vocabulary)


def bare_steps(lesson: TrainingCaptions, steps: int) -> None:
    """Train in plain PyTorch."""
    network = Bare()
    adam = torch.optim.Adam(network.parameters(), lr=5e-4)
    for _ in range(steps):
        images = torch.randperm(IMAGES)[:BATCH]
        rows = (images[:, None] * CAPTIONS + torch.arange(CAPTIONS)).flatten()
        words = lesson.labels.words[rows].long()
        words = words[:, : int((words != END).sum(1).max()) + 1]
        read = torch.cat([torch.zeros_like(words[:, :1]), words[:, :-1]], 1)
        logits = network(lesson.features[images].repeat_interleave(CAPTIONS, 0), read)
        counted = torch.cat([torch.ones_like(read[:, :1]), words[:, :-1] != END], 1).bool()
        adam.zero_grad()
        cross_entropy(logits[counted], words[counted]).backward()
        nn.utils.clip_grad_value_(network.parameters(), 0.1)
        adam.step()


def our_steps(lesson: TrainingCaptions, steps: int) -> None:
    """Train as vlbench does, without a validation."""
    plan = CrossEntropy(epochs=1 + steps * BATCH // IMAGES, validate_steps=steps + 1)
    exam = ValidationCaptions(lesson.features[:0], [])
    sizes = Sizes(FEATURES, WORDS, WIDTH, WIDTH)
    weights = draw_captioner(sizes, torch.Generator().manual_seed(0)).state_dict()
    training = CrossEntropyTraining(lesson, exam, weights, plan, CPU)
    for number in range(steps):
        training.step(number)


class Sleeps:
    """A reward that takes so many seconds a caption, and remembers what it was asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[int] = []

    def __call__(self, rows: object, texts: list[str]) -> Tensor:  # noqa: ARG002
        """Return the length of each text."""
        self.asked.append(len(texts))
        for _ in texts:
            time.sleep(self.seconds)
        return torch.tensor([float(len(text)) for text in texts])


def self_critical_steps(lesson: TrainingCaptions, reward: Sleeps, steps: int) -> None:
    """Train on rewards."""
    sizes = Sizes(FEATURES, WORDS, WIDTH, WIDTH)
    network = draw_captioner(sizes, torch.Generator().manual_seed(0))
    taught, plan = StoredCaptioner(network, lesson.vocabulary, {}), SelfCritical()
    training = SelfCriticalTraining(taught, lesson.features, reward, plan, CPU, seed=0)
    for number in range(steps):
        training.step(number)


def measure(steps: int) -> None:
    """Compare both stages."""
    lesson = made_up(torch.Generator().manual_seed(0))
    compare(
        Against(f"captioner, cross-entropy, {steps} steps", "bare PyTorch", 1.15),
        lambda: our_steps(lesson, steps),
        lambda: bare_steps(lesson, steps),
        ROUNDS,
        time.perf_counter,
    )
    for pause, target in ((0.001, 1.5), (0.005, 1.1)):
        tried = Sleeps(pause)
        self_critical_steps(lesson, tried, steps)
        asked = [[""] * n for n in tried.asked]
        compare(
            Against(f"captioner, SCST, {1000 * pause:.0f} ms a caption", "scores alone", target),
            lambda: self_critical_steps(lesson, Sleeps(pause), steps),  # noqa: B023 - called at once
            lambda: [tried([], texts) for texts in asked],  # noqa: B023
            ROUNDS,
            time.perf_counter,
        )


if __name__ == "__main__":
    measure(int(sys.argv[1]) if sys.argv[1:] else 20)
