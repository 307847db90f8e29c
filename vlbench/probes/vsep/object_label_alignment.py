"""Object-label alignment of regions with the words that name them. arXiv:2107.12021, 4.1, 4.2.

`accuracy` is the fraction of regions whose own word is the most similar word of their image. For a
static encoder (whose word vectors do not depend on the text), the word is the name of the
fine-grained class; `accuracy_caption_form`, only for static encoders, uses the word forms of
captions, in training and in test. `accuracy_hungarian` assigns each word to one region,
`accuracy_no_layer_norm` omits layer normalisation (table 1), `accuracy_template` uses the class in
"A photo of a {label}" instead of the caption, and `template_drop` is the resulting drop in accuracy
(table 3). The floor `shuffled_words` is a network trained on pairs whose words were shuffled.

`selectivity`, if requested, is the accuracy minus the accuracy of a network at a control task
(Hewitt and Liang 2019, arXiv:1909.03368). In the control task each word vector is moved, in
training and in test, from the mean of its class to the mean of another class, drawn once, so that a
network can only memorise the assignment. The contribution of the caption to a word vector is
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.engine.layers import TOKENS
from vlbench.engine.training import ONE_TRAINING
from vlbench.metrics.items import Items
from vlbench.metrics.ranking import Choice, without_answer
from vlbench.probes.by_layer import Trials, layered
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    ObjectSets,
    SplitRows,
    Splits,
    assigned_words,
    chosen_words,
    complete,
    gather,
    region_items,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders
from vlbench.probes.vsep.network import PAPER_TRAINING, TrainedVsep, VsepTraining
from vlbench.results import Outcome, Positive


def choose_on_train(data: Data, options: Mapping[str, Any]) -> Trials:
    """Yield the same data with the train splits' images of several objects as test images.

    Networks are trained on images of one object. Yields nothing if a train split is also tested on.
    """
    splits: Splits = options.get("splits", TRAIN_AND_TEST)
    if not {*splits.train} & {*splits.test}:
        yield data, {**options, "splits": splits._replace(test=splits.train)}


@layered(lambda _: TOKENS, trials_of=choose_on_train)
def object_label_alignment(  # noqa: PLR0913 - the YAML fills all but three
    words: TokenEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    regions: Detector | RegionEncoder | None = None,
    floor: RegionEncoder | None = None,
    boxes: Boxes = ALL_BOXES,
    objects: Sequence[Positive] = (2, 3, 4),
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
    selectivity: bool = False,
) -> Outcome:
    """Return how often a region's own word is most similar, for each number of `objects`.

    Networks are trained on images of one object, and tested on the others. For each of the
    `layers`, networks are trained separately, after a pass over the captions. The interval of
    `selectivity` does not include the draw of the control task, which is the same for all seeds,
    nor of the classes: an interval above 0 is no finding (see docs/statistics.md). Raises
    TooFewRows if a set of images is empty, and CannotDo if the model has no vector for any word.

    Args:
        words: word encoder that computes word vectors.
        regions: detector or region encoder that computes region vectors; None: the data have region
            vectors.
        floor: other region encoder, such as one of colours, whose accuracy is a floor; None: no
            such floor.
        boxes: `source` of the boxes for a region encoder, gold or detected; least `confidence` of
            detected regions.
        objects: numbers of objects in a test image, each 2 or more, each with its own score.
        splits: `train` splits, whose images of one object train, and `test` splits, whose other
            images test.
        training: `epochs`, `batch_size`, and `seeds` trainings, from `seed` on; scores are means
            over them.
        selectivity: whether `selectivity` is scored, which needs another training.
        layers: names of layers of the word encoder to score, or `all`; None scores the output.
    """
    encoders = ObjectEncoders(words, regions, boxes)
    sets = gather(encoders, data, engine, objects, splits)
    floors = {}
    if floor:
        blind = gather(ObjectEncoders(words, floor, boxes), data, engine, objects, splits)
        nets = train_on(blind.train, engine, training)
        name = engine.name_of(floor).replace("-", "_")
        floors = {n: {name: _choose(nets, o)} for n, o in blind.tests.items()}
    return _align(encoders, sets, engine, training, floors, selectivity=selectivity)


# A promised name; a task that gives it must say `under_test: regions`.
object_label_alignment_regions = object_label_alignment


def _align(
    encoders: ObjectEncoders,
    sets: ObjectSets,
    engine: Engine,
    training: VsepTraining,
    floors: Mapping[int, Mapping[str, Choice]],
    *,
    selectivity: bool,
) -> Outcome:
    nets = train_on(sets.train, engine, training)
    unnormed = train_on(sets.train, engine, training, layer_normed=False)
    shuffled = train_on(sets.train, engine, training, shuffled=True)
    metrics: list[Items] = []
    left_out = 0
    for n, objects in sets.tests.items():
        cosines = similarities(nets, objects)
        choice, assigned = chosen_words(cosines), assigned_words(cosines)
        blind = {"shuffled_words": _choose(shuffled, objects), **floors.get(n, {})}
        prompts = [[sets.names.prompted[name.word] for name in row] for row in objects.named]
        rows = complete(prompts)
        left_out += len(objects.named) - len(rows)
        prompted, kept = _choose(nets, objects.with_words(prompts)), objects.select(rows)
        lost = choice.credit[:, rows] - prompted.credit
        metrics += [
            region_items("accuracy", objects, choice, blind),
            region_items("accuracy_hungarian", objects, assigned, has_words=False),
            region_items("accuracy_no_layer_norm", objects, _choose(unnormed, objects)),
            region_items("accuracy_template", kept, prompted),
            _difference("template_drop", kept, lost)._replace(higher_is_better=False),
        ]
    if selectivity:
        control = _with_words_of_others(sets, training.seed)
        trained = train_on(control.train, engine, training)
        for n, objects in sets.tests.items():
            gain = _choose(nets, objects).credit - _choose(trained, control.tests[n]).credit
            metrics.append(_difference("selectivity", objects, gain))
    if sets.names.static:
        metrics += _caption_forms(sets, engine, training)
    counts = sets.counts | {"oov_template_images": left_out}
    notes = [encoders.note, sets.names.note, ONE_TRAINING * (training.seeds == 1)]
    return Outcome(metrics=metrics, counts=counts, notes=notes)


def _difference(metric: str, objects: Objects, paired: Tensor) -> Items:
    """Return paired differences of credits [T, I, n], which may be negative."""
    items = region_items(metric, objects, without_answer(paired), has_words=False)
    options = items.options._replace(chance=0.0)
    return items._replace(options=options, range=(-1.0, 1.0), n=len(objects.images))


def _with_words_of_others(sets: ObjectSets, seed: int) -> ObjectSets:
    """Return the objects with each word moved from its class's mean to another class's mean.

    Classes are exchanged by a permutation without fixed points, drawn by the seed. Means are over
    the objects of all sets. A word taken from another caption would carry the contribution of that
    caption, so that the words of an image would differ in a way that they do not differ in the
    task.
    """
    rng, every = np.random.default_rng(seed), [sets.train, *sets.tests.values()]
    owned: dict[str, list[Tensor]] = {}
    for objects in every:
        for named, words in zip(objects.named, objects.words, strict=True):
            for name, vector in zip(named, words, strict=True):
                owned.setdefault(name.word, []).append(vector)
    classes = rng.permutation(sorted(owned)).tolist()
    means = {word: torch.stack(vectors).mean(0) for word, vectors in owned.items()}
    others = zip(classes, [*classes[1:], classes[0]], strict=True)
    shifts = {word: means[other] - means[word] for word, other in others}

    def changed(objects: Objects) -> Objects:
        words = [
            [vector + shifts[name.word] for name, vector in zip(named, row, strict=True)]
            for named, row in zip(objects.named, objects.words, strict=True)
        ]
        return objects.with_words(words)

    train, *tests = (changed(objects) for objects in every)
    return sets._replace(train=train, tests=dict(zip(sets.tests, tests, strict=True)))


def _choose(nets: Sequence[TrainedVsep], objects: Objects) -> Choice:
    """Return the word [T, I, n] that each network chooses for each region."""
    return chosen_words(similarities(nets, objects))


def _caption_forms(sets: ObjectSets, engine: Engine, training: VsepTraining) -> list[Items]:
    """Return the credit with words as captions write them, over images whose words have a form."""
    tests = [objects for objects in sets.tests.values() if complete(objects.forms)]
    if not complete(sets.train.forms):
        return []
    nets = train_on(sets.train.with_words(sets.train.forms), engine, training)
    as_captions = [objects.with_words(objects.forms) for objects in tests]
    return [region_items("accuracy_caption_form", one, _choose(nets, one)) for one in as_captions]
