"""Object-label alignment: does a region fit the word that names it? arXiv:2107.12021, 4.1, 4.2.

`accuracy` is the share of regions that fit their own word best among the words of their image.
Variants: `accuracy_hungarian` gives each word to one region, `accuracy_no_layer_norm` leaves layer
normalisation out (table 1), `accuracy_template` has the word in "A photo of a {label}" in place of
the caption, and `template_drop` is what that costs (table 3). The paper is silent on the word's
form: here it is as the data name it, in COCO as the caption does, plurals and capitals too. A
static encoder (one that gives words the same vectors in any text) has in the prompt the mean over
all its words, as in the paper: over the label alone nothing could drop. The floor `shuffled_words`
learned from pairs whose words were shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data, value_column
from vlbench.data.words import tokens_at
from vlbench.digests import source_digest
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import TIED
from vlbench.metrics.statistics import bootstrap_ratio
from vlbench.nets.vsep import Recipe
from vlbench.probes.vsep.alignment import (
    Objects,
    Setting,
    assigned_words,
    chosen_words,
    gather,
    learn,
    share,
    similarities,
)
from vlbench.probes.vsep.named_objects import Sides, mean_over
from vlbench.results import Outcome, Score

TEMPLATE = "A photo of a {label}"


def object_label_alignment(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder,
    data: Data,
    engine: Engine,
    *,
    regions: Detector | RegionEncoder | None = None,
    boxes: str = "gold",
    confidence: float = 0.0,
    objects: Sequence[int] = (2, 3, 4),
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return how often a region fits its own word best, in images of so many objects.

    `regions` is what sees (None: the data's own region vectors); a region encoder is given the
    gold `boxes` or the data's detected ones. Networks learn on one-object images of the `train`
    splits and are asked about the others of the `test` splits. Raises TooFewRows where a set of
    images is empty, CannotDo where the model has no vector for any word.
    """
    sides = Sides(model, regions, boxes, confidence)
    return _align(
        sides, data, engine, Setting(objects, train, test, Recipe(epochs, batch_size, seed))
    )


def object_label_alignment_regions(  # noqa: PLR0913 - the YAML fills all but three
    model: Detector | RegionEncoder,
    data: Data,
    engine: Engine,
    *,
    words: TokenEncoder,
    boxes: str = "gold",
    confidence: float = 0.0,
    objects: Sequence[int] = (2, 3, 4),
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return the same with the region encoder under test, and a word encoder as companion."""
    sides = Sides(words, model, boxes, confidence)
    return _align(
        sides, data, engine, Setting(objects, train, test, Recipe(epochs, batch_size, seed))
    )


def _align(sides: Sides, data: Data, engine: Engine, setting: Setting) -> Outcome:
    sets, recipe = gather(sides, data, engine, setting), setting.recipe
    net = learn(sets.train, engine, recipe)
    bare = learn(sets.train, engine, recipe._replace(layer_norm=False))
    blind = learn(sets.train, engine, recipe, shuffled=True)
    prompts = template_vectors(sides.words, _labels(sets.tests.values()), engine)
    scores: list[Score] = []
    counts = {"ties": 0, "oov_template_images": 0}
    for n, objects in sets.tests.items():
        cosines = similarities(net, objects.regions, objects.words)
        choice = chosen_words(cosines)
        floor = chosen_words(similarities(blind, objects.regions, objects.words)).credit.mean()
        plain = chosen_words(similarities(bare, objects.regions, objects.words)).credit
        floors = {"shuffled_words": float(floor)}
        scores += [
            share("accuracy", choice.credit, n, floors, recipe.seed),
            share("accuracy_hungarian", assigned_words(cosines), n, {}, recipe.seed),
            share("accuracy_no_layer_norm", plain, n, {}, recipe.seed),
        ]
        rows, words = _in_prompts(objects, prompts)
        counts["oov_template_images"] += len(choice.credit) - len(rows)
        credit = chosen_words(similarities(net, objects.regions[rows], words)).credit
        scores += _template_scores(choice.credit[rows], credit, n, recipe.seed)
        counts["ties"] += int(choice.tied.sum())
    return Outcome(scores=scores, counts=sets.counts | counts, notes=[sides.note])


def template_vectors(
    words: TokenEncoder, labels: Sequence[str], engine: Engine
) -> dict[str, Tensor | None]:
    """Return the vector [W] of each label in the prompt, or None where it has none.

    Of a static encoder it is the mean over all words of the prompt.
    """
    start = TEMPLATE.index("{label}")
    code = [source_digest(mean_over), source_digest(tokens_at)]
    key = {"what": "labels in a prompt", "model": words, "code": code}

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

    found = engine.map(both, value_column(labels, "text"), key=key)
    known = [row for row in found if row[0] is not None]
    static = all(torch.allclose(own, alone, TIED, TIED) for own, _, alone in known)
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
    """Return the accuracy with prompts, and what it lost of that with captions, paired."""
    lost = (caption - prompt).sum(1).numpy()
    drop = bootstrap_ratio(lost, torch.full((len(lost),), n).numpy(), seed=seed)
    return [
        share("accuracy_template", prompt, n, {}, seed),
        Score(
            metric="template_drop",
            at={"objects": n},
            n=len(lost),
            chance=0.0,
            higher_is_better=False,
            **drop._asdict(),
        ),
    ]
