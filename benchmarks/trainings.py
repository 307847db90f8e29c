"""Speeds of trainings, in wall time, against plain PyTorch loops of the same arithmetic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from measuring import Pair
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, normalize
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from vlbench.capabilities import Regions
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.probes.captioning.captioner_files import (
    Labels,
    StoredCaptioner,
    Vocabulary,
    draw_captioner,
)
from vlbench.probes.captioning.captioner_network import END, FcCaptioner, Sizes
from vlbench.probes.captioning.captioner_training import (
    CrossEntropy,
    CrossEntropyTraining,
    SelfCritical,
    SelfCriticalTraining,
    TrainingCaptions,
    ValidationCaptions,
)
from vlbench.probes.question_generation.bert_gen import BertGen
from vlbench.probes.question_generation.inputs import ObjectReader, Objects, StepExamples
from vlbench.probes.question_generation.inputs import Pair as Asked
from vlbench.probes.question_generation.training import BertGenTraining, StepTraining, TrainedParts
from vlbench.probes.vsep.network import RegionWords, VsepTraining, train

WALL = time.perf_counter
CPU = torch.device("cpu")


def vsep(*, pairs: int = 51_637, epochs: int = 2) -> Iterator[Pair]:
    """Compare the training of the visual semantic embedding probe with a bare loop.

    RegionWords have 256 and 768 dimensions. A few epochs are enough, since epochs cost the same.
    """
    width, words, batch = 256, 768, 512
    rng = torch.Generator().manual_seed(0)
    given = RegionWords(*(torch.randn(pairs, size, generator=rng) for size in (width, words)))

    def bare() -> None:
        net = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, words))
        norm = nn.LayerNorm(words, elementwise_affine=False)
        scale = nn.Parameter(torch.tensor(2.659))
        adam = torch.optim.Adam([*net.parameters(), scale], lr=1e-3)
        for _ in range(epochs):
            for rows in torch.randperm(pairs).split(batch):
                adam.zero_grad()
                x = normalize(norm(net(given.regions[rows])))
                logits = x @ normalize(norm(given.words[rows])).T * scale.exp().clamp(max=100)
                right = torch.arange(len(rows))
                ((cross_entropy(logits, right) + cross_entropy(logits.T, right)) / 2).backward()
                adam.step()

    plan = VsepTraining(epochs, batch)
    ours = partial(train, Engine.for_tests(), given, plan)
    yield Pair(f"VSEP, {epochs} epochs", "bare PyTorch", ours, bare, 1.5, clock=WALL)


# Of the captioner's training data: images, numbers of an image, words of the vocabulary, captions
# of an image, words of a caption with its end; images of a batch; and the width of the network.
IMAGES, FEATURES, WORDS, CAPTIONS, LENGTH, BATCH, WIDTH = 200, 256, 500, 5, 17, 10, 128


class BareCaptioner(nn.Module):
    """The network, written down plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.words = nn.Linear(FEATURES, WIDTH), nn.Embedding(WORDS + 1, WIDTH)
        self.i2h, self.h2h = nn.Linear(WIDTH, 5 * WIDTH), nn.Linear(WIDTH, 5 * WIDTH)
        self.logit = nn.Linear(WIDTH, WORDS + 1)

    def forward(self, features: Tensor, words: Tensor) -> Tensor:
        """Return logits [N, T, V + 1]."""
        hidden = cell = features.new_zeros(len(features), WIDTH)
        outputs = []
        for step in (self.image(features), *self.words(words).unbind(1)):
            gates = self.i2h(step) + self.h2h(hidden)
            input_gate, forget_gate, output_gate, first, second = gates.chunk(5, 1)
            candidate = torch.maximum(first, second)
            cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate
            hidden = output_gate.sigmoid() * cell.tanh()
            outputs.append(dropout(hidden, 0.5))
        logits: Tensor = self.logit(torch.stack(outputs[1:], 1))
        return logits


def made_up_captions() -> TrainingCaptions:
    """Return features and captions of 5 to 16 words that mean nothing."""
    rng = torch.Generator().manual_seed(0)
    words = torch.randint(1, WORDS + 1, (IMAGES * CAPTIONS, LENGTH), generator=rng)
    length = torch.randint(5, LENGTH, (len(words), 1), generator=rng)
    words[torch.arange(LENGTH) >= length] = END
    labels = Labels(words.int(), torch.arange(IMAGES + 1) * CAPTIONS)
    vocabulary = Vocabulary(tuple(f"w{i}" for i in range(WORDS)))
    return TrainingCaptions(torch.randn(IMAGES, FEATURES, generator=rng), labels, vocabulary)


def new_captioner() -> FcCaptioner:
    """Return a captioner with seeded random weights."""
    return draw_captioner(Sizes(FEATURES, WORDS, WIDTH, WIDTH), torch.Generator().manual_seed(0))


def train_bare_captioner(lesson: TrainingCaptions, steps: int) -> None:
    """Train in plain PyTorch."""
    network = BareCaptioner()
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


def train_captioner(lesson: TrainingCaptions, steps: int) -> None:
    """Train as vlbench does, without a validation."""
    plan = CrossEntropy(epochs=1 + steps * BATCH // IMAGES, validate_steps=steps + 1)
    exam = ValidationCaptions(lesson.features[:0], [])
    training = CrossEntropyTraining(lesson, exam, new_captioner().state_dict(), plan, CPU)
    for number in range(steps):
        training.step(number)


class Sleeps:
    """A reward that takes so many seconds for each caption, and remembers what it was asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[int] = []

    def __call__(self, rows: object, texts: list[str]) -> Tensor:
        """Return the length of each text."""
        del rows
        self.asked.append(len(texts))
        for _ in texts:
            time.sleep(self.seconds)
        return torch.tensor([float(len(text)) for text in texts])


def train_on_rewards(lesson: TrainingCaptions, reward: Sleeps, steps: int) -> None:
    """Train with SCST."""
    taught = StoredCaptioner(new_captioner(), lesson.vocabulary, {})
    training = SelfCriticalTraining(taught, lesson.features, reward, SelfCritical(), CPU, seed=0)
    for number in range(steps):
        training.step(number)


def captioner(*, steps: int = 20) -> Iterator[Pair]:
    """Compare cross-entropy with a bare loop, and SCST with the time of its scores alone.

    The scorer of SCST sleeps 1 ms, then 5 ms, for each distinct caption.
    """
    lesson = made_up_captions()
    both = [partial(way, lesson, steps) for way in (train_captioner, train_bare_captioner)]
    what = f"captioner, cross-entropy, {steps} steps"
    yield Pair(what, "bare PyTorch", *both, 1.15, clock=WALL)
    for pause, target in ((0.001, 1.5), (0.005, 1.1)):
        reward = Sleeps(pause)
        train_on_rewards(lesson, reward, steps)
        scores = partial(reward, None, [""] * sum(reward.asked))
        what = f"captioner, SCST, {1000 * pause:.0f} ms a caption"
        ours = partial(train_on_rewards, lesson, Sleeps(pause), steps)
        yield Pair(what, "scores alone", ours, scores, target, clock=WALL)


def new_bert_gen(width: int, vocabulary: int) -> BertGen:
    """Return BERT-gen of the size of tiny-bert, with random weights."""
    special = {
        f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")
    }
    ids = {token: i for i, token in enumerate(special.values())}
    words = Tokenizer(WordLevel(ids, unk_token=special["unk_token"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=256, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    return BertGen(tokenizer, BertForMaskedLM(config).eval(), width, torch.Generator())


def bert_gen(*, batch: int = 16, epochs: int = 2) -> Iterator[Pair]:
    """Compare BERT-gen, which reads its data from a column, with a bare loop on data in memory.

    A question has 36 regions and 15 tokens.
    """
    width, regions, vocabulary, count = 64, 36, 400, 20 * batch
    rng = torch.Generator().manual_seed(1)
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]]).expand(regions, 4)
    vectors = torch.randn(count, regions, width, generator=rng)
    seen = [Regions(boxes, of_image, None, None, (10, 10)) for of_image in vectors]
    tokens = torch.randint(5, vocabulary, (count, 15), generator=rng).tolist()
    asked = [Asked(i, [], question) for i, question in enumerate(tokens)]
    column = Column("regions", "value", seen, range(count))
    objects = Objects(column, [str(i) for i in range(count)], ObjectReader(regions))
    examples = StepExamples(asked, objects, captioned=False)
    held = [examples[i] for i in range(count)]
    plan = BertGenTraining(epochs=epochs, batch_size=batch, learning_rate=1e-3)
    parts = TrainedParts(language=True, projection=True)

    def ours() -> None:
        training = StepTraining(new_bert_gen(width, vocabulary), examples, parts, plan, 0)
        Engine.for_tests().train({}, lambda: training, "benchmark")

    def bare() -> None:
        net = new_bert_gen(width, vocabulary).requires_grad_(requires_grad=True)
        adam = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(epochs):
            for rows in torch.randperm(count).split(batch):
                adam.zero_grad()
                net.loss([held[i] for i in rows.tolist()]).backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                adam.step()

    yield Pair(f"BERT-gen, {epochs} epochs", "bare PyTorch", ours, bare, 1.1, clock=WALL)
