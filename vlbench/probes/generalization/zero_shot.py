"""Zero-shot classification by class names in prompts. Radford et al. 2021, arXiv:2103.00020, 3.1.

The vector of a class is the text vector of its prompt as returned by the model; the model's
`similarity` decides whether its length counts. With several prompts it is the mean of their
normalised text vectors, normalised again. `accuracy_normalised_texts` also normalises the vector of
a single prompt; if `similarity` is a cosine, it equals `accuracy` up to rounding.
`accuracy_raw_prompt_mean` follows the code of arXiv:2104.08313: the mean of the unnormalised text
vectors, in which long vectors count more, is normalised.

A model without comparable vectors chooses the class whose prompts have the highest mean matching
score. Its `accuracy` is also reported as `accuracy_scored`, which other models do not have.

A generative model is asked `question`: the score of a prompt is its log-likelihood as the answer.
With at most 10 classes it can also be asked by letter. Floors are the accuracy of the same model
with the text only and with another image; `accuracy_gain_over_text_alone` and
`accuracy_gain_from_image` are the differences to them, paired by image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.asking.chooser import Chooser, Way, way_of
from vlbench.asking.pair_scores import PairScorer, other_images
from vlbench.asking.questions import Question
from vlbench.capabilities import (
    Answerer,
    AnswerScorer,
    Classifier,
    DualEncoder,
    ImageTextScorer,
    NoAnswer,
    Reply,
    count_truncated,
)
from vlbench.data.names import case_notes, normal_form, one_spelling, spoken_names
from vlbench.data.records import Data, Split, TestRows, labels, require_classes, value_column
from vlbench.engine import Engine
from vlbench.engine.pass_checks import SMALLEST
from vlbench.errors import unknown
from vlbench.metrics.gains import ALONE, ANOTHER, gains
from vlbench.metrics.items import outcome_of
from vlbench.metrics.ranking import (
    TIED,
    Choice,
    all_equal,
    choose,
    credit_among,
    join_choices,
)
from vlbench.metrics.replies import judge
from vlbench.metrics.scores import scored
from vlbench.probes.generalization.blind import nearest_mean_accuracy
from vlbench.probes.generalization.categories import GUESSES, class_items, five_guesses
from vlbench.probes.generalization.class_pairs import names_of_classes, pair_classes
from vlbench.results import Outcome
from vlbench.system.threads import threads_for

# Names in open_clip of the sets that a task may name.
PROMPT_SETS = {
    "openai_imagenet": "OPENAI_IMAGENET_TEMPLATES",
    "simple_imagenet": "SIMPLE_IMAGENET_TEMPLATES",
}
NAME_SETS = {"openai_imagenet": "IMAGENET_CLASSNAMES"}

# The default question to a generative model.
QUESTION = "What does the image show?"

# Similarities computed at a time, independent of the number of images.
BLOCK = 1 << 20

EQUAL_VECTORS_NOTE = "all images have identical vectors, so accuracy is at chance"


def zero_shot(
    model: DualEncoder | ImageTextScorer | AnswerScorer | Answerer,
    data: TestRows,
    engine: Engine,
    *,
    prompts: list[str] | str = "a photo of a {}.",
    class_names: list[str] | dict[str, str] | str | None = None,
    floors: dict[str, str] | None = None,
    asked: Literal["", "likelihood", "letter"] = "",
    question: str = QUESTION,
) -> Outcome:
    """Return the accuracy of choosing the class whose name, in the prompts, fits an image best.

    A list of `class_names` is paired with the classes by name, or by place if the data declare
    their order. If all images have the same vector, within 1e-6, all classes are tied; so are
    classes whose texts have the same vector. A floor by a column chooses the class with the nearest
    mean over its other images.

    Args:
        prompts: a prompt with {} for the name, a list of prompts, or a set of open_clip:
            openai_imagenet or simple_imagenet.
        class_names: a list of names, new names by old (`{cat: Katze}`), or the set openai_imagenet;
            None: the names of the data, with blanks for underscores.
        floors: by name of a floor of `accuracy`, a column; the floor is the accuracy by this
            column, without a model.
        asked: how a model is asked: by `likelihood` or `letter`; empty: by similarity or matching
            scores if it has them, else by likelihood, else by letter.
        question: question to a generative model; the prompts are its answers.
    """
    if asked or not isinstance(model, DualEncoder | ImageTextScorer):
        outcome = _ask(model, data, engine, prompts, class_names, question, way_of(model, asked))
    else:
        outcome = _zero_shot(model, data, engine, prompts, class_names)
    outcome = scored(outcome)
    blind = {
        name: nearest_mean_accuracy(data.splits["test"], column, engine)
        for name, column in (floors or {}).items()
    }
    scores = [
        replace(score, floors={**score.floors, **(blind if score.metric == "accuracy" else {})})
        for score in outcome.scores
    ]
    return replace(outcome, scores=scores)


def _zero_shot(
    model: DualEncoder | ImageTextScorer,
    data: TestRows,
    engine: Engine,
    prompts: list[str] | str,
    class_names: list[str] | dict[str, str] | str | None,
) -> Outcome:
    require_classes(data)
    test, names = data.splits["test"], _class_names(class_names, data)
    texts = [prompt.replace("{}", name) for name in names for prompt in _prompts(prompts)]
    right, notes = torch.from_numpy(labels(test)), list[str]()
    if isinstance(model, DualEncoder):
        images, by_rule = _vectors(model, test, texts, len(names), engine)
        notes = [EQUAL_VECTORS_NOTE] if all_equal(images) else []
        ranked = {
            metric: rank(model, images, classes, right, engine.device)
            for metric, classes in by_rule.items()
        }
    else:
        scorer = PairScorer(model, test, engine)
        scores, log_odds = scorer.of_classes(texts, len(names)), scorer.log_odds
        top5 = credit_among(scores, right, GUESSES, log_odds=log_odds)
        both = choose(scores, right, log_odds=log_odds), top5
        ranked = dict.fromkeys(("accuracy", "accuracy_scored"), both)
    choices = {metric: choice for metric, (choice, _) in ranked.items()}
    metrics = [class_items(metric, [choice], test, names) for metric, choice in choices.items()]
    metrics += five_guesses(ranked["accuracy"][1], test, names)
    by = "similarity" if isinstance(model, DualEncoder) else "score"
    notes += _text_notes(names, prompts)
    counts = count_truncated(model, texts) | _count_repeated(names, prompts)
    return Outcome(metrics=metrics, counts=counts, notes=notes, asked_by=by)


def _text_notes(names: Sequence[str], prompts: list[str] | str) -> list[str]:
    """Return notes on names of classes, and on prompts, that differ only in case."""
    return case_notes("names of classes", names) + case_notes("prompts", _prompts(prompts))


def _count_repeated(names: Sequence[str], prompts: list[str] | str) -> dict[str, int]:
    """Return how many names of classes, and given prompts, equal an earlier one, if any do."""
    templates = prompts if isinstance(prompts, list) else []
    texts = {"repeated_class_names": names, "repeated_prompts": templates}
    counts = {what: len(group) - len({*map(normal_form, group)}) for what, group in texts.items()}
    return {what: count for what, count in counts.items() if count}


def _vectors(
    model: DualEncoder, rows: Split, texts: Sequence[str], count: int, engine: Engine
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return image vectors [N, D], and class vectors [C, D] by rule.

    If all image vectors are equal, all class vectors are set equal, so that classes are tied.
    Raises SpecError if the model's similarity of a pair depends on other pairs.
    """
    vectors = engine.features(model.encode_texts, value_column(texts, "text"))
    by_rule = vectors_by_rule(vectors.view(count, len(texts) // count, -1))
    images = engine.features(model.encode_images, rows["image"])
    if all_equal(images):
        by_rule = {rule: classes[:1].expand_as(classes) for rule, classes in by_rule.items()}
    engine.require_pairwise(model, images, by_rule["accuracy"])
    return images, by_rule


def _ask(
    model: Any,
    data: Data,
    engine: Engine,
    prompts: list[str] | str,
    class_names: list[str] | dict[str, str] | str | None,
    question: str,
    way: Way,
) -> Outcome:
    """Return the accuracy of the class that a model names, and its gains from the image.

    By likelihood, the score of a class is the mean over its prompts; by letter, its option is its
    name.
    """
    require_classes(data)
    test, names = data.splits["test"], _class_names(class_names, data)
    chooser = Chooser(model, test, engine, way)
    templates = _prompts(prompts) if way == "likelihood" else ["{}"]
    options = [prompt.replace("{}", name) for name in names for prompt in templates]
    item = Question(question, options)

    def replies(rows: Sequence[int | None]) -> list[list[Reply]]:
        answers = chooser.replies(rows, [item] * len(rows))
        return [[_of_classes(reply, len(templates)) for reply in group] for group in answers]

    of_images = replies(range(len(test)))
    views = {"": of_images, ANOTHER: [of_images[i] for i in other_images(test, 0)]}
    if chooser.reads_text_alone:
        views[ALONE] = replies([None]) * len(test)
    true = [[label] for label in labels(test).tolist()]
    judged = {
        name: judge(said, [names] * len(test), true, chooser.labels) for name, said in views.items()
    }
    with_image = judged.pop("")
    notes = chooser.notes_on(with_image) + chooser.notes() + _text_notes(names, prompts)
    floors = {name: judgement.choice for name, judgement in judged.items()}
    counts = {"unparsed": with_image.unparsed} | _count_repeated(names, prompts)
    items = class_items("accuracy", [with_image.choice], test, names, floors=floors)
    outcome = outcome_of(gains(items), counts, notes)
    return replace(outcome, metrics=[items], asked_by=way)


def _of_classes(reply: Reply, prompts: int) -> Reply:
    """Return a reply of scores with the mean over each class's prompts; a text is unchanged."""
    if isinstance(reply.said, str | NoAnswer):
        return reply
    means = torch.tensor(reply.said, dtype=torch.float64).view(-1, prompts).mean(1)
    return Reply(tuple(range(len(means))), means.tolist())


class ClassScores(NamedTuple):
    """The score [N, C] of each class for each image; the highest score is the model's answer.

    `asked_by` is as in Outcome. `log_odds` is whether scores are log-odds, for ties.
    """

    scores: Tensor
    asked_by: str
    log_odds: bool = True


def class_scores(
    model: DualEncoder | ImageTextScorer | AnswerScorer | Classifier,
    data: Data,
    split: str,
    engine: Engine,
    *,
    prompts: list[str] | str,
    class_names: list[str] | dict[str, str] | str | None,
    question: str,
) -> ClassScores:
    """Return the scores by which a model chooses among all classes, for the images of a split.

    They are the similarities of a model with two towers, else matching scores, else log-likelihoods
    of answers, else the logits of the model's classifier, paired as in `pair_classes`.
    """
    rows, names, templates = data.splits[split], _class_names(class_names, data), _prompts(prompts)
    texts = [prompt.replace("{}", name) for name in names for prompt in templates]
    if isinstance(model, DualEncoder):
        images, by_rule = _vectors(model, rows, texts, len(names), engine)
        blocks = _similarities(model, images, by_rule["accuracy"], engine.device)
        return ClassScores(torch.cat([*blocks]), "similarity", log_odds=False)
    if isinstance(model, ImageTextScorer):
        scorer = PairScorer(model, rows, engine)
        return ClassScores(scorer.of_classes(texts, len(names)), "score", scorer.log_odds)
    if isinstance(model, AnswerScorer):
        scores = Chooser(model, rows, engine, "likelihood").table(
            range(len(rows)), [texts] * len(rows), question
        )
        means = scores[:, 0].view(len(rows), len(names), -1).mean(2)
        return ClassScores(means, "likelihood")
    logits = engine.features(model.logits, rows["image"])
    return ClassScores(pair_classes(model, data, logits).of_classes(logits), "")


def vectors_by_rule(vectors: Tensor) -> dict[str, Tensor]:
    """Return the class vectors [C, D] of each rule from the prompt vectors [C, P, D]."""
    mean = normalize(normalize(vectors, dim=2, eps=SMALLEST).mean(1), dim=1)
    raw = {"accuracy_raw_prompt_mean": normalize(vectors.mean(1), dim=1, eps=SMALLEST)}
    if vectors.shape[1] > 1:
        return {"accuracy": mean} | raw
    return {"accuracy": vectors[:, 0], "accuracy_normalised_texts": mean} | raw


@torch.no_grad()
def rank(
    model: DualEncoder, images: Tensor, classes: Tensor, right: Tensor, device: torch.device
) -> tuple[Choice, Tensor]:
    """Return the most similar of [C, D] classes for [N, D] images, and the credit of five guesses.

    `right` [N] are the right classes; the credit is float64 [N].
    """
    choices, top5, start = [], [], 0
    for scores in _similarities(model, images, classes, device):
        y = right[start : start + len(scores)]
        choices.append(choose(scores, y))
        top5.append(credit_among(scores, y, GUESSES))
        start += len(scores)
    return join_choices(choices), torch.cat(top5)


@torch.no_grad()
def _similarities(
    model: DualEncoder, images: Tensor, classes: Tensor, device: torch.device
) -> Iterator[Tensor]:
    """Yield blocks of the similarities [N, C] of [N, D] images to [C, D] classes."""
    first = _first_equal(classes)
    classes = classes.to(device)
    for x in torch.split(images, max(1, BLOCK // len(classes))):
        with threads_for(len(x), *classes.shape):
            scores = model.similarity(x.to(device), classes).float().cpu()
        yield scores[:, first]


def _first_equal(classes: Tensor) -> Tensor:
    """Return for each of [C, D] vectors the first that equals it within 1e-6, int64 [C].

    The margin is 1e-6 of the largest |x| of both vectors, which may have different lengths.
    Similarities would not show such ties, because cosines near zero consist of rounding errors.
    """
    gaps = torch.cdist(classes, classes, p=torch.inf)
    largest = classes.abs().amax(1)
    return (gaps <= TIED * torch.maximum(largest[:, None], largest)).int().argmax(1)


def _prompts(templates: list[str] | str) -> list[str]:
    prompts = [templates] if isinstance(templates, str) else templates
    if isinstance(templates, str) and templates in PROMPT_SETS:
        prompts = _from_open_clip(PROMPT_SETS[templates])
    wrong = [prompt for prompt in prompts if "{}" not in prompt]
    if wrong or not prompts:
        what = f"prompt '{wrong[0]}' has no {{}} for the class's name" if wrong else "no prompts"
        raise ValueError(f"{what}; sets of prompts are {', '.join(PROMPT_SETS)}")
    return [*dict.fromkeys(one_spelling(prompts))]


def _class_names(source: list[str] | dict[str, str] | str | None, data: Data) -> list[str]:
    if isinstance(source, str) and source not in NAME_SETS:
        raise unknown("set of class names", source, NAME_SETS)
    if isinstance(source, str) and data.class_order != "imagenet":
        raise ValueError(
            f"{source} names ImageNet's classes in their order; the data do not have this order"
        )
    if not isinstance(source, str):
        named = names_of_classes({} if source is None else source, data)
        return spoken_names([*map(normal_form, named)])
    names = _from_open_clip(NAME_SETS[source])
    if len(names) != len(data.classes):
        raise ValueError(
            f"{len(names)} class names for the {len(data.classes)} classes of the data"
        )
    return names


def _from_open_clip(name: str) -> list[str]:
    """Return a set of open_clip as texts; its prompts are functions of the class name."""
    import open_clip  # noqa: PLC0415 - takes seconds, for a task that names a set

    return [item("{}") if callable(item) else item for item in getattr(open_clip, name)]
