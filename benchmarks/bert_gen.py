"""Measure BERT-gen: training in one pass, decoding with kept keys, and what the probe adds.

One pass: a step of 36 regions and 15 tokens a question against T masked copies of each question;
the target is 8 times as fast. Decoding: 1,000 questions against a plain loop of whole passes; the
target is 2 times as fast. Probe: training through the engine, with its data read from a column,
against a bare PyTorch loop on examples in memory; the target is a ratio of at most 1.1. Each is the
fastest of some rounds: other programs only slow down.
"""

import time
from collections.abc import Callable, Sequence

import torch
from measuring import Against, compare, seconds
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from vlbench.capabilities import Regions
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.probes.question_generation.bert_gen import (
    BertGen,
    Example,
    Inputs,
    Source,
    greedy,
    left_to_right,
)
from vlbench.probes.question_generation.inputs import Examples, ObjectReader, Objects, Pair
from vlbench.probes.question_generation.training import BertGenTraining, StepTraining, TrainedParts

WIDTH, REGIONS, TOKENS, VOCABULARY = 64, 36, 15, 400
BATCH, ROUNDS, QUESTIONS = 16, 2, 1000
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LEARNS = TrainedParts(language=True, projection=True)


def network() -> BertGen:
    """Return BERT-gen of the size of tiny-bert, with random weights."""
    ids = {token: i for i, token in enumerate(SPECIAL.values())}
    words = Tokenizer(WordLevel(ids, unk_token=SPECIAL["unk"]))
    named = {f"{kind}_token": token for kind, token in SPECIAL.items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **named)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=256, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    return BertGen(tokenizer, BertForMaskedLM(config).eval(), WIDTH, torch.Generator())


def regions(count: int) -> list[Regions]:
    """Return the regions of images."""
    rng = torch.Generator().manual_seed(1)
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]]).expand(REGIONS, 4)
    vectors = torch.randn(count, REGIONS, WIDTH, generator=rng)
    return [Regions(boxes, own, None, None, (10, 10)) for own in vectors]


def pairs(count: int) -> list[Pair]:
    """Return a question of each image."""
    rng = torch.Generator().manual_seed(2)
    tokens = torch.randint(5, VOCABULARY, (count, TOKENS), generator=rng).tolist()
    return [Pair(i, [], own) for i, own in enumerate(tokens)]


def examples(count: int) -> Examples:
    """Return images with a question each, as the probe reads them."""
    named = [str(i) for i in range(count)]
    column = Column("regions", "value", regions(count), range(count))
    return Examples(pairs(count), Objects(column, named, ObjectReader(REGIONS)), captioned=False)


def least(job: Callable[[], object]) -> float:
    """Return the least wall time of some calls."""
    return min(seconds(job, time.perf_counter) for _ in range(ROUNDS))


def copies(net: BertGen, batch: Sequence[Example]) -> None:
    """Compute the loss and the gradients from one masked copy for each token, all in one batch."""
    told = [Example(one.source, one.question[: t + 1]) for one in batch for t in range(TOKENS)]
    prefix = net.read([one.source for one in told])
    tokens = torch.full((len(told), TOKENS), net.marks.mask)
    for row, one in enumerate(told):
        tokens[row, : len(one.question) - 1] = torch.tensor(one.question[:-1])
    embedded = torch.cat([prefix.embedded, net.module.get_input_embeddings()(tokens)], 1)
    positions = net.positions(prefix, torch.arange(TOKENS))
    inputs = Inputs(embedded, positions, left_to_right(prefix.valid, TOKENS))
    last = prefix.valid.shape[1] + torch.tensor([len(one.question) - 1 for one in told])
    logits = net.run(inputs, (torch.arange(len(told)), last)).logits
    cross_entropy(logits, torch.tensor([one.question[-1] for one in told])).backward()


def measure_one_pass() -> None:
    """Print how many times faster one pass is than masked copies."""
    net, given = network(), examples(BATCH)
    batch = [given[i] for i in range(BATCH)]
    once = least(lambda: net.loss(batch).backward())
    many = least(lambda: copies(net, batch))
    print(f"one pass {once:.3f} s, masked copies {many:.3f} s: {many / once:.1f} times; target 8")


def measure_decoding() -> None:
    """Print how many times faster kept keys are than whole passes."""
    net, objects = network(), examples(QUESTIONS).objects
    given = [Source(objects[i]) for i in range(QUESTIONS)]
    batches = [given[i : i + 32] for i in range(0, QUESTIONS, 32)]
    kept, whole = (
        least(lambda keep=keep: [greedy(net, b, TOKENS, keep_keys=keep) for b in batches])
        for keep in (True, False)
    )
    print(f"{QUESTIONS} questions: kept keys {kept:.2f} s, whole passes {whole:.2f} s: ", end="")
    print(f"{whole / kept:.1f} times; target 2")


def bare(net: BertGen, given: Sequence[Example], epochs: int) -> None:
    """Train in plain PyTorch on examples in memory."""
    net.requires_grad_(requires_grad=True)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(given)).split(BATCH):
            adam.zero_grad()
            net.loss([given[i] for i in rows.tolist()]).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()


def measure_probe() -> None:
    """Compare training with a bare loop."""
    count, plan = 20 * BATCH, BertGenTraining(epochs=2, batch_size=BATCH, learning_rate=1e-3)
    kept = examples(count)
    held = [kept[i] for i in range(count)]

    def through_engine() -> None:
        training = StepTraining(network(), examples(count), LEARNS, plan, 0)
        Engine.for_tests().train({}, lambda: training, "benchmark")

    compare(
        Against(f"BERT-gen, {plan.epochs} epochs", "bare PyTorch", 1.1),
        through_engine,
        lambda: bare(network(), held, plan.epochs),
        ROUNDS,
        time.perf_counter,
    )


if __name__ == "__main__":
    measure_one_pass()
    measure_decoding()
    measure_probe()
