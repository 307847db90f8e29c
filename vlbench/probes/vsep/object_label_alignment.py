"""Object-label alignment: does a region fit the word that names it? arXiv:2107.12021, 4.1, 4.2.

`accuracy` is the fraction of regions that fit their own word best among the words of their image.
`accuracy_hungarian` gives each word to one region, `accuracy_no_layer_norm` leaves layer
normalisation out (table 1), `accuracy_template` has the word in "A photo of a {label}" in place of
the caption, and `template_drop` is the accuracy lost by that (table 3). The paper does not say
which form the word has there: here it is as the data name it, in COCO as in the caption, plurals
and capitals included. A static encoder (one that gives words the same vectors in any text) has in
the prompt the mean over all words of the prompt, as in the paper: over the label alone nothing
could drop. The floor `shuffled_words` is a network trained on pairs whose words were shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import TIED
from vlbench.metrics.statistics import bootstrap_ratio
from vlbench.nets.vsep import PAPER_TRAINING, VsepTraining
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    ObjectSets,
    Splits,
    assigned_words,
    chosen_words,
    gather,
    region_score,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders, mean_over
from vlbench.results import Outcome, Score

TEMPLATE = "A photo of a {label}"


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
    prompts = template_vectors(encoders.words, _labels(sets.tests.values()), engine)
    scores: list[Score] = []
    counts = {"ties": 0, "oov_template_images": 0}
    for n, objects in sets.tests.items():
        cosines = similarities(net, objects.regions, objects.words)
        choice = chosen_words(cosines)
        floor = chosen_words(similarities(shuffled, objects.regions, objects.words)).credit.mean()
        plain = chosen_words(similarities(unnormed, objects.regions, objects.words)).credit
        floors = {"shuffled_words": float(floor)}
        scores += [
            region_score("accuracy", choice.credit, n, floors, training.seed),
            region_score("accuracy_hungarian", assigned_words(cosines), n, {}, training.seed),
            region_score("accuracy_no_layer_norm", plain, n, {}, training.seed),
        ]
        rows, words = _in_prompts(objects, prompts)
        counts["oov_template_images"] += len(choice.credit) - len(rows)
        credit = chosen_words(similarities(net, objects.regions[rows], words)).credit
        scores += _template_scores(choice.credit[rows], credit, n, training.seed)
        counts["ties"] += int(choice.tied.sum())
    return Outcome(scores=scores, counts=sets.counts | counts, notes=[encoders.note])


def template_vectors(
    words: TokenEncoder, labels: Sequence[str], engine: Engine
) -> dict[str, Tensor | None]:
    """Return the vector [W] of each label in the prompt, or None where it has none.

    For a static encoder it is the mean over all words of the prompt.
    """
    start = TEMPLATE.index("{label}")

    def both(labels: Sequence[str]) -> list[Any]:
        prompts = words.encode_tokens([TEMPLATE.format(label=label) for label in labels])
        alone = words.encode_tokens(labels)
        return [
            [
                mean_over(prompt, start, start + len(label)),
                mean_over(prompt, 0, start + len(label)),
                mean_over(by_itself, 0, len(label)),
            ]
            for label, prompt, by_itself in zip(labels, prompts, alone, strict=True)
        ]

    key = {"what": "labels in a prompt", "model": words}
    found = engine.map(both, value_column(labels, "text"), key=key)
    in_both = [row for row in found if row[0] is not None]
    static = all(torch.allclose(inside, alone, TIED, TIED) for inside, _, alone in in_both)
    vectors = [row[1 if static else 0] if row[0] is not None else None for row in found]
    return dict(zip(labels, vectors, strict=True))


def _labels(tests: Any) -> list[str]:
    return sorted({name.word for objects in tests for row in objects.named for name in row})


def _in_prompts(objects: Objects, prompts: dict[str, Tensor | None]) -> tuple[list[int], Tensor]:
    """Return the images whose labels all have a vector in the prompt, and those [I', n, W]."""
    rows = [[prompts[name.word] for name in row] for row in objects.named]
    whole = [i for i, row in enumerate(rows) if all(v is not None for v in row)]
    if not whole:
        raise TooFewRows(
            f"no image has {len(rows[0])} objects whose labels the prompt's vectors know"
        )
    return whole, torch.stack([torch.stack([v for v in rows[i] if v is not None]) for i in whole])


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
