"""Object-label alignment: does a region fit the word that names it? arXiv:2107.12021, 4.1, 4.2.

`accuracy` is the fraction of regions that fit their own word best among the words of their image.
The word of a static encoder (one that gives words the same vectors in any text) is the name of the
fine-grained class; `accuracy_caption_form`, for such encoders alone, has the words as captions
write them, in training and in test. `accuracy_hungarian` gives each word to one region,
`accuracy_no_layer_norm` leaves layer normalisation out (table 1), `accuracy_template` has the class
in "A photo of a {label}" in place of the caption, and `template_drop` is the accuracy lost by that
(table 3). The floor `shuffled_words` is a network trained on pairs whose words were shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.metrics.statistics import bootstrap_ratio
from vlbench.nets.vsep import PAPER_TRAINING, TrainedVsep, VsepTraining
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    ObjectSets,
    Splits,
    assigned_words,
    chosen_words,
    complete,
    gather,
    region_score,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders
from vlbench.results import Outcome, Score


def object_label_alignment(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder,
    data: Data,
    engine: Engine,
    *,
    regions: Detector | RegionEncoder | None = None,
    boxes: Boxes = ALL_BOXES,
    objects: Sequence[int] = (2, 3, 4),
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
) -> Outcome:
    """Return how often a region fits its own word best, in images of so many `objects`.

    `regions` encodes regions (None: the data have region vectors); a region encoder is given the
    gold or the detected `boxes` of the data. Networks are trained on images of one object, and
    tested on the others. Raises TooFewRows where a set of images is empty, CannotDo where the model
    has no vector for any word.
    """
    encoders = ObjectEncoders(model, regions, boxes)
    sets = gather(encoders, data, engine, objects, splits)
    return _align(encoders, sets, engine, training)


def object_label_alignment_regions(  # noqa: PLR0913 - the YAML fills all but three
    model: Detector | RegionEncoder,
    data: Data,
    engine: Engine,
    *,
    words: TokenEncoder,
    boxes: Boxes = ALL_BOXES,
    objects: Sequence[int] = (2, 3, 4),
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
) -> Outcome:
    """Return the same with the region encoder under test, and a word encoder as companion."""
    encoders = ObjectEncoders(words, model, boxes)
    sets = gather(encoders, data, engine, objects, splits)
    return _align(encoders, sets, engine, training)


def _align(
    encoders: ObjectEncoders, sets: ObjectSets, engine: Engine, training: VsepTraining
) -> Outcome:
    net = train_on(sets.train, engine, training)
    unnormed = train_on(sets.train, engine, training, layer_normed=False)
    shuffled = train_on(sets.train, engine, training, shuffled=True)
    scores: list[Score] = []
    counts = {"ties": 0, "oov_template_images": 0}
    for n, objects in sets.tests.items():
        cosines = similarities(net, objects.regions, objects.words)
        choice = chosen_words(cosines)
        floors = {"shuffled_words": float(_credit(shuffled, objects).mean())}
        scores += [
            region_score("accuracy", choice.credit, n, floors, training.seed),
            region_score("accuracy_hungarian", assigned_words(cosines), n, {}, training.seed),
            region_score(
                "accuracy_no_layer_norm", _credit(unnormed, objects), n, {}, training.seed
            ),
        ]
        prompts = [[sets.names.prompted[name.word] for name in row] for row in objects.named]
        rows = complete(prompts)
        counts["oov_template_images"] += len(objects.named) - len(rows)
        prompted = _credit(net, objects.with_words(prompts))
        scores += _template_scores(choice.credit[rows], prompted, n, training.seed)
        counts["ties"] += int(choice.tied.sum())
    if sets.names.static:
        scores += _caption_form_scores(sets, engine, training)
    notes = [encoders.note, sets.names.note]
    return Outcome(scores=scores, counts=sets.counts | counts, notes=notes)


def _credit(net: TrainedVsep, objects: Objects) -> Tensor:
    """Return the credit [I, n] of each region."""
    return chosen_words(similarities(net, objects.regions, objects.words)).credit


def _caption_form_scores(sets: ObjectSets, engine: Engine, training: VsepTraining) -> list[Score]:
    """Return the accuracy with words as captions write them, over images whose words have one."""
    tests = {n: objects for n, objects in sets.tests.items() if complete(objects.forms)}
    if not complete(sets.train.forms):
        return []
    net = train_on(sets.train.with_words(sets.train.forms), engine, training)
    found = {n: _credit(net, objects.with_words(objects.forms)) for n, objects in tests.items()}
    return [
        region_score("accuracy_caption_form", credit, n, {}, training.seed)
        for n, credit in found.items()
    ]


def _template_scores(caption: Tensor, prompt: Tensor, n: int, seed: int) -> list[Score]:
    """Return the accuracy with prompts, and its paired difference from that with captions."""
    lost = (caption - prompt).sum(1).numpy()
    drop = bootstrap_ratio(lost, torch.full((len(lost),), n).numpy(), seed=seed)
    return [
        region_score("accuracy_template", prompt, n, {}, seed),
        Score(
            metric="template_drop",
            at={"objects": n},
            n=len(lost),
            chance=0.0,
            higher_is_better=False,
            **drop._asdict(),
        ),
    ]
