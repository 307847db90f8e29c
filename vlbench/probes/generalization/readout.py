"""Known and said: what is read from a model's layers beyond its scores, and beyond random weights.

Conditional probing (Hewitt et al. 2021, arXiv:2109.09234). S are the model's scores of all classes,
L the features of a layer, and R the features of the same layer of the same network with random
weights, in several draws. The same readers (`readers`: linear and nonlinear, chosen on held-out
train rows) read S, [S, L] and [S, R]:

- `gap`: the accuracy read from [S, L] minus the accuracy read from S, paired by image. Its floor
  `random_weights` is the accuracy read from [S, R], mean of the draws, minus that read from S: a
  few scores are compared with many features of the image, so random features also have a gap.
- `gap_beyond_random`: the accuracy read from [S, L] minus that read from [S, R]. Its interval is
  for the difference to one more draw (`beyond_one_more_draw`). A model whose weights are random is
  compared with draws of other seeds.

A finding needs both above 0, by their 95 % intervals; a note states it. The layer is the one with
the largest `gap_beyond_random` on held-out train images, never chosen on test images. A gap is what
a linear probe or a small MLP reads more from the scores and a layer than from the scores, at this
number of images; it can be too small or too large. A large gap is neither good nor bad.

- `said`: the accuracy of the model's choice, by its scores of all classes.
- `said_fitted`: the accuracy read from S, without the model's priors over class names.
- `read_best`: the accuracy read from [S, L].
- `gap_to_said`: `read_best` minus `said`. It includes the priors over class names.
- `said_where_read`, `said_where_not_read`: `said` on the images whose class is read from [S, L],
  and on the others.
- `read`: the accuracy of a linear probe on the features of each layer, without S.
- `read_lost`: the drop of `read` from a layer to the next stage, at the layer with the largest
  drop on held-out train images; a linear probe on S is the last stage.
- `read_knn`: the accuracy of `knn` on the original features of each layer.

Limits. Readers are trained on labels, which the model does not see when it is asked: information
that is read need not be used by the model. `read` has two floors: the accuracy of the same probe on
raw pixels, and on the same layer of the first network with random weights. One of these networks is
in memory at a time, in addition to the model.

The artifact `read_by_train_images` has the accuracy read from [S, L] and from S, by the chosen
readers, for nested parts of the train images.

There is no selectivity (Hewitt and Liang 2019, arXiv:1909.03368): images do not recur, so that
labels drawn per image carry no information about test images, and a control task is at chance for
any features. `description_length` measures the code length of such labels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from vlbench.capabilities import (
    OUTPUT,
    AnswerScorer,
    Classifier,
    DualEncoder,
    ImageEncoder,
    ImageTextScorer,
)
from vlbench.data.records import (
    Column,
    Data,
    Split,
    TrainAndTestRows,
    draw_rows,
    labels,
    require_classes,
)
from vlbench.engine import Engine
from vlbench.engine.layers import ALL, IMAGES, Layers, layers_of
from vlbench.errors import CannotDo, WeightsError
from vlbench.metrics.gains import gain, gain_over_draws
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Examples, Items, Measured, join_items, outcome_of
from vlbench.metrics.ranking import Choice, choose
from vlbench.metrics.scores import measure_items, scored
from vlbench.probes.by_layer import FEW
from vlbench.probes.generalization.categories import class_items
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.linear import train_and_test_labels
from vlbench.probes.generalization.readers import (
    SPLITS,
    Chosen,
    Features,
    HeldOutRows,
    Reader,
    ReaderChoice,
    choose_reader,
    hold_out_rows,
    join_features,
    read,
    readers,
)
from vlbench.probes.generalization.transfer import NOT_CONVERGED
from vlbench.probes.generalization.zero_shot import QUESTION, class_scores
from vlbench.results import Artifact, Outcome, Positive, Score
from vlbench.system.digests import digest

# The last stage, and the column of the scores of all classes.
SCORES = "scores"

# Parts of the train images that also train readers: an eighth, a quarter and a half.
PARTS = (8, 4, 2)

# The width and height that images are resized to for the floor of raw pixels.
PIXELS = 16

NO_CHANCE = "the images are chosen by whether a reader reads their class, so chance is not defined"
NO_RANDOM = (
    "no network with random weights can be made, so a gap could not be told from that of a network "
    "that learned nothing ({}); give an adapter class that takes weights='random' and init_seed"
)
FEW_NOTE = (
    f"fewer than {FEW} train images chose the layer and the readers: they may not be the best"
)

RAW_PIXELS, RANDOM_WEIGHTS = "raw_pixels", "random_weights"

# Credit [N] of the test images by the floors of each layer.
Floors = Mapping[str, Mapping[str, Tensor]]

# A number of draws whose variance is known.
Several = Annotated[int, range(2, sys.maxsize)]

Found = TypeVar("Found")


class OverDraws(Protocol):
    """Calls a function with the number of a draw, from 0, and its network; returns the results."""

    def __call__(self, work: Callable[[int, Network], Found]) -> list[Found]:
        """Return the result for each draw; one network is in memory at a time."""


class Network(NamedTuple):
    """A network, and an engine for each layer, in order of depth, that returns its features."""

    model: ImageEncoder
    engines: Mapping[str, Engine]

    def features(self, layer: str, data: Data) -> dict[str, Tensor]:
        """Return the features [N, D] of both splits at a layer."""
        columns, at = {split: data.splits[split]["image"] for split in SPLITS}, self.engines[layer]
        return {split: at.features(self.model.encode_images, columns[split]) for split in SPLITS}


class Setting(NamedTuple):
    """What readers read and how they are chosen: the data with the model's scores, and readers."""

    data: Data
    held_out: HeldOutRows
    readers: Sequence[Reader]
    engine: Engine

    @property
    def scores(self) -> Features:
        """The scores of all classes, [N, C]."""
        return {split: torch.stack([*self.data.splits[split][SCORES]]) for split in SPLITS}

    def beside_scores(self, network: Network, layer: str) -> Features:
        """Return the scores of all classes and a network's features at a layer, [N, C + D]."""
        return join_features(self.scores, network.features(layer, self.data))

    def choose(self, features: Features) -> Chosen:
        """Return the reader chosen for features, on held-out rows."""
        return choose_reader(features, self.held_out, self.readers, self.engine)

    def read(self, features: Features, reader: Reader) -> ReaderChoice:
        """Return the reading of the test rows."""
        return read(features, self.data, reader, self.engine)

    def choose_by_layer(self, network: Network) -> dict[str, Chosen]:
        """Return the reader chosen for the scores beside each layer of a network."""
        return {layer: self.choose(self.beside_scores(network, layer)) for layer in network.engines}

    def read_by_layer(self, network: Network) -> dict[str, ReaderChoice]:
        """Return the reading of each layer of a network by a linear probe, without the scores."""
        return {
            layer: self.read(network.features(layer, self.data), self.readers[0])
            for layer in network.engines
        }


class Conditional(NamedTuple):
    """What is read from S and from [S, L] at the chosen layer, and the credit of [S, R], [T, N]."""

    layer: str
    readers: Mapping[str, Reader]
    readings: Mapping[str, ReaderChoice]
    random: Tensor

    @property
    def both(self) -> Choice:
        """The choices read from [S, L]."""
        return self.readings[self.layer].choice

    @property
    def scores(self) -> Choice:
        """The choices read from S."""
        return self.readings[SCORES].choice

    def gap(self, metric: str, less: Choice, examples: Examples) -> Measured:
        """Return the accuracy read from [S, L] minus that of other choices; [S, R] is its floor."""
        measured = gain(metric, self.both.credit, less.credit, examples)
        floors = {RANDOM_WEIGHTS: float(self.random.mean() - less.credit.mean())}
        score = replace(measured.score, chance=None, floors=floors, higher_is_better=None)
        return measured._replace(score=score)

    def gap_beyond_random(self, examples: Examples) -> Measured:
        """Return the accuracy read from [S, L] minus that read from [S, R]."""
        measured = gain_over_draws("gap_beyond_random", self.both.credit, self.random, examples)
        return measured._replace(score=replace(measured.score, higher_is_better=None))


def read_conditionally(setting: Setting, network: Network, over: OverDraws) -> Conditional:
    """Return what is read at the layer that is chosen on held-out rows, and at random networks'."""
    of_scores, by_layer = setting.choose(setting.scores), setting.choose_by_layer(network)
    drawn = over(lambda _, other: setting.choose_by_layer(other))
    layer = best_layer(by_layer, drawn)

    def read_random(draw: int, other: Network) -> Tensor:
        features = setting.beside_scores(other, layer)
        return setting.read(features, drawn[draw][layer].reader).choice.credit

    chosen = {layer: by_layer[layer].reader, SCORES: of_scores.reader}
    readings = {
        layer: setting.read(setting.beside_scores(network, layer), chosen[layer]),
        SCORES: setting.read(setting.scores, chosen[SCORES]),
    }
    return Conditional(layer, chosen, readings, torch.stack(over(read_random)))


def best_layer(by_layer: Mapping[str, Chosen], drawn: Sequence[Mapping[str, Chosen]]) -> str:
    """Return the layer with the largest gap beyond random weights on held-out rows."""

    def beyond(layer: str) -> float:
        random = torch.stack([other[layer].credit.mean() for other in drawn])
        return float(by_layer[layer].credit.mean() - random.mean())

    return max(by_layer, key=beyond)


def is_finding(gap: Score, beyond: Score) -> bool:
    """Return whether a gap and the gap beyond random weights are both above 0."""
    return all(score.ci95 is not None and score.ci95[0] > 0 for score in (gap, beyond))


def readout(  # noqa: PLR0913 - tasks fill them by name
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    prompts: list[str] | str = "a photo of a {}.",
    class_names: list[str] | dict[str, str] | str | None = None,
    question: str = QUESTION,
    layers: list[str] | str = ALL,
    weight_decay: float = 5e-4,
    k: Positive = 20,
    seed: int = 0,
    random_draws: Several = 5,
) -> Outcome:
    """Return what is read from a model's layers beyond its scores and beyond random weights.

    A model's scores are its similarities, else matching scores, else log-likelihoods of answers,
    else the logits of its classifier. Raises CannotDo for a model that scores no classes, and for a
    model of which no network with random weights can be made. Raises TooFewRows for a class without
    train images or too few train images to hold some out.

    Args:
        prompts: a prompt with {} for the name, a list of prompts, or a set of open_clip:
            openai_imagenet or simple_imagenet.
        class_names: a list of names, new names by old (`{cat: Katze}`), or the set openai_imagenet;
            None: the names of the data, with blanks for underscores.
        question: question to a generative model; the prompts are its answers.
        layers: names of layers of the image encoder to read, or `all`; for a model without layers
            the output is read.
        weight_decay: weight decay of linear probes, and the smaller of the two that readers try.
        k: number of nearest train images that vote in `read_knn`, 1 or more.
        seed: seed that draws the held-out train images, and parts of the train images.
        random_draws: number of networks with random weights, 2 or more; fewer make the interval of
            `gap_beyond_random` wider.
    """
    if not isinstance(model, DualEncoder | ImageTextScorer | AnswerScorer | Classifier):
        raise CannotDo("the model does not score classes, so there is nothing to compare")
    require_classes(data)
    _, right = train_and_test_labels(data)
    _require_random_weights(model, engine)
    ask = partial(class_scores, prompts=prompts, class_names=class_names, question=question)
    scores = {split: ask(model, data, split, engine) for split in SPLITS}
    splits = {split: with_scores(data.splits[split], scores[split].scores) for split in SPLITS}
    extended = replace(data, splits=splits)
    setting = Setting(extended, hold_out_rows(extended, seed), readers(weight_decay), engine)
    network = Network(model, _engines(model, engine, layers))
    over = partial(_over_draws, setting, network)
    conditional = read_conditionally(setting, network, partial(over, random_draws))
    said = choose(scores["test"].scores, right, log_odds=scores["test"].log_odds)
    by_layer = setting.read_by_layer(network)
    (untrained,) = over(1, lambda _, other: setting.read_by_layer(other))
    pixels = setting.read(_raw_pixels(data, engine), setting.readers[0]).choice.credit
    floors = {
        layer: {RAW_PIXELS: pixels, RANDOM_WEIGHTS: untrained[layer].choice.credit}
        for layer in by_layer
    }
    read_at = {layer: reading.choice for layer, reading in by_layer.items()}
    examples = data.splits["test"]["image"].examples()
    gap = conditional.gap("gap", conditional.scores, examples)
    beyond = conditional.gap_beyond_random(examples)
    measured = [
        *_with_verdict(gap, beyond),
        conditional.gap("gap_to_said", said, examples),
        *_measure(data, said, read_at, conditional, floors),
        *_lost(setting, network, read_at, examples),
    ]
    outcome = outcome_of(measured, {"n": len(right), "ties": int(said.tied.sum())})
    near = scored(Outcome(metrics=[*_read_knn(model, data, network, k)]))
    return replace(
        outcome,
        scores=[*outcome.scores, *near.scores],
        items=join_items([part.items for part in (outcome, near) if part.items is not None]),
        notes=[
            _note_of_verdict(gap.score, beyond.score, conditional.layer),
            *_notes(conditional, by_layer, setting),
            *_notes_of_floors(read_at, floors, examples),
        ],
        artifacts={"read_by_train_images": _read_parts(setting, network, conditional, seed)},
        asked_by=scores["test"].asked_by,
    )


def _require_random_weights(model: ImageEncoder, engine: Engine) -> None:
    """Raise CannotDo for a model of which no network with random weights can be made."""
    try:
        with engine.untrained(model, 1):
            pass
    except (CannotDo, WeightsError) as error:
        raise CannotDo(NO_RANDOM.format(error)) from error


def _over_draws(
    setting: Setting, network: Network, draws: int, work: Callable[[int, Network], Found]
) -> list[Found]:
    """Return the result of a function for each draw of a network with random weights."""

    def at(draw: int) -> Found:
        with setting.engine.untrained(network.model, draw + 1) as other:
            engines = _engines(other, setting.engine, [*network.engines])
            return work(draw, Network(other, engines))

    return [at(draw) for draw in range(draws)]


def _read_parts(
    setting: Setting, network: Network, conditional: Conditional, seed: int
) -> Artifact:
    """Return the accuracy read from S and from [S, L] by the number of train images.

    Parts are stratified by class, and left out if a class of the train images is absent.
    """
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    data = setting.data
    train, rows = data.splits["train"], list[tuple[str, int, ReaderChoice]]()
    classes = len(set(labels(train)))
    for stage, reading in conditional.readings.items():
        is_scores = stage == SCORES
        features = setting.scores if is_scores else setting.beside_scores(network, stage)
        for part in PARTS:
            drawn = draw_rows(train, len(train) // part, seed)
            some = train.select(drawn)
            if len(set(labels(some))) == classes:
                subset = replace(data, splits={**data.splits, "train": some})
                vectors = {**features, "train": features["train"][drawn]}
                reader = conditional.readers[stage]
                rows.append((stage, len(drawn), read(vectors, subset, reader, setting.engine)))
        rows.append((stage, len(train), reading))
    columns = {
        "stage": [stage for stage, _, _ in rows],
        "train_images": [images for _, images, _ in rows],
        "accuracy": [float(reading.choice.credit.mean()) for _, _, reading in rows],
        "converged": [reading.converged for _, _, reading in rows],
    }
    return pa.table(columns)


def _measure(
    data: Data,
    said: Choice,
    read_at: Mapping[str, Choice],
    conditional: Conditional,
    floors: Floors,
) -> list[Measured]:
    """Return the scores of `said` and of readings."""
    test = data.splits["test"]

    def measure(
        metric: str, choice: Choice, floor: Mapping[str, float] | None = None, **at: str
    ) -> Measured:
        return measure_items(class_items(metric, [choice], test, data.classes, at=at, floors=floor))

    return [
        measure("said", said),
        measure("said_fitted", conditional.scores),
        measure("read_best", conditional.both, {RANDOM_WEIGHTS: float(conditional.random.mean())}),
        *(
            measure(
                "read",
                choice,
                {name: float(credit.mean()) for name, credit in floors[layer].items()},
                layer=layer,
            )
            for layer, choice in read_at.items()
        ),
        *_said_where(measure("said", said), conditional.both.credit == 1),
    ]


def with_scores(rows: Split, scores: Tensor) -> Split:
    """Return the rows with the scores of all classes as a column, which `select` keeps."""
    column = Column(digest(scores), "value", [*scores], range(len(scores)))
    return Split({**rows.columns, SCORES: column})


def _engines(model: ImageEncoder, engine: Engine, option: list[str] | str) -> dict[str, Engine]:
    """Return an engine for each layer, in order of depth, that returns its features."""
    layer_names = [option] if isinstance(option, str) else option
    if IMAGES.methods(model) is None and layer_names in ([ALL], [OUTPUT]):
        return {OUTPUT: engine}
    names = layers_of(model, engine.name_of(model), layer_names)
    layers = Layers(model, engine, names)
    return {name: layers.engine_at(name) for name in names}


def _raw_pixels(data: Data, engine: Engine) -> dict[str, Tensor]:
    """Return the pixels of small copies of the images of both splits, float32 [N, D]."""
    key = {"what": "raw pixels"}
    columns = {split: data.splits[split]["image"] for split in SPLITS}
    return {s: torch.stack(engine.map(_pixels, column, key=key)) for s, column in columns.items()}


def _pixels(images: Sequence[Image]) -> list[Tensor]:
    small = (image.convert("RGB").resize((PIXELS, PIXELS), Resampling.BILINEAR) for image in images)
    return [torch.from_numpy(np.asarray(pixels, np.float32).copy()).flatten() for pixels in small]


def _said_where(said: Measured, is_read: Tensor) -> list[Measured]:
    """Return `said` on the images whose class is read, and on the others, if any exist."""
    assert said.examples
    assert said.answers
    right = np.asarray(said.credit)
    measured = []
    for name, part in {"said_where_read": is_read, "said_where_not_read": ~is_read}.items():
        places = part.nonzero().flatten().tolist()
        if places:
            credit = right[places]
            estimate = wilson(float(credit.sum()), len(places))._asdict()
            score = Score(name, n=len(places), unit="fraction", no_chance=NO_CHANCE, **estimate)
            parts = said.examples.select(places), credit, said.answers.select(places)
            measured.append(Measured(score, *parts))
    return measured


def _lost(
    setting: Setting, network: Network, read_at: Mapping[str, Choice], examples: Examples
) -> list[Measured]:
    """Return the drop of `read` after the layer with the largest drop on held-out images."""
    linear = setting.readers[0]

    def held_out(features: Features) -> float:
        return float(
            choose_reader(features, setting.held_out, [linear], setting.engine).credit.mean()
        )

    value = {at: held_out(network.features(at, setting.data)) for at in network.engines}
    value[SCORES] = held_out(setting.scores)
    falls = {pair: value[pair[0]] - value[pair[1]] for pair in pairwise(value)}
    layer, following = max(falls, key=lambda pair: falls[pair])
    if falls[layer, following] <= 0:
        return []
    choices = {**read_at, SCORES: setting.read(setting.scores, linear).choice}
    credit = choices[layer].credit, choices[following].credit
    lost = gain("read_lost", *credit, examples, {"layer": layer})
    return [lost._replace(score=replace(lost.score, higher_is_better=None))]


def _read_knn(model: ImageEncoder, data: Data, network: Network, k: int) -> Iterator[Items]:
    """Yield the choices of `knn` at each layer as `read_knn`."""
    for layer, at in network.engines.items():
        for metric in knn(model, data, at, k=[k]).metrics:
            yield metric._replace(metric="read_knn", at={"layer": layer, **metric.at})


def _with_verdict(gap: Measured, beyond: Measured) -> list[Measured]:
    """Return a gap and the gap beyond random weights with the verdict, which both decide."""
    verdict = "finding" if is_finding(gap.score, beyond.score) else "no finding"
    return [part._replace(score=replace(part.score, verdict=verdict)) for part in (gap, beyond)]


def _note_of_verdict(gap: Score, beyond: Score, layer: str) -> str:
    """Return a note that states whether the gap is a finding, from the intervals."""
    random = f"{len(beyond.draws)} networks with random weights"
    if is_finding(gap, beyond):
        return f"finding: at {layer}, more is read than from the scores, and than from {random}"
    failed = {"the gap": gap, f"the gap beyond {random}": beyond}
    names = [name for name, score in failed.items() if score.ci95 is None or score.ci95[0] <= 0]
    return f"no finding: {' and '.join(names)} {'is' if len(names) == 1 else 'are'} not above 0"


def _notes(
    conditional: Conditional, by_layer: Mapping[str, ReaderChoice], setting: Setting
) -> list[str]:
    """Return notes on the chosen layer and readers, and on how they were chosen."""
    widths = {at: reading.width for at, reading in by_layer.items()}
    widths[SCORES] = conditional.readings[SCORES].width
    numbers = ", ".join(f"{stage} {width}" for stage, width in widths.items())
    held_out = len(setting.held_out.places["test"])
    chosen = ", ".join(
        f"{stage if stage == SCORES else f'scores and {stage}'} {one.kind} ({one.weight_decay:g})"
        for stage, one in conditional.readers.items()
    )
    readings = [*by_layer.values(), *conditional.readings.values()]
    notes = {
        f"layer, chosen on {held_out} held-out train images: {conditional.layer}": True,
        f"readers, with their weight decay, chosen on the same images: {chosen}": True,
        (
            f"readers read {len(setting.data.splits['train'])} train images; numbers per image: "
            f"{numbers}"
        ): True,
        FEW_NOTE: held_out < FEW,
        NOT_CONVERGED: not all(reading.converged for reading in readings),
    }
    return [note for note, holds in notes.items() if holds]


def _notes_of_floors(read: Mapping[str, Choice], floors: Floors, examples: Examples) -> list[str]:
    """Return a note for each floor that `read` does not exceed at some layers."""
    reached: dict[str, list[str]] = {}
    for layer, of_layer in floors.items():
        for floor, credit in of_layer.items():
            if not is_above(read[layer].credit, credit, examples):
                reached.setdefault(floor.replace("_", " "), []).append(layer)
    return [
        (
            f"{floor} reach the accuracy at {', '.join(layers)}, so it does not show what the "
            "model learned"
        )
        for floor, layers in reached.items()
    ]


def is_above(credit: Tensor, floor: Tensor, examples: Examples) -> bool:
    """Return whether the paired 95 % interval of a reading minus its floor is above 0."""
    interval = gain("above", credit, floor, examples).score.ci95
    assert interval
    return interval[0] > 0
