"""Tiny masked language models, and a tokenizer of a few words, for visual question generation."""

from collections.abc import Sequence

import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from vlbench.capabilities import Regions
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.probes.question_generation.bert_gen import BertGen
from vlbench.probes.question_generation.inputs import (
    ObjectReader,
    Objects,
    Texts,
    pairs_of,
    select_asked,
)
from vlbench.probes.question_generation.steps import TrainingData, Trainings
from vlbench.probes.question_generation.training import BertGenTraining
from vlbench.system.digests import digest

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
KINDS = ("bert", "roberta", "distilbert")


def tokenizer(words: Sequence[str], *, without: str = ""):
    """Return a tokenizer of these words and the special tokens but one."""
    special = {f"{k}_token": t for k, t in SPECIAL.items() if k != without}
    ids = {token: i for i, token in enumerate([*special.values(), *words])}
    told = Tokenizer(WordLevel(ids, unk_token=SPECIAL["unk"]))
    told.pre_tokenizer = pre_tokenizers.Whitespace()
    told.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=told, **special)


WORDS, WIDTH = tokenizer([f"w{i}" for i in range(25)]), 6


def bert_gen(kind: str = "bert", **options):
    """Return a small network of 25 words that reads regions of six numbers."""
    rng = torch.Generator().manual_seed(1)
    return BertGen(WORDS, masked_lm(kind, **options), WIDTH, rng)


def weights(network):
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def masked_lm(
    kind: str = "bert",
    *,
    vocabulary: int = 30,
    attention: str = "eager",
    spread: float = 0.5,
    **options,
):
    """Return a masked language model with seeded random weights, in evaluation mode."""
    common = {
        "vocab_size": vocabulary,
        "max_position_embeddings": 64,
        "attn_implementation": attention,
    }
    sizes = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    others = {
        "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "dropout": 0.0,
        "attention_dropout": 0.0,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "distilbert":
            net = DistilBertForMaskedLM(DistilBertConfig(**common | others | options))
        else:
            config, net_class = {
                "bert": (BertConfig, BertForMaskedLM),
                "roberta": (RobertaConfig, RobertaForMaskedLM),
            }[kind]
            net = net_class(config(**common | sizes | options))
        # Wider than usual by default, so that what should differ does.
        for weight in net.parameters():
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=spread)
    return net.eval()


class Speaks:
    """A text model that is a masked language model, and nothing else."""

    def __init__(self, words, module) -> None:
        self.words, self.module = words, module

    def masked_lm(self):
        return self.words, self.module


CLASSES = tuple(f"thing{k}" for k in range(6))
TOY_WORDS = tokenizer(["a", "what", "is", "the", "?", "here", *CLASSES])
TOY_TEXTS = Texts(TOY_WORDS, 3, 8)
REGION_WIDTH = 8


def toy_model(**options) -> Speaks:
    """Return a BERT that soon learns the toy language."""
    sizes = {"hidden_size": 32, "max_position_embeddings": 24, "spread": 0.1} | options
    return Speaks(TOY_WORDS, masked_lm(vocabulary=len(TOY_WORDS), **sizes))


def toy_world(train=60, test=24, *, change=None, seed=0) -> Data:
    """Return images of one thing each: its region, a caption and a question that name it.

    `change` takes and returns the regions of the first train image.
    """
    rng = torch.Generator().manual_seed(seed)
    looks = torch.randn(len(CLASSES), REGION_WIDTH, generator=rng)
    counts = {"train": train, "test": test}
    splits = {}
    for split, count in counts.items():
        named = [CLASSES[i % len(CLASSES)] for i in range(count)]
        regions = [_toy_regions(looks[i % len(CLASSES)], rng) for i in range(count)]
        if change and split == "train":
            regions[0] = change(regions[0])
        pictures = [Image.new("RGB", (20, 10)) for _ in range(count)]
        columns = {
            "regions": Column(digest([split, seed, looks]), "value", regions, range(count)),
            "image": Column(f"image {split}", "image", pictures, range(count)),
            "captions": value_column([[f"{name} here", f"a {name} here"] for name in named]),
            "questions": value_column([[f"what is the {name} ?"] * 2 for name in named]),
            "names": value_column([[name] for name in named]),
        }
        splits[split] = Split(columns)
    return Data(splits=splits)


def toy_asked(count=4):
    """Return the train images of a small toy world, with their captions and questions."""
    return select_asked(toy_world(count, count).splits["train"], ())


def toy_trainings(count=4, *, engine=None, seed=0) -> Trainings:
    """Return the steps of a toy model, each of which is trained for one batch of `count`."""
    found = toy_asked(count)
    objects = Objects(found.split["regions"], found.ids, ObjectReader(2))
    material = TrainingData(pairs_of(found, TOY_TEXTS), objects, "toy", REGION_WIDTH)
    plan = BertGenTraining(epochs=1, batch_size=4, learning_rate=0.01)
    engine = engine or Engine.for_tests()
    return Trainings(toy_model(), engine, material, plan, TOY_TEXTS, seed=seed)


def _toy_regions(look, rng) -> Regions:
    vectors = torch.stack([look, torch.zeros_like(look)])
    vectors += 0.1 * torch.randn(vectors.shape, generator=rng)
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 0.0, 20.0, 10.0]])
    return Regions(boxes, vectors, torch.tensor([0.9, 0.5]), None, (20, 10))


def changed(before, after):
    """Return the names of the weights that are others."""
    return {name for name in before if not torch.equal(before[name], after[name])}
