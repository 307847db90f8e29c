"""The captioner of the captioning probes: its features, its training, and its captions.

It is first trained by cross-entropy on the data only, then, for each model under test, by the
model's matching score (SCST, arXiv:2210.09550), so that it generates the model's favourite
captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import ImageTextScorer, RegionEncoder, Regions
from vlbench.data.formats.archives import DAMAGED, read_npy
from vlbench.data.records import Data, Split
from vlbench.data.regions import image_name, image_names, image_number, region_features
from vlbench.data.regions.features import KINDS
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, DataError, SpecError, WeightsError
from vlbench.probes.captioning.captioner_files import (
    LONGEST_CAPTION,
    RARE,
    StoredCaptioner,
    Vocabulary,
    draw_captioner,
    fold_scaling,
    label,
    learn_vocabulary,
    read_captioner,
    restore_captioner,
    spread,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import (
    PAPER_CROSS_ENTROPY,
    PAPER_SELF_CRITICAL,
    CrossEntropy,
    CrossEntropyTraining,
    SelfCritical,
    SelfCriticalTraining,
    TrainingCaptions,
    ValidationCaptions,
)
from vlbench.results import Positive

# How the vectors of an image's regions are pooled.
Pool = Literal["sum", "mean", "none"]

# Number of images whose captions are used to check a vocabulary, and the least fraction of their
# words that must be in it.
ASKED, KNOWN = 200, 0.5


class Captioner(NamedTuple):
    """The captioner of a task, the mapping `captioner` of its YAML.

    `weights` is the folder of a trained captioner of vlbench or ImageCaptioning.pytorch; None: it
    is trained on the data. Its input is `features` in files, or `regions` pooled (see
    `image_features`). `standardize`: features have mean 0 and standard deviation 1 over the
    training images. The vocabulary depends on `punctuation` and `rare` (see `learn_vocabulary`);
    training captions are cut to `most_words`. `embedding` and `hidden` are widths.
    """

    weights: Path | None = None
    regions: Pool = "none"
    features: Path | None = None
    standardize: bool = False
    punctuation: bool = False
    rare: int = RARE
    most_words: Positive = LONGEST_CAPTION
    embedding: Positive = 512
    hidden: Positive = 512
    cross_entropy: CrossEntropy = PAPER_CROSS_ENTROPY
    self_critical: SelfCritical = PAPER_SELF_CRITICAL


def image_features(split: Split, engine: Engine, settings: Captioner) -> Tensor:
    """Return the captioner's input features for the images of a split, float32 [N, D].

    These are the pooled vectors of the split's regions, or `features` of the settings: a folder
    with one NAME.npy per image, or region features, pooled by their mean unless `regions` is sum.
    Raises SpecError if there is neither, DataError for an image without features.
    """
    pool, files = settings.regions, settings.features
    if files is not None:
        return _read_features(split, files, pool)
    if pool == "none":
        raise SpecError(
            "the captioner has no input: give it regions: sum or mean, or files with features"
        )
    return _pool_regions(split, engine, pool)


def with_regions(
    data: Data, encoder: RegionEncoder | None, settings: Captioner, engine: Engine
) -> Data:
    """Return the data with region vectors from an encoder, if there is one.

    Raises SpecError if the captioner reads no regions, DataError for a picture without regions.
    """
    if encoder is None:
        return data
    if settings.regions == "none" or settings.features is not None:
        raise SpecError(
            "the captioner has an encoder but no regions: give it regions: sum or mean and no "
            "features, or remove the encoder"
        )
    seen = {name: engine.encode_regions(encoder, rows) for name, rows in data.splits.items()}
    return replace(data, splits=seen)


def _pool_regions(split: Split, engine: Engine, pool: Pool) -> Tensor:
    """Return the sum or the mean of the vectors of each image's regions."""
    if "regions" not in split.columns:
        raise DataError(
            f"the captioner has regions: {pool}, but the data have no regions (or, with "
            "compare_across_regions, no regions common to all models); give it features or an "
            "encoder"
        )
    function = _sums if pool == "sum" else _means
    return _stack(engine.map(function, split["regions"], key={"what": "pooled regions"}))


def _sums(regions: Sequence[Regions]) -> list[Tensor]:
    return [_vectors(region).sum(0) for region in regions]


def _means(regions: Sequence[Regions]) -> list[Tensor]:
    return [_vectors(region).mean(0) for region in regions]


def _vectors(regions: Regions) -> Tensor:
    if regions.vectors is None or not len(regions.vectors):
        raise DataError("the captioner pools region vectors, but an image has no region vectors")
    return regions.vectors.float()


def _read_features(split: Split, files: Path, pool: Pool) -> Tensor:
    """Return the features of each image in a folder of .npy files or in region features."""
    names, keys = _image_names(split)
    if not files.exists():
        raise DataAbsent("features of images", "the people who made them", str(files))
    if files.is_dir() and not any(file.suffix in KINDS for file in files.iterdir()):
        return _stack([_read_array(files, *pair) for pair in zip(names, keys, strict=True)])
    stored = region_features(files, numbered="id" in split.columns)
    lacking = [name for name, key in zip(names, keys, strict=True) if key not in stored]
    if lacking:
        raise DataError(f"{files.name} has no regions of image {lacking[0]}")
    regions = [stored[key] for key in keys]
    return _stack(_sums(regions) if pool == "sum" else _means(regions))


def _image_names(split: Split) -> tuple[list[str], list[str]]:
    """Return the names of images, and the keys of their features.

    The key is the number of the image in the column `id` if the data have numbers, otherwise the
    whole name. Raises DataError for images without names, and for two names with the same key.
    """
    picture = split["picture"]
    if not picture.names:
        raise DataError("the images have no names, so their features cannot be found")
    names = [picture.names[row] for row in picture.rows]
    if "id" in split.columns:
        return names, [image_number(str(number)) for number in split["id"]]
    return names, image_names(names)


def _read_array(folder: Path, name: str, key: str) -> Tensor:
    """Return the features in NAME.npy or NUMBER.npy, the file names of ImageCaptioning.pytorch."""
    files = [folder / f"{part}.npy" for part in (name.rsplit("/", 1)[-1], image_name(name), key)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise DataError(f"{folder.name} has no features of image {name} ({files[-1].name})")
    try:
        array: Any = read_npy(file)
    except DAMAGED as error:
        raise DataError(f"{file.name} cannot be read ({error}); make it again") from error
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise DataError(f"{file.name} has {array.dtype} {array.shape}, not one axis of numbers")
    return torch.tensor(array, dtype=torch.float32)


def _stack(rows: Sequence[Tensor]) -> Tensor:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1:
        raise DataError(f"features of images have different widths: {widths}")
    features = torch.stack(list(rows)).float()
    if not features.isfinite().all():
        raise DataError("features of images contain numbers that are not finite")
    return features


class Favourites(NamedTuple):
    """A model's favourite captions, in row order, by budget, and statistics of the training.

    `before_last` are the captions of the network before the last epochs of the whole training. The
    history has, by `steps`, mean scores of sampled and greedy captions since the previous entry,
    and the fraction of samples with a nonzero advantage; `share_nonzero_advantage` is this fraction
    over the whole training. `scored` is the number of captions scored in the training.
    """

    captions: dict[int, list[str]]
    before_last: list[str]
    history: list[dict[str, float]]
    share_nonzero_advantage: float
    scored: int


def first_captions(
    data: Data,
    engine: Engine,
    settings: Captioner,
    split: str = "test",
) -> list[str]:
    """Return the greedy captions of the captioner before any reward, in row order."""
    taught = read_or_train(data, engine, settings)
    return _greedy(taught, image_features(data.splits[split], engine, settings), engine)


def favourites(
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    settings: Captioner,
    *,
    seed: int,
) -> Favourites:
    """Return a model's favourite captions of the test split: greedy, after SCST on train.

    `seed` draws the order of images, the samples and dropout; all seeds start from the same
    network.
    """
    taught = read_or_train(data, engine, settings)
    plan, train = settings.self_critical, data.splits["train"]
    features = image_features(train, engine, settings)
    weights, pictures = taught.network.state_dict(), train["picture"]
    sizes = taught.network.sizes
    key: dict[str, Any] = {"what": "self-critical captioner", "model": model, "seed": seed}
    key |= {"weights": weights, "words": list(taught.vocabulary.words), "features": features}
    key |= {"pictures": [pictures.key, list(pictures.rows)], "plan": plan._asdict()}
    key |= {"device": engine.device.type}

    def make() -> SelfCriticalTraining:
        start = taught._replace(network=restore_captioner(weights, sizes))
        reward = PairScorer(model, train, engine).published
        return SelfCriticalTraining(start, features, reward, plan, engine.device, seed=seed)

    result = engine.train(key, make, "captions that the model likes")
    seen = image_features(data.splits["test"], engine, settings)

    def texts_of(weights: Mapping[str, Tensor]) -> list[str]:
        return _greedy(taught._replace(network=restore_captioner(weights, sizes)), seen, engine)

    captions = {budget: texts_of(learned) for budget, learned in result["weights"].items()}
    share, before_last = result["share_with_advantage"], texts_of(result["before_last"])
    return Favourites(captions, before_last, result["history"], share, result["scored"])


def read_or_train(data: Data, engine: Engine, settings: Captioner) -> StoredCaptioner:
    """Return the captioner before any reward: read from its folder, or trained.

    It is trained on the split train and selected on the split val. Raises WeightsError for a folder
    whose captioner has other features or other words than the data.
    """
    train = data.splits["train"]
    # One image is enough to check the features of a trained captioner.
    seen = train if settings.weights is None else train.select(range(min(1, len(train))))
    features = image_features(seen, engine, settings)
    width = features.shape[1]
    about = {"regions": settings.regions, "widths": [width]}
    if settings.weights is None:
        return _train(data, features, engine, settings, about)
    stored = read_captioner(settings.weights)
    expected = {name: stored.about.get(name, about[name]) for name in about}
    if expected != about or stored.network.sizes.features != width:
        other = expected if expected != about else {"features": stored.network.sizes.features}
        raise WeightsError(
            f"the captioner in {settings.weights} was trained with {_describe(other)}; the task "
            f"gives it {_describe(about)}"
        )
    _require_words(stored.vocabulary, train, settings.weights)
    return stored


def _train(
    data: Data,
    features: Tensor,
    engine: Engine,
    settings: Captioner,
    about: dict[str, Any],
) -> StoredCaptioner:
    train, val = data.splits["train"], data.splits["val"]
    taught, references = list(train["captions"]), list(val["captions"])
    exam = image_features(val, engine, settings)
    vocabulary = learn_vocabulary(
        chain.from_iterable(taught), rare=settings.rare, punctuation=settings.punctuation
    )
    plan = settings.cross_entropy
    sizes = Sizes(features.shape[1], len(vocabulary), settings.embedding, settings.hidden)
    mean, deviation = spread(features) if settings.standardize else (0.0, 1.0)
    key: dict[str, Any] = {"what": "cross-entropy captioner", "features": [features, exam]}
    key |= {"captions": [taught, references], "words": list(vocabulary.words)}
    key |= {"sizes": list(sizes), "plan": plan._asdict(), "device": engine.device.type}
    key |= {"standardize": settings.standardize, "most_words": settings.most_words}

    def make() -> CrossEntropyTraining:
        labels = label(vocabulary, taught, most=settings.most_words)
        lesson = TrainingCaptions((features - mean) / deviation, labels, vocabulary)
        validation = ValidationCaptions((exam - mean) / deviation, references)
        weights = draw_captioner(sizes, torch.Generator().manual_seed(plan.seed)).state_dict()
        return CrossEntropyTraining(lesson, validation, weights, plan, engine.device)

    result = engine.train(key, make, "captioner, taught by captions")
    network = restore_captioner(fold_scaling(result["weights"], mean, deviation), sizes)
    return StoredCaptioner(network, vocabulary, about | {"history": result["history"]})


def _greedy(taught: StoredCaptioner, features: Tensor, engine: Engine) -> list[str]:
    return taught.vocabulary.texts(greedy_captions(taught.network.to(engine.device), features))


def _require_words(vocabulary: Vocabulary, split: Split, folder: Path) -> None:
    some = range(min(ASKED, len(split)))
    share = vocabulary.known(text for i in some for text in split["captions"][i])
    if share < KNOWN:
        raise WeightsError(
            f"the captioner in {folder} knows {share:.0%} of the words of the data's captions: "
            "its vocabulary belongs to another captioner or to other data"
        )


def _describe(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in about.items())
