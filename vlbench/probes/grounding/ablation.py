"""Ablation: the drop in accuracy of a model without some of its parts.

An item is an image with a `caption` and `foils`, which is right if the caption scores highest, or
an image with a `question` and options, which is right if the most likely answer is right. `drop` is
the accuracy of the whole model minus the accuracy without a part, paired by item (Michel, Levy and
Neubig 2019, arXiv:1905.10650, ablate heads; Geva et al. 2023, arXiv:2304.14767, attention in a
window of layers). The parts are:

- `layer`: all heads of a layer, and `head`: a single head.
- `best heads`: the heads that ground entities best (see `entity_grounding`) on other images.
- `text to image` and `end to image`: attention of the text, or of the end of the prompt, to the
  image, in a window of layers that begins with `layer`.

The output of a removed head is 0 (Michel et al.), its output for the same text and another image
(resample ablation: Chan et al. 2022, causal scrubbing), or the mean of its outputs for 4 other
images (mean ablation: Wang et al. 2022, arXiv:2211.00593, average over a data set). Zeros are
states that a model never saw in training; another image keeps what a head says of the text, so
that the drop is only about what the head says of the image (Zhang and Nanda 2023, arXiv:2309.16042,
prefer such states in the distribution). Attention in windows is masked in each case. The other
images are no test images, are of other clusters, and have as many regions, or pixels, as the image
they replace.

Removing any part costs accuracy, so that `p_of_drop` compares a drop with random parts. It is the
rank among the draws, (1 + draws that drop at least as much) / (draws + 1). Draws are uniform,
without repetition, from a population that contains the ablated parts, which are no draw:

- `best heads`: all sets with as many heads in each layer. Heads are matched in number and layer
  only, not in the norm of their output.
- `largest layer`: the largest drop of a layer. All ways to divide the heads of the model into sets
  as large as the layers; the largest drop of these sets.

`p_of_drop` is adjusted by Holm's rule over the tests of a row that can reach p <= .05; a test with
too few draws has no verdict (Tarone 1990). Single layers, heads and windows have no p: they are
curves. A window could only be compared with the other windows, which are all in the row: one of n
always has p = 1 / n, which Holm's rule over n windows never rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np

from vlbench.asking.chooser import Chooser, Way, way_of
from vlbench.asking.questions import QuestionItems, items_of, read_captions, read_questions
from vlbench.capabilities import (
    AnswerScorer,
    Cut,
    Donors,
    ImageTextScorer,
    Intervenable,
    JointAttender,
    Look,
    Parts,
    count_truncated,
    size_of,
)
from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, SpecError, TooFewRows, counted
from vlbench.metrics.gains import gain
from vlbench.metrics.items import (
    outcome_of,
    score_table,
)
from vlbench.metrics.ranking import Choice
from vlbench.metrics.scores import measure_items
from vlbench.probes.grounding.attention import AttentionReader, head_sums
from vlbench.probes.grounding.entity_grounding import entity_queries
from vlbench.probes.grounding.measures import first_images
from vlbench.probes.grounding.rank_tests import (
    Head,
    Heads,
    heads_by_layer,
    notes_of_tests,
    p_scores,
    rank_tests,
    with_verdicts,
)
from vlbench.probes.grounding.scores import MOST_SCORES, groups_of
from vlbench.results import Artifact, At, Outcome, Positive, Score
from vlbench.system.digests import digest

# `ranked_on` names a split of images with phrases.
AblationRows = Annotated[Data, "test", "ranked_on"]

# Heads are ranked on this many images at most.
RANKED_IMAGES = 100

CAVEAT = (
    "a drop is the loss of accuracy without a part: redundant parts hide it, and a model may be "
    "worse only because it was never trained without that part"
)
# The number of other images over which the output of a head is averaged.
AVERAGED = {"mean": 4, "other_image": 1}
DONATED = "; each pass without heads also scores {} per item, whose choice is not in the intervals"
BEST = "best heads, layer-head from 0: {}"
CURVE = "single layers, heads and windows have no verdict: some of many cost much by chance"


class CutScorer(Intervenable, ImageTextScorer, Protocol):
    """Scores pairs, also without some of its parts."""


class CutAnswerScorer(Intervenable, AnswerScorer, Protocol):
    """Scores answers, also without some of its parts."""


class Part(NamedTuple):
    """A part to ablate, and the conditions of its scores."""

    at: At
    cut: Cut


def ablation(  # noqa: PLR0913 - tasks fill them by name
    model: CutScorer | CutAnswerScorer,
    data: AblationRows,
    engine: Engine,
    *,
    each: Sequence[Literal["layer", "head"]] = (),
    best_heads: int = 0,
    windows: int = 0,
    items: Positive | None = None,
    ranked_on: str = "test",
    draws: int = 79,
    by: Literal["zero", "mean", "other_image"] = "zero",
    seed: int = 0,
) -> Outcome:
    """Return how much accuracy a model loses without some of its parts, and p among random parts.

    Raises SpecError if there are no parts to ablate, or fewer than requested; CannotDo for a model
    without a capability that the items or the best heads need; DataError for rows without a choice,
    a foil equal to the caption, heads ranked on test images, and too few other images; TooFewRows
    for fewer than two clusters.

    Args:
        each: parts ablated in turn: each `head`, all heads of each `layer`, or both; empty:
            neither.
        best_heads: number of best-grounding heads that are ablated together; 0: none.
        windows: number of consecutive layers whose attention to the image is ablated; 0: none.
        items: number of test rows, drawn by the seed; None takes all.
        ranked_on: split with phrases on whose first 100 images `best_heads` are ranked; no test
            image may be in it.
        draws: number of random draws compared with the best heads, a pass each, and with the
            layers, a pass for each layer; 39 for one of these tests and 79 for both are enough for
            p <= .05 after Holm's rule; 0: no p.
        by: what is in place of the output of a removed head: `zero`, its output for the same text
            and another image (`other_image`), or the `mean` for 4 other images. The last two need
            rows that `items` leaves out, and an adapter that scores a batch in a single pass.
        seed: seed that draws the items, the random parts and the other images.
    """
    split = data.splits["test"]
    order = np.random.default_rng(seed).permutation(len(split))
    rows = split.select(np.sort(order[:items]).tolist())
    questions, way = _read(rows, model)
    _require_donors(model, by, way)
    examples, clusters = questions.examples, len({*questions.examples.clusters})
    if clusters < 2:
        raise TooFewRows(f"{counted(clusters, 'image')} to ask about; an interval needs 2")
    images = _ranking_images(rows, data, ranked_on) if best_heads else None
    best = best_grounding(model, images, engine, best_heads) if images is not None else []
    parts = _parts(model.parts(), each, windows, best)
    tests = rank_tests(model.parts().heads, each, best, draws, seed)
    drawn = [Cut(heads) for test in tests for sets in test.random for heads in sets]
    cuts = [*dict.fromkeys([*(part.cut for part in parts), *drawn])]
    cost = f"{len(cuts) + 1} passes over {counted(len(rows), 'item')}, one of the whole model"
    others = split.select(order[len(rows) :].tolist())
    donors = _donors(rows, others, AVERAGED[by]) if by in AVERAGED else None
    cost += DONATED.format(counted(AVERAGED[by], "other image")) if donors else ""

    def choose(model: Any) -> Choice:
        return Chooser(model, rows, engine, way).choose(range(len(rows)), *questions[:2]).choice

    whole = choose(model)
    watched = engine.watched(cost, cuts, len(cuts))
    credit = {cut: choose(engine.cut(model, cut._replace(donors=donors))).credit for cut in watched}

    def drop_of(heads: Heads) -> float:
        return float((whole.credit - credit[Cut(heads)]).double().mean())

    ranked = [test.rank(drop_of) for test in tests]
    p_values = p_scores(ranked, len(examples.ids))
    drops = [gain("drop", whole.credit, credit[part.cut], examples, part.at) for part in parts]
    drops = with_verdicts(drops, ranked)
    scores = [drop.score for drop in drops]
    if len(drops) >= MOST_SCORES:  # the table has all
        drops = [drop for drop in drops if "layer" not in drop.score.at]
    ties, passes = int(whole.tied.sum()), len(cuts) + 1
    counts = {"passes": passes, "ties": ties, "choices": len(rows), "clusters": clusters}
    outcome = outcome_of(
        [measure_items(items_of("accuracy", whole, questions)), *drops],
        counts | count_truncated(model, [*chain(*(item.options for item in questions.asked))]),
        [CAVEAT, cost, *_best_note(best), *notes_of_tests(ranked), *_curves(scores)],
        {"drops": _table([*scores, *p_values])},
    )
    return replace(outcome, scores=[*outcome.scores, *p_values], asked_by=way)


def _best_note(best: Sequence[Head]) -> list[str]:
    return [BEST.format(", ".join("{}-{}".format(*head) for head in best))] if best else []


def _parts(of_model: Parts, each: Sequence[str], windows: int, best: Sequence[Head]) -> list[Part]:
    """Return the parts to ablate. Raises SpecError if there are none."""
    heads, positions = of_model
    parts = _each(heads_by_layer(heads), each)
    parts += [Part({"cut": "best heads"}, Cut(tuple(sorted(best))))] if best else []
    for source in ("text", "end") if windows else ():
        if source in positions:
            parts += _windows(source, windows, len(heads))
    if not parts:
        raise SpecError("no part is removed: set each, best_heads or windows")
    return parts


def _require_donors(model: CutScorer | CutAnswerScorer, by: str, asked_by: str) -> None:
    """Raise CannotDo if heads get outputs for other images, which the model's scores ignore."""
    method = "score_answers" if asked_by == "likelihood" else "score_pairs"
    if by != "zero" and not getattr(getattr(model, method), "takes_donors", False):
        why = f"its {method} cannot put in the outputs of heads for other images"
        raise CannotDo(f"{why}; use `by: zero`")


def _donors(rows: Split, others: Split, count: int) -> Donors:
    """Return `count` other pictures for each size of picture, of other images and clusters.

    Raises DataError if there are too few.
    """
    pictures, taken = others["picture"], {*_digests(rows)}
    clusters = {*rows["cluster"]} if "cluster" in rows.columns else set()
    missing, chosen = dict.fromkeys(map(size_of, rows["picture"]), count), list[int]()
    for i, image in enumerate(_digests(others)):
        if not any(missing.values()):
            break
        if image in taken or (clusters and others["cluster"][i] in clusters):
            continue
        taken.add(image)
        if missing.get(size := size_of(pictures[i])):
            missing[size] -= 1
            chosen.append(i)
    short = [f"{left} with {size}" for size, left in missing.items() if left]
    if short:
        raise DataError(f"other images are missing: {', '.join(short)}; reduce items, or by: zero")
    known_as = digest([pictures.key, [pictures.rows[i] for i in chosen]])
    return Donors(known_as, count, [pictures[i] for i in chosen])


def _read(rows: Split, model: CutScorer | CutAnswerScorer) -> tuple[QuestionItems, Way]:
    """Return the items of rows; questions are answered by the likelihood of their answers."""
    if "question" in rows.columns:
        return read_questions(rows), way_of(model, "likelihood")
    items = read_captions(rows)
    if not isinstance(model, ImageTextScorer):
        raise CannotDo("it is not an ImageTextScorer, which is needed to choose among captions")
    return items, "score"


def best_grounding(model: Any, rows: Split, engine: Engine, count: int) -> list[Head]:
    """Return the heads that choose right regions most often, best first; ties in order of place.

    Raises CannotDo for a model that returns no attention.
    """
    if not isinstance(model, JointAttender):
        raise CannotDo("it is not a JointAttender, which `best_heads` needs")
    sums = head_sums(AttentionReader(model, 1), rows["picture"], entity_queries(rows), engine)
    (group,) = groups_of(sums, [{}], 0)
    right = group.measures["accuracy"].sum(0)
    if count > len(right):
        raise SpecError(f"{count} best heads requested; the model has {len(right)}")
    places = np.argsort(-right, kind="stable")[:count].tolist()
    return [divmod(place, group.shape[1]) for place in places]


def _each(layers: Sequence[Heads], kinds: Sequence[str]) -> list[Part]:
    """Return each layer, then each head, as far as they are among the kinds."""
    whole = [Part({"cut": "layer", "layer": i}, Cut(heads)) for i, heads in enumerate(layers)]
    single = [
        Part({"cut": "head", "layer": i, "head": j}, Cut(((i, j),)))
        for i, j in chain.from_iterable(layers)
    ]
    return (whole if "layer" in kinds else []) + (single if "head" in kinds else [])


def _curves(drops: Sequence[Score]) -> list[str]:
    """Return a note of the drops of each kind of layer or window, and what they do not show."""
    notes = []
    for cut in dict.fromkeys(drop.at["cut"] for drop in drops if "layer" in drop.at):
        curve = [drop for drop in drops if drop.at["cut"] == cut and "head" not in drop.at]
        lines = [
            f"{point.at['layer']}: {100 * point.value:.1f} [{100 * point.ci95[0]:.1f}, "
            f"{100 * point.ci95[1]:.1f}]"
            for point in curve
            if point.ci95
        ]
        notes += (
            [f"{cut}, drop in points by (first) layer from 0: {', '.join(lines)}"] if lines else []
        )
    return [*notes, CURVE] if any("layer" in drop.at for drop in drops) else []


def _windows(source: str, width: int, layers: int) -> list[Part]:
    if width > layers:
        raise SpecError(f"windows of {width} layers requested; the model has {layers}")
    return [
        Part(
            {"cut": f"{source} to image", "layer": first},
            Cut(looks=(Look(source, "image", (first, first + width)),)),
        )
        for first in range(layers - width + 1)
    ]


def _ranking_images(rows: Split, data: Data, name: str) -> Split:
    """Return the images on which heads are ranked. Raises DataError if one is a test image."""
    images = first_images(data.splits[name], RANKED_IMAGES)
    if shared := {*_digests(rows)} & {*_digests(images)}:
        count = len(shared)
        raise DataError(f"{count} images of {name}, on which heads are ranked, are test images")
    return images


def _digests(rows: Split) -> Sequence[str]:
    """Return what identifies the image of each row."""
    return rows["image" if "image" in rows.columns else "picture"].examples().digests


def _table(scores: Sequence[Score]) -> Artifact:
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    columns = {
        "cut": [str(score.at["cut"]) for score in scores],
        "layer": pa.array([score.at.get("layer") for score in scores], pa.int64()),
        "head": pa.array([score.at.get("head") for score in scores], pa.int64()),
    }
    return score_table(scores, columns)
