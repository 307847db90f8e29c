"""The captioner of the captioning probes: what it sees, how it is trained, and what it says.

First taught by cross-entropy, on the data alone; then, for each model under test, by the model's
own matching score (SCST, arXiv:2210.09550), which makes it say the model's favourite captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import ImageEncoder, ImageTextScorer
from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.errors import WeightsError
from vlbench.nets.captioner import FcCaptioner, Sizes, greedy_captions
from vlbench.nets.captioner_cross_entropy import (
    PAPER_CROSS_ENTROPY,
    CrossEntropy,
    CrossEntropyTraining,
    Exam,
    Lesson,
)
from vlbench.nets.captioner_files import StoredCaptioner, read_captioner
from vlbench.nets.captioner_self_critical import (
    PAPER_SELF_CRITICAL,
    Policy,
    SelfCritical,
    SelfCriticalTraining,
)
from vlbench.nets.captioner_weights import restored, spread, unscaled
from vlbench.nets.captioner_words import MOST_WORDS, RARE, Vocabulary, label, learn_vocabulary
from vlbench.probes.captioning.image_features import Pool, image_features
from vlbench.probes.captioning.scoring import PairScorer

# Images whose captions tell whether a vocabulary is that of the data, and the fraction of their
# words that it has to know.
ASKED, KNOWN = 200, 0.5


class Captioner(NamedTuple):
    """The captioner of a task, the mapping `captioner` of its YAML.

    `weights` is the folder of a trained one, vlbench's or ImageCaptioning.pytorch's; None: it is
    trained on the data. It sees the task's encoders, and the `regions` of the data or `features` in
    files (see `image_features`). `standardize` gives features mean 0 and deviation 1 over the
    training images before training. Words are told apart by `punctuation` and `rare` (see
    `learn_vocabulary`); captions are learnt up to `most_words`. `embedding` and `hidden` are
    widths.
    """

    weights: Path | None = None
    regions: Pool = "none"
    features: Path | None = None
    standardize: bool = False
    punctuation: bool = False
    rare: int = RARE
    most_words: int = MOST_WORDS
    embedding: int = 512
    hidden: int = 512
    cross_entropy: CrossEntropy = PAPER_CROSS_ENTROPY
    self_critical: SelfCritical = PAPER_SELF_CRITICAL


class Favourites(NamedTuple):
    """A model's favourite captions, in row order, and how they were found.

    The history has, by `steps`, mean scores of sampled and of greedy captions since the entry
    before, and the share of samples with an advantage that is not zero; that of the whole training
    is `share_nonzero_advantage`. So many captions were `scored` in it.
    """

    captions: list[str]
    history: list[dict[str, float]]
    share_nonzero_advantage: float
    scored: int


def first_captions(
    data: Data,
    engine: Engine,
    encoders: Sequence[ImageEncoder],
    settings: Captioner,
    split: str = "test",
) -> list[str]:
    """Return the greedy captions of the captioner before any model rewarded it, in row order."""
    taught = taught_captioner(data, engine, encoders, settings)
    seen = torch.cat(_features(data.splits[split], engine, encoders, settings), 1)
    return _greedy(taught, taught.network, seen, engine)


def favourites(
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    encoders: Sequence[ImageEncoder],
    settings: Captioner,
    *,
    seed: int,
) -> Favourites:
    """Return a model's favourite captions of the split test: greedy, after SCST on train.

    `seed` draws the order of images, the samples and dropout; the training starts from the same
    network for each.
    """
    taught = taught_captioner(data, engine, encoders, settings)
    plan, train = settings.self_critical, data.splits["train"]
    features = torch.cat(_features(train, engine, encoders, settings), 1)
    weights = taught.network.state_dict()
    key: dict[str, Any] = {"what": "self-critical captioner", "model": model, "seed": seed}
    key |= {"weights": weights, "words": list(taught.vocabulary.words), "features": features}
    key |= {"pictures": _identity(train), "plan": plan._asdict(), "device": engine.device.type}

    def make() -> SelfCriticalTraining:
        policy = Policy(restored(weights, taught.network.sizes), taught.vocabulary)
        reward = PairScorer(model, train, engine)
        return SelfCriticalTraining(policy, features, reward, plan, engine.device, seed=seed)

    found = engine.train(key, make, "captions that the model likes")
    seen = torch.cat(_features(data.splits["test"], engine, encoders, settings), 1)
    network = restored(found["weights"], taught.network.sizes)
    captions = _greedy(taught, network, seen, engine)
    return Favourites(captions, found["history"], found["share_with_advantage"], found["scored"])


def taught_captioner(
    data: Data, engine: Engine, encoders: Sequence[ImageEncoder], settings: Captioner
) -> StoredCaptioner:
    """Return the captioner before any model rewarded it: read from its folder, or trained.

    Trained on the split train, chosen on the split val. Raises WeightsError for a folder whose
    captioner sees other features or knows other words than those of the data.
    """
    train = data.splits["train"]
    # Of a captioner that is ready, one image tells whether it sees these features.
    seen = train if settings.weights is None else train.select(range(min(1, len(train))))
    parts = _features(seen, engine, encoders, settings)
    widths = [part.shape[1] for part in parts]
    about = {"regions": settings.regions, "widths": widths}
    if settings.weights is None:
        return _trained(data, torch.cat(parts, 1), engine, encoders, settings, about)
    stored = read_captioner(settings.weights)
    expected = {name: stored.about.get(name, about[name]) for name in about}
    if expected != about or stored.network.sizes.features != sum(widths):
        told = expected if expected != about else {"features": stored.network.sizes.features}
        raise WeightsError(
            f"the captioner in {settings.weights} was trained with {_told(told)}; the task gives "
            f"it {_told(about)}"
        )
    _require_words(stored.vocabulary, train, settings.weights)
    return stored


def _trained(
    data: Data,
    features: Tensor,
    engine: Engine,
    encoders: Sequence[ImageEncoder],
    settings: Captioner,
    about: dict[str, Any],
) -> StoredCaptioner:
    train, val = data.splits["train"], data.splits["val"]
    taught, references = list(train["captions"]), list(val["captions"])
    exam = torch.cat(_features(val, engine, encoders, settings), 1)
    vocabulary = learn_vocabulary(
        (text for several in taught for text in several),
        rare=settings.rare,
        punctuation=settings.punctuation,
    )
    widths, plan = (settings.embedding, settings.hidden), settings.cross_entropy
    mean, deviation = spread(features) if settings.standardize else (0.0, 1.0)
    key: dict[str, Any] = {"what": "cross-entropy captioner", "features": [features, exam]}
    key |= {"captions": [taught, references], "words": list(vocabulary.words)}
    key |= {"widths": list(widths), "plan": plan._asdict(), "device": engine.device.type}
    key |= {"standardize": settings.standardize, "most_words": settings.most_words}

    def make() -> CrossEntropyTraining:
        labels = label(vocabulary, taught, most=settings.most_words)
        lesson = Lesson((features - mean) / deviation, labels, vocabulary)
        return CrossEntropyTraining(
            lesson, Exam((exam - mean) / deviation, references), widths, plan, engine.device
        )

    found = engine.train(key, make, "captioner, taught by captions")
    sizes = Sizes(features.shape[1], len(vocabulary), *widths)
    network = restored(unscaled(found["weights"], mean, deviation), sizes)
    return StoredCaptioner(network, vocabulary, about | {"history": found["history"]})


def _features(
    split: Split, engine: Engine, encoders: Sequence[ImageEncoder], settings: Captioner
) -> list[Tensor]:
    return image_features(
        split, engine, encoders, regions=settings.regions, files=settings.features
    )


def _greedy(
    taught: StoredCaptioner, network: FcCaptioner, features: Tensor, engine: Engine
) -> list[str]:
    return taught.vocabulary.texts(greedy_captions(network.to(engine.device), features))


def _identity(split: Split) -> list[Any]:
    """Return what tells the pictures of a split from others."""
    column = split["picture"]
    return [column.key, list(column.rows)]


def _require_words(vocabulary: Vocabulary, split: Split, folder: Path) -> None:
    some = range(min(ASKED, len(split)))
    known = vocabulary.known(text for i in some for text in split["captions"][i])
    if known < KNOWN:
        raise WeightsError(
            f"the captioner in {folder} knows {known:.0%} of the words of the data's captions: its "
            "vocabulary is that of another captioner, or of other data"
        )


def _told(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in about.items())
