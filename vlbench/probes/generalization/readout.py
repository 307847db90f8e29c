"""Known and said: the accuracy of a linear probe on a model's features, and of the model itself.

`said` is the accuracy of the model's choice, by its scores of all classes. `read` is the accuracy
of a linear probe on the features of a layer. `said_fitted` is the accuracy of the same probe,
trained on the same images, on the scores of all classes. A model with priors over class names may
say less than it knows although its scores contain the information; `said_fitted` removes the
priors. Layers and scores are the stages of a model. The best stage is chosen on held-out train
images, never on test images: the best layer if it beats the scores by more than the standard error
of the paired difference, otherwise the scores. Layers chosen by a smaller margin were often worse
than the scores on test images (docs/statistics.md).

- `read_best`: the accuracy that is read at the best stage.
- `gap`: `read_best` minus `said_fitted`, paired by image; 0 if the scores are the best stage.
- `gap_to_said`: `read_best` minus `said`. It includes the priors over class names.
- `said_where_read`, `said_where_not_read`: `said` on the images whose class is read at the best
  stage, and on the others.
- `read_lost`: the drop of `read` from a layer to the next stage, at the layer with the largest
  drop on held-out train images.

Limits. A probe is trained on labels, which the model does not see when it is asked: information
that is read need not be used by the model. A gap is a lower bound at this number of train images:
more images or another probe may read more.

Each layer has two floors: the accuracy of the same probe on raw pixels, and on the same layer of
the same network with random weights, drawn once with the adapter's seed. A reading that does not
exceed a floor, by the paired 95 % interval, is not evidence of knowledge. The second network is
loaded in addition to the first, which doubles the memory.

The artifact `read_by_train_images` has the accuracy of the best stage and of the scores for nested
parts of the train images.

There is no selectivity (Hewitt and Liang 2019, arXiv:1909.03368): images do not recur, so that
labels drawn per image carry no information about test images, and a control task is at chance for
any features. `description_length` measures the code length of such labels.

The probe is the optimum that `transfer` finds by L-BFGS. Departure: each feature, and the scores of
each class, are first standardised over the train images, because similarities differ by hundredths
and log-likelihoods by tens, and weight decay must penalise all stages equally. `read_knn` is the
accuracy of `knn` on the original features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

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
from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.engine.layers import ALL, IMAGES, Layers, layers_of
from vlbench.errors import CannotDo, WeightsError
from vlbench.metrics.gains import gain
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Examples, Measured, items_as, join_items, outcome_of, under
from vlbench.metrics.ranking import TIED, Choice, all_equal, choose
from vlbench.probes.by_layer import FEW, hold_out, run_trials
from vlbench.probes.generalization.categories import measured_choice
from vlbench.probes.generalization.knn import knn
from vlbench.probes.generalization.linear import (
    LinearTraining,
    classify,
    train_and_test_labels,
    train_linear_probe_once,
    zero_probe,
)
from vlbench.probes.generalization.transfer import NOT_CONVERGED
from vlbench.probes.generalization.zero_shot import QUESTION, class_scores
from vlbench.results import Artifact, Outcome, Positive, Score

# The last stage, and the column of the scores of all classes.
SCORES = "scores"

SPLITS = ("train", "test")

# Parts of the train images that also train probes: an eighth, a quarter and a half.
PARTS = (8, 4, 2)

# The width and height that images are resized to for the floor of raw pixels.
PIXELS = 16

NO_CHANCE = "the images are chosen by whether a probe reads their class, so chance is not defined"
NOTHING_MORE = (
    "no layer is read better than the scores of all classes by more than a standard error, so "
    "the gap is 0"
)
FEW_NOTE = f"fewer than {FEW} train images chose the best stage: it may not be the best"
UNMEASURED = "the floor of random weights was not measured: "

RAW_PIXELS, RANDOM_WEIGHTS = "raw_pixels", "random_weights"

# Credit [N] of the test images by the floors of each layer.
Floors = Mapping[str, Mapping[str, Tensor]]


class Reading(NamedTuple):
    """The choices of a linear probe for test images, and the number of features per image."""

    choice: Choice
    width: int
    converged: bool


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
) -> Outcome:
    """Return the accuracy read at each stage of a model, the accuracy said, and their gap.

    A model's scores are its similarities, else matching scores, else log-likelihoods of answers,
    else the logits of its classifier. Raises CannotDo for a model that scores no classes, and
    TooFewRows for a class without train images or too few train images to hold some out.

    Args:
        prompts: a prompt with {} for the name, a list of prompts, or a set of open_clip:
            openai_imagenet or simple_imagenet.
        class_names: a list of names, new names by old (`{cat: Katze}`), or the set openai_imagenet;
            None: the names of the data, with blanks for underscores.
        question: question to a generative model; the prompts are its answers.
        layers: names of layers of the image encoder to read, or `all`; for a model without layers
            the output is read.
        weight_decay: weight decay of the linear probes.
        k: number of nearest train images that vote in `read_knn`, 1 or more.
        seed: seed that draws the held-out train images, and parts of the train images.
    """
    if not isinstance(model, DualEncoder | ImageTextScorer | AnswerScorer | Classifier):
        raise CannotDo("the model does not score classes, so there is nothing to compare")
    require_classes(data)
    train_label, right = train_and_test_labels(data)
    ask = partial(class_scores, prompts=prompts, class_names=class_names, question=question)
    scores = {split: ask(model, data, split, engine) for split in SPLITS}
    splits = {split: with_scores(data.splits[split], scores[split].scores) for split in SPLITS}
    known = replace(data, splits=splits)
    training = LinearTraining(optimizer="lbfgs", weight_decay=weight_decay)
    engines = _engines(model, engine, layers)
    stages = Stages(model, engine, engines, training)
    held_out = read_held_out(stages, known, seed)
    best = best_stage(held_out)
    readings = stages.read_all(known)
    said = choose(scores["test"].scores, right, log_odds=scores["test"].log_odds)
    pixels = _read(_raw_pixels(data, engine), data, engine, training).choice.credit
    untrained, unmeasured = _read_untrained(stages, known)
    floors = {layer: {RAW_PIXELS: pixels} | untrained.get(layer, {}) for layer in engines}
    read = {stage: reading.choice for stage, reading in readings.items()}
    counts = {"n": len(right), "ties": int(said.tied.sum())}
    outcome = outcome_of(_measure(data, said, read, best, held_out, floors), counts)
    examples = data.splits["test"]["image"].examples()
    curve = _read_parts(stages, known, {stage: readings[stage] for stage in (best, SCORES)}, seed)
    near = [_read_knn(knn(model, data, at, k=[k]), layer) for layer, at in engines.items()]
    return replace(
        outcome,
        scores=[*outcome.scores, *(score for own in near for score in own.scores)],
        items=join_items([own.items for own in [outcome, *near] if own.items is not None]),
        notes=[
            *_notes(best, held_out[best].score.n, readings, len(train_label)),
            *_notes_of_floors(read, floors, examples),
            *unmeasured,
        ],
        artifacts={"read_by_train_images": curve},
        asked_by=scores["test"].asked_by,
    )


class Stages(NamedTuple):
    """The layers of a model with the engines that return their features, and settings of probes."""

    model: ImageEncoder
    engine: Engine
    engines: Mapping[str, Engine]
    training: LinearTraining

    def features(self, stage: str, data: Data) -> dict[str, Tensor]:
        """Return the features [N, D] of both splits at a layer, or the scores of all classes."""
        if stage == SCORES:
            return {split: torch.stack([*data.splits[split][SCORES]]) for split in SPLITS}
        columns, at = {split: data.splits[split]["image"] for split in SPLITS}, self.engines[stage]
        return {split: at.features(self.model.encode_images, columns[split]) for split in SPLITS}

    def read(self, stage: str, data: Data) -> Reading:
        """Return the reading of a layer, or of the scores."""
        return _read(self.features(stage, data), data, self.engine, self.training)

    def read_all(self, data: Data) -> dict[str, Reading]:
        """Return the reading of each layer, one layer in memory at a time, and of the scores."""
        return {stage: self.read(stage, data) for stage in (*self.engines, SCORES)}


def _read_untrained(stages: Stages, data: Data) -> tuple[dict[str, dict[str, Tensor]], list[str]]:
    """Return each layer's features with random weights, or a note that explains their absence."""
    try:
        network = stages.engine.untrained(stages.model)
    except (CannotDo, WeightsError) as error:
        return {}, [f"{UNMEASURED}{error}"]
    engines = _engines(network, stages.engine, [*stages.engines])
    untrained = stages._replace(model=network, engines=engines)
    credit = {layer: untrained.read(layer, data).choice.credit for layer in engines}
    return {layer: {RANDOM_WEIGHTS: own} for layer, own in credit.items()}, []


def read_held_out(stages: Stages, data: Data, seed: int) -> dict[str, Measured]:
    """Return the accuracy read at each stage on held-out train images."""

    def read(rows: Data, _: object) -> dict[str, Measured]:
        require_classes(rows)
        return {
            stage: measured_choice("read", reading.choice, rows.splits["test"], data.classes)
            for stage, reading in stages.read_all(rows).items()
        }

    held_out = run_trials(read, hold_out(data, {"seed": seed}))
    assert held_out, "the data have a train split"
    return held_out


def best_stage(held_out: Mapping[str, Measured]) -> str:
    """Return the layer with the best reading on held-out images, or the scores.

    A layer is chosen only if it beats the scores by more than the standard error of the paired
    difference.
    """
    layer = max(
        [name for name in held_out if name != SCORES], key=lambda name: held_out[name].score.value
    )
    of, scores = held_out[layer], held_out[SCORES]
    assert of.examples
    more = gain("more", of.credit, scores.credit, of.examples).score
    return layer if more.value > (more.stderr or 0) else SCORES


def _read_parts(stages: Stages, data: Data, whole: Mapping[str, Reading], seed: int) -> Artifact:
    """Return the accuracy of stages by the number of train images; `whole` is read from all.

    Parts are stratified by class, and left out if a class of the train images is absent.
    """
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    train, rows = data.splits["train"], list[tuple[str, int, Reading]]()
    classes = len(set(labels(train)))
    for stage, reading in whole.items():
        features = stages.features(stage, data)
        for part in PARTS:
            drawn = draw_rows(train, len(train) // part, seed)
            some = train.select(drawn)
            if len(set(labels(some))) == classes:
                known = replace(data, splits={**data.splits, "train": some})
                own = {**features, "train": features["train"][drawn]}
                rows.append((stage, len(drawn), _read(own, known, stages.engine, stages.training)))
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
    read: Mapping[str, Choice],
    best: str,
    held_out: Mapping[str, Measured],
    floors: Floors,
) -> list[Measured]:
    """Return the scores of `said`, of readings at each stage, and of their gaps."""
    test = data.splits["test"]
    examples = test["image"].examples()

    def measure(metric: str, choice: Choice, stage: str = SCORES, **at: str) -> Measured:
        of_stage = {name: float(own.mean()) for name, own in floors.get(stage, {}).items()}
        return measured_choice(metric, choice, test, data.classes, at=at, floors=of_stage)

    gaps = {"gap": read[SCORES], "gap_to_said": said}
    return [
        *(gain(name, read[best].credit, of.credit, examples) for name, of in gaps.items()),
        measure("said", said),
        measure("said_fitted", read[SCORES]),
        measure("read_best", read[best], best),
        *(measure("read", read[stage], stage, layer=stage) for stage in read if stage != SCORES),
        *_said_where(measure("said", said), read[best].credit == 1),
        *_lost(held_out, read, examples),
    ]


def with_scores(rows: Split, scores: Tensor) -> Split:
    """Return the rows with the scores of all classes as a column, which `select` keeps."""
    column = Column(digest(scores), "value", [*scores], range(len(scores)))
    return Split({**rows.columns, SCORES: column})


def _engines(model: ImageEncoder, engine: Engine, asked: list[str] | str) -> dict[str, Engine]:
    """Return an engine for each layer, in order of depth, that returns its features."""
    wanted = [asked] if isinstance(asked, str) else asked
    if IMAGES.methods(model) is None and wanted in ([ALL], [OUTPUT]):
        return {OUTPUT: engine}
    names = layers_of(model, engine.name_of(model), wanted)
    layers = Layers(model, engine, names)
    return {name: layers.engine_at(name) for name in names}


def _read(
    features: Mapping[str, Tensor], data: Data, engine: Engine, training: LinearTraining
) -> Reading:
    """Return the reading of a linear probe on [N, D] features of the train and test images.

    All classes are tied if all test images have the same features, as in `transfer`.
    """
    train_label, test_label = train_and_test_labels(data)
    size = (len(data.classes), features["train"].shape[1])
    train, test = standardise(features["train"], features["test"])
    if all_equal(features["test"]):
        probe = zero_probe(*size)
    else:
        probe = train_linear_probe_once(engine, train, train_label, size, training)
    converged = bool(probe.get("converged", True))
    return Reading(classify(probe, test, test_label), size[1], converged)


def standardise(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Return features float32 [N, D] of mean 0 and variance 1 over the train rows.

    A feature that is constant over the train rows, within 1e-6 of its value, is 0 in both.

    Example:
        >>> train, test = torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([[1.0, 6.0]])
        >>> [part.tolist() for part in standardise(train, test)]
        [[[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0]]]
    """
    spread, mean = torch.std_mean(train.double(), 0, correction=0)
    varies = spread > TIED * train.double().abs().amax(0)
    scale = torch.where(varies, 1 / spread, 0.0)
    whole, other = (((part.double() - mean) * scale).float() for part in (train, test))
    return whole, other


def _raw_pixels(data: Data, engine: Engine) -> dict[str, Tensor]:
    """Return the pixels of small copies of the images of both splits, float32 [N, D]."""
    key = {"what": "raw pixels"}
    columns = {split: data.splits[split]["image"] for split in SPLITS}
    return {s: torch.stack(engine.map(_pixels, one, key=key)) for s, one in columns.items()}


def _pixels(images: Sequence[Image]) -> list[Tensor]:
    small = (one.convert("RGB").resize((PIXELS, PIXELS), Resampling.BILINEAR) for one in images)
    return [torch.from_numpy(np.asarray(one, np.float32).copy()).flatten() for one in small]


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
            own = said.examples.select(places), credit, said.answers.select(places)
            measured.append(Measured(score, *own))
    return measured


def _lost(
    held_out: Mapping[str, Measured], read: Mapping[str, Choice], examples: Examples
) -> list[Measured]:
    """Return the drop of `read` after the layer with the largest drop on held-out images."""
    value = {stage: measured.score.value for stage, measured in held_out.items()}
    falls = {pair: value[pair[0]] - value[pair[1]] for pair in pairwise(value)}
    layer, following = max(falls, key=lambda pair: falls[pair])
    if falls[layer, following] <= 0:
        return []
    credit = read[layer].credit, read[following].credit
    return [gain("read_lost", *credit, examples, {"layer": layer})]


def _read_knn(outcome: Outcome, layer: str) -> Outcome:
    """Return the accuracy of `knn` at a layer as `read_knn`."""
    (score,) = outcome.scores
    assert outcome.items is not None
    items = items_as(outcome.items, score.metric, score.at, "read_knn")
    renamed = replace(score, metric="read_knn", at={"layer": layer, **score.at})
    return Outcome([renamed], items=under(items, {"layer": layer}))


def _notes(best: str, held_out: int, readings: Mapping[str, Reading], train: int) -> list[str]:
    """Return notes on the best stage, and on how it was chosen."""
    widths = ", ".join(f"{stage} {reading.width}" for stage, reading in readings.items())
    notes = {
        f"best stage, chosen on {held_out} held-out train images: {best}": True,
        f"probes read {train} train images; numbers per image: {widths}": True,
        NOTHING_MORE: best == SCORES,
        FEW_NOTE: held_out < FEW,
        NOT_CONVERGED: not all(reading.converged for reading in readings.values()),
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
