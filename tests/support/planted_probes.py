"""Every shipped probe with a small planted world, and a model that knows what is planted there.

`tests/probes/test_promises.py` asks every promise of every line of LINES; a probe without a line
fails there. A line says which promises its probe is excused from, and why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any

import caption_world
import named_world
import pytest
import torch
from attack_fakes import SmallNet
from attack_fakes import noise as noise_images
from fakes import PlantedFeatures, labelled_images
from foil_fakes import Answers, Sees, foil_rows, question_rows
from grounding_fakes import Needs, Plan, Planted, data_of, foils_and_scenes, two_things
from named_world import drawn
from question_fakes import toy_model, toy_world

from vlbench.capabilities import TokenVectors
from vlbench.data.corpora import WordTests, with_corpus
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.engine.engine import KnownModel
from vlbench.probes.captioning.caption_templates import caption_templates
from vlbench.probes.captioning.favourites import caption_cross, caption_patterns
from vlbench.probes.captioning.noun_count import noun_count
from vlbench.probes.captioning.noun_replacement import noun_replacement
from vlbench.probes.generalization.classification import classification
from vlbench.probes.generalization.clustering import clustering
from vlbench.probes.generalization.description_length import description_length
from vlbench.probes.generalization.few_shot import few_shot
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.readout import readout
from vlbench.probes.generalization.robustness import robustness
from vlbench.probes.generalization.rpgd import Descent
from vlbench.probes.generalization.rsa import rsa, rsa_text
from vlbench.probes.generalization.similarity import (
    caption_similarity,
    similarity,
    text_similarity,
)
from vlbench.probes.generalization.skip_gram import SkipGram
from vlbench.probes.generalization.transfer import transfer
from vlbench.probes.generalization.word_similarity import word_similarity
from vlbench.probes.generalization.word_space import word_space
from vlbench.probes.generalization.zero_shot import zero_shot
from vlbench.probes.generalization.zero_shot_projection import (
    ProjectionTraining,
    zero_shot_projection,
)
from vlbench.probes.grounding.ablation import ablation
from vlbench.probes.grounding.entity_grounding import entity_grounding
from vlbench.probes.grounding.syntactic_grounding import (
    syntactic_grounding,
    syntactic_grounding_things,
)
from vlbench.probes.matching.choice import choice
from vlbench.probes.matching.questions import questions as matching_questions
from vlbench.probes.matching.retrieval import retrieval, retrieval_in_pools
from vlbench.probes.question_generation.question_generation import Questions, question_generation
from vlbench.probes.question_generation.training import BertGenTraining
from vlbench.probes.vsep.network import VsepTraining
from vlbench.probes.vsep.object_label_alignment import object_label_alignment
from vlbench.probes.vsep.patch_retrieval import Pools, patch_retrieval
from vlbench.probes.vsep.zero_shot_alignment import (
    zero_shot_alignment,
    zero_shot_alignment_regions,
)
from vlbench.run.task import model_parameter

CLASSES = 3
EACH = (9, 5, 10, 8, 8, 8)  # images of each class


@dataclass(frozen=True)
class World:
    """A model, its data, and the arguments of its probe."""

    model: Any
    data: Data
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A probe, its world, and the promises that it is excused from, with the reasons.

    The world's model fills the parameter `under_test`, by default the first.
    """

    probe: Callable[..., Any]
    world: Callable[[Path, pytest.MonkeyPatch], World]
    excused: Mapping[str, str] = field(default_factory=dict)
    under_test: str = ""

    def __str__(self) -> str:
        """Return the name of the probe, and of the parameter under test if it is not the first."""
        return "_".join(filter(None, [self.probe.__name__, self.under_test]))

    def ask(self, model: Any, data: Data, engine: Engine, **params: Any) -> Any:
        """Return what the probe returns for a model under test."""
        given = params | {model_parameter(self.probe, self.under_test): model}
        return self.probe(given.pop(model_parameter(self.probe)), data, engine, **given)


# Images of classes


@wraps(readout)
def readout_beside_noise(model: Any, data: Data, engine: Engine, **options: Any) -> Any:
    """Run `readout` beside networks with random weights whose features are noise."""

    def draw(number: int) -> tuple[Any, str]:
        return PlantedFeatures(drawn(*model.features.shape, seed=number)), f"draw {number}"

    engine._known[id(model)] = KnownModel("planted", untrained=draw)
    return readout(model, data, engine, random_draws=2, **options)


class Knows(PlantedFeatures):
    """Sees the class of each image behind some noise, reads its name, and classifies."""

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        numbers = [int("".join(filter(str.isdigit, text)) or 0) for text in texts]
        return torch.eye(self.features.shape[1])[[n % self.features.shape[1] for n in numbers]]

    def similarity(self, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        return images @ texts.T

    def logits(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.encode_images(pixels)[:, :CLASSES]

    def class_names(self) -> list[str]:
        return [f"class {i}" for i in range(CLASSES)]


def identified(split: Split, name: str) -> Split:
    """Return the split with a digest for each of its images."""
    columns = dict(split.columns)
    for kind in {"image", "picture", "named"} & set(columns):
        count = len(columns[kind].stored)
        digests = [f"sha256:{name}{i:03}" for i in range(count)]
        columns[kind] = replace(columns[kind], digests=digests)
    return Split(columns)


def identified_images(data: Data) -> Data:
    splits = {name: identified(split, name) for name, split in data.splits.items()}
    return replace(data, splits=splits)


def classes(count: int = CLASSES, noise: float = 0.7, **params: Any) -> Callable[..., World]:
    """Return a world of labelled images whose features are their class, and noise."""
    data = identified_images(labelled_images(*EACH[:count]))
    label = torch.arange(count).repeat_interleave(torch.tensor(EACH[:count])).repeat(2)
    features = torch.eye(max(count, CLASSES))[label] + noise * drawn(
        len(label), max(count, CLASSES)
    )
    return lambda _folder, _patch: World(Knows(features), data, params)


class Vectors(PlantedFeatures):
    """Another model, to compare with."""

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return self.features[[int(text.split()[-1].rstrip(".")) for text in texts]]


def pairs_of_models(texts_of: str) -> Callable[..., World]:
    images = labelled_images(1, test=[40])
    test = identified(images.splits["test"], "test")
    captions = value_column([f"image {i}" for i in range(40)], "text")
    data = replace(images, splits={"test": Split({**test.columns, "caption": captions})})
    seen = drawn(41, 6)
    other = seen + 0.5 * drawn(41, 6, seed=1)
    # The first image trains; texts are numbered from the first test image.
    model = Vectors(seen[1:] if texts_of == "both" else seen)
    companion = Vectors(other[1:] if texts_of == "one" else other)
    return lambda *_: World(model, data, {"companion": companion, "k": 3, "blocks": 5})


def projection(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    words = 3 * torch.nn.functional.normalize(drawn(20, 4), dim=1)
    features = (words @ drawn(4, 4, seed=1)).repeat_interleave(4, 0)
    training = ProjectionTraining(epochs=10)
    params = {"words": Vectors(words), "trials": 3, "training": training}
    return World(Knows(features, features), identified_images(labelled_images(*[4] * 20)), params)


class Words:
    """Encodes texts as the vector of their last number."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return self.vectors[[int("".join(filter(str.isdigit, text)) or 0) for text in texts]]


def class_names(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    names = [f"thing{i}, thing{i + 10}" for i in range(8)]
    return World(Prefixes(drawn(8, 5)), Data(splits={}, classes=names))


class Prefixes:
    """Encodes a text as the vector of the last digit in it, and noise of the text."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        numbers = [[int(c) for c in text if c.isdigit()][-1] for text in texts]
        noise = [drawn(self.vectors.shape[1], seed=len(text)) for text in texts]
        return self.vectors[numbers] + 0.3 * torch.stack(noise)


def word_pairs(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    vectors = drawn(12, 4)
    both = [(i, j) for i in range(12) for j in range(i)]
    cosine = torch.nn.functional.cosine_similarity
    scores = [float(cosine(vectors[i], vectors[j], dim=0)) for i, j in both]
    columns = {
        "word_a": value_column([f"w{i}" for i, _ in both], "text"),
        "word_b": value_column([f"w{j}" for _, j in both], "text"),
        "score": value_column(scores),
    }
    return World(Words(vectors), Data(splits={"test": Split(columns)}))


OTHERS = ["ape", "bee", "cow", "doe", "elk", "fox", "gnu", "hen"]


def corpus(folder: Path, _patch: pytest.MonkeyPatch) -> World:
    names = ["dog", "boat", "chair"]
    rng = torch.Generator().manual_seed(0)
    words = [*OTHERS, *names]
    lines = torch.randint(len(words), (40, 12), generator=rng).tolist()
    texts = [" ".join(words[i] for i in line) for line in lines]
    (folder / "corpus.txt").write_text("\n".join(texts))
    asked = [": family", "ape bee cow doe", "cow doe elk fox", "bee cow doe elk"]
    (folder / "questions.txt").write_text("\n".join([*asked, ": gram1", "ape cow bee doe"]))
    pairs = [f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(itertools.pairwise(OTHERS))]
    (folder / "pairs.txt").write_text("\n".join(pairs))
    images = identified_images(labelled_images(4, 4, 4, classes=names))
    shown = [names[label] for label in labels(images.splits["test"]).tolist()]
    files = [folder / name for name in ("corpus.txt", "questions.txt", "pairs.txt")]
    data = with_corpus(images, shown, WordTests(files[0], files[1], [files[2]]))
    skip_gram = SkipGram(vector_size=2, epochs=2)
    return World(Knows(drawn(24, 3)), data, {"skip_gram": skip_gram, "vocabulary": 11})


def attacked(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    data = identified_images(noise_images(12))
    params = {
        "epsilons": {"linf": [0.05]}, "target_offset": 1, "sample": None,
        "attack": Descent(steps=2),
    }  # fmt: skip
    return World(SmallNet(), data, params)


# Captions


def captions_of(*names: str) -> Callable[..., World]:
    def build(folder: Path, _patch: pytest.MonkeyPatch) -> World:
        shown = [caption_world.REFERENCES[i % 2] for i in range(8)]
        told = [caption_world.CAPTIONS[i % 2] for i in range(8)]
        params = {"captions": caption_world.results(folder, told)} if "captions" in names else {}
        if "k" in names:
            params["k"] = [1, 2]
        model = caption_world.Taste(caption_world.right_nouns)
        return World(model, identified_images(caption_world.world(shown)), params)

    return build


def favourites(*names: str) -> Callable[..., World]:
    def build(_folder: Path, patch: pytest.MonkeyPatch) -> World:
        def one(number: int) -> str:
            return f"a {caption_world.things(number)[0]}"

        def both(number: int) -> str:
            return "a image of a {} and a {}".format(*caption_world.things(number))

        caption_world.plant(patch, one, both, both)
        model = caption_world.Likes(caption_world.nouns_of_the_image)
        params = {"captioner": caption_world.NO_CAPTIONER, "metrics": ["cider"]}
        if "scorers" in names:
            params["scorers"] = [OtherTaste(caption_world.constant)]
        return World(model, identified_images(caption_world.captioned()), params)

    return build


class OtherTaste(caption_world.Likes):
    """A model of another name."""


# Objects with names

NAMES = [f"thing{i}" for i in range(6)]
DIRECTIONS = torch.linalg.qr(drawn(8, 8)).Q[:6]
TRAINING = VsepTraining(epochs=15, batch_size=32, seeds=1)


class NamedWords(named_world.StaticWords):
    """Gives each thing its direction, and each text some noise of its own."""

    def _encode(self, text: str) -> TokenVectors:
        spans, vectors = super()._encode(text)
        return TokenVectors(spans, vectors + 0.2 * drawn(*vectors.shape, seed=len(text) % 7))


def named(*, regions: bool = False, held_out: bool = False, pools: bool = False) -> Any:
    def build(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
        known = NAMES[:-1] if held_out else NAMES
        train = [[(name, name)] for name in known] * 12
        pairs = [(a, b) for a in NAMES for b in NAMES if a != b]
        test = [[(a, a), (b, b)] for a, b in pairs]
        order = [NAMES.index(name) for image in [*train, *test] for name, _ in image]
        seen = DIRECTIONS[order] + 0.2 * drawn(len(order), 8, seed=2)
        words = NamedWords(
            dict(zip(NAMES, DIRECTIONS @ torch.linalg.qr(drawn(8, 8, seed=9)).Q, strict=True))
        )
        data = identified_images(named_world.world(train, test, seen))
        params: dict[str, Any] = {"training": TRAINING}
        if not pools:
            params["objects"] = [2]
        if held_out:
            params["held_out"] = NAMES[-1:]
        if pools:
            params["pools"] = Pools(size=10, k=[1])
        if regions:
            return World(named_world.Detects(lambda found: found), data, {**params, "words": words})
        return World(words, data, params)

    return build


# Attention, pairs and questions


def needed(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    params = {"each": ["layer"], "best_heads": 1, "windows": 1, "ranked_on": "phrases"}
    return World(Needs((1, 2)), foils_and_scenes(), params)


def attended(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    scenes = [two_things(i, i % 4, (i + 1 + i // 4) % 4) for i in range(12)]
    model = Planted({(0, 0): Plan(images=9), (1, 1): Plan(images=5)})
    return World(model, identified_images(data_of(scenes)), {"examples": 0})


def foils(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    return World(Sees(), identified_images(foil_rows()))


def asked(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    return World(Answers(), identified_images(question_rows(range(60))))


def towers(scored: bool) -> Callable[..., World]:
    from vlbench.capabilities import Picture

    images = labelled_images(1, test=[12]).splits["test"]
    pictures = [Picture(image, None) for image in images["image"]]
    columns = {
        "image": images["image"],
        "picture": Column("pictures", "picture", pictures, range(12)),
        "captions": value_column([[f"{2 * i} said", f"{2 * i + 1} said"] for i in range(12)]),
    }
    data = identified_images(Data(splits={"test": Split(columns)}))
    seen = drawn(12, 6)
    texts = seen.repeat_interleave(2, 0) + 0.8 * drawn(24, 6, seed=1)
    model = Towers(torch.cat([seen[:1], seen]), texts)
    return lambda *_: World(
        PairsOf(model) if scored else model, data, {"k": [1, 3]} | ({"pool": 6} if scored else {})
    )


class Towers(PlantedFeatures):
    """Sees image number i as row i of one table, and reads text number i as row i of another."""

    def __init__(self, images: torch.Tensor, texts: torch.Tensor) -> None:
        super().__init__(images)
        self.texts = texts

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return self.texts[[int(text.split()[0]) for text in texts]]

    def similarity(self, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        return images @ texts.T


class PairsOf:
    """Scores pairs as two towers do."""

    def __init__(self, model: Towers) -> None:
        self.model = model

    def score_pairs(self, pictures: Sequence[Any], texts: Sequence[str]) -> torch.Tensor:
        pixels = torch.stack([self.model.preprocess(picture.image) for picture in pictures])
        found = self.model.encode_images(pixels), self.model.encode_texts(texts)
        return self.model.similarity(*found).diagonal()


def questions(_folder: Path, _patch: pytest.MonkeyPatch) -> World:
    training = BertGenTraining(epochs=1, batch_size=10, learning_rate=0.01)
    params = {"questions": Questions(max_question=8), "training": training, "metrics": ["cider"]}
    return World(toy_model(), identified_images(toy_world(12, 6)), params)


# Why promises do not hold of some probes
NO_ITEMS = {"items": "correlations are no means over items", "answers": "it has no items"}
NO_ANSWERS = {"answers": "the credit of an item comes from more than one choice"}
NO_ROWS = dict.fromkeys(("copies", "few", "order", "cache"), "it reads names of classes alone")
BY_PLACE = {"order": "what is drawn with a seed is drawn by the place of a row"}
FEW_WORDS = {
    "few": "corpus and questions are one row each, a file",
    "constant": "skip-gram learns something of seven pairs from any corpus",
}
IN_A_FILE = {"copies": "a file has the captions, and none of copies"}
PLANTED = {
    "constant": "the captions are planted, and not those that the model likes",
    "order": "captions are planted by place",
    "copies": "captions are planted by place",
    "few": "a language model of captions refuses none by itself",
    "cache": "trainings are stored whole, which tests/engine/test_training.py asks",
}
CANDIDATES = {"copies": "a copy is one more candidate"}
NO_TRAINING = {"constant": "what two trainings on noise prefer is no chance of either"}

ASKS = {
    "constant": "a language model that was trained for one step asks nothing",
    "finite": "a language model is trained, and gives no list of outputs",
    "copies": "scores of corpora have the errors of images, copies among them",
    "cache": PLANTED["cache"],
}

LINES = [
    Line(classification, classes()),
    Line(clustering, classes()),
    Line(description_length, classes(), NO_ANSWERS),
    Line(few_shot, classes(shots=[1], trials=3)),
    Line(knn, classes(k=[1, 3])),
    Line(
        readout_beside_noise,
        classes(prompts="{}", k=1),
        {"constant": "networks of noise, which it is compared with, may be below chance"},
    ),
    Line(robustness, attacked, {"noise": "noise has no gradient to attack with"}),
    Line(rsa, classes(6), NO_ITEMS | BY_PLACE),
    Line(
        rsa_text,
        class_names,
        NO_ITEMS | NO_ROWS,
    ),
    Line(similarity, pairs_of_models("none"), NO_ITEMS),
    Line(caption_similarity, pairs_of_models("one"), NO_ITEMS),
    Line(text_similarity, pairs_of_models("both"), NO_ITEMS),
    Line(transfer, classes()),
    Line(word_similarity, word_pairs, NO_ITEMS | {"copies": "it has no images"}),
    Line(
        word_space,
        corpus,
        FEW_WORDS,
    ),
    Line(zero_shot, classes(prompts="{}")),
    Line(zero_shot_projection, projection),
    Line(choice, foils),
    Line(matching_questions, asked, BY_PLACE),
    Line(retrieval, towers(scored=False), CANDIDATES),
    Line(retrieval_in_pools, towers(scored=True), CANDIDATES | BY_PLACE),
    Line(caption_templates, captions_of("captions"), IN_A_FILE),
    Line(
        noun_replacement,
        captions_of("captions"),
        {"copies": "a file has the captions"} | NO_ANSWERS,
    ),
    Line(noun_count, captions_of("k"), BY_PLACE | {"copies": BY_PLACE["order"]}),
    Line(caption_patterns, favourites(), PLANTED),
    Line(caption_cross, favourites("scorers"), PLANTED),
    Line(ablation, needed),
    Line(entity_grounding, attended, {"answers": "a head that points chooses no region"}),
    Line(syntactic_grounding, attended),
    Line(syntactic_grounding_things, attended),
    Line(object_label_alignment, named()),
    Line(object_label_alignment, named(regions=True), under_test="regions"),
    Line(patch_retrieval, named(pools=True), CANDIDATES | NO_ANSWERS),
    Line(
        patch_retrieval,
        named(pools=True, regions=True),
        CANDIDATES | NO_ANSWERS,
        under_test="regions",
    ),
    Line(zero_shot_alignment, named(held_out=True)),
    Line(zero_shot_alignment_regions, named(held_out=True, regions=True), NO_TRAINING),
    Line(question_generation, questions, ASKS),
]

# Those that tell classes of labelled images apart.
WITH_CLASSES = (
    "classification", "clustering", "description_length", "few_shot", "knn", "readout",
    "robustness", "rsa", "transfer", "zero_shot", "zero_shot_projection",
)  # fmt: skip
