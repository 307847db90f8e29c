"""Questions about images, whose answers are among given options.

A generative model is asked in one of three ways: by the log-likelihood of each option as the
answer; by letter, with the options listed, once in each cyclic order, so that preferring a letter's
place earns nothing; or in words, without the options. A reply that names no option, or several,
earns nothing and is counted.

Floors measure priors: `text_alone` is the accuracy of the same model without the image,
`another_image` with an image of another cluster, and `frequent_answer` is the accuracy of the
option that is right most often in other clusters. `accuracy_gain_over_text_alone` and
`accuracy_gain_from_image` are the differences to the first two, paired by item.

For questions with a `positive` answer, such as yes, the F1 of this answer and its frequency are
also scored (POPE, Li et al. 2023, arXiv:2305.10355, section 4). Replies in words are also parsed by
the rule of POPE's code: "no" if the first sentence, without its commas, contains the word No, no or
not, and otherwise "yes". By this rule a refusal counts as yes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from vlbench.asking.chooser import Chooser, look_up, way_of
from vlbench.asking.pair_scores import rows_of_other_clusters
from vlbench.asking.questions import QuestionItems, items_of, read_questions
from vlbench.capabilities import Answerer, AnswerScorer, NoAnswer, Recording, Reply
from vlbench.data.records import TestRows
from vlbench.engine import Engine
from vlbench.errors import SpecError
from vlbench.metrics.gains import ALONE, gains
from vlbench.metrics.intervals import Floats, fraction_of_sums
from vlbench.metrics.items import Examples, Measured
from vlbench.metrics.ranking import Choice
from vlbench.metrics.replies import Rule, judge, letters, place_of
from vlbench.probes.matching.credits import (
    Read,
    categories_of,
    mean_credit,
    report,
)
from vlbench.results import Outcome, Positive, Score

FREQUENT = "frequent_answer"
# The end of the names of scores by the rule of POPE's code.
PUBLISHED = "_published_rule"

NO_DIRECTION = "a fraction is neither good nor bad in itself"


def questions(  # noqa: PLR0913 - tasks fill them by name
    model: AnswerScorer | Answerer | Recording,
    data: TestRows,
    engine: Engine,
    *,
    asked: Literal["", "likelihood", "letter", "words"] = "",
    instruction: str = "",
    per_byte: bool = False,
    positive: str = "",
    read_by: Literal["one_label", "recorded_reading"] = "one_label",
    least: Positive = 1,
    sets: dict[str, str] | None = None,
    seed: int = 0,
) -> Outcome:
    """Return how often the reply to a question names a right option.

    Rows have an `image`, a `question`, `right_answers`, each the text of an option or its letter,
    and `options`, by default yes and no.

    Raises DataError if a right answer is not an option, and TooFewRows for fewer than two clusters.

    Args:
        asked: how a model is asked: by `likelihood`, by `letter` or in `words`; empty: by
            likelihood if it can, else by letter.
        instruction: text that follows each question.
        per_byte: whether log-likelihoods are divided by the length of the option in bytes of UTF-8.
        positive: option, such as yes, whose F1 and frequency are also scored, unless asked by
            letter; empty: no such scores.
        read_by: how a reply is read: it names exactly one label, or as the authors of a recording
            read it, if the recording states that; the metric is then `accuracy_recorded_reading`.
        least: fewest items, 1 or more, for a category to have a score.
        sets: by metric, the column that names the set of each item; all items of a set must be
            right.
        seed: seed that draws an image of another cluster for each item.
    """
    whole, way = data.splits["test"], way_of(model, asked)
    if positive and way == "letter":
        raise SpecError("`positive` needs answers by likelihood or in words, not by letter")
    items = read_questions(whole)
    match = look_up(model, whole, items.asked, items.right)
    if match.replies:
        items = read_questions(match.rows)
    rows, categories = match.rows, categories_of(match.rows)
    others = rows_of_other_clusters(items.examples.clusters, seed)
    chooser = Chooser(
        model, rows, engine, way, instruction=instruction, per_byte=per_byte, recorded=match.replies
    )
    pairs = items.asked, items.right
    replies = chooser.replies(range(len(rows)), items.asked)
    rules = chooser.by_rules(replies, *pairs)
    rule: Rule = read_by if read_by in rules else "one_label"
    judged = rules.get(rule) or chooser.judge(replies, *pairs, rule)
    notes = [*items.notes, *match.notes, *chooser.notes_on(judged), *chooser.notes()]
    metric = "accuracy" if rule == "one_label" else f"accuracy_{rule}"
    accuracy = items_of(metric, judged.choice, items)
    examples = items.examples._replace(categories=categories)
    floors = chooser.without_image(others, *pairs) | {FREQUENT: _frequent(items)}
    blind = [name for name in (ALONE, FREQUENT) if name in floors]
    accuracy = accuracy._replace(examples=examples, floors=floors, blind=blind)
    measured = gains(accuracy)
    if positive:
        measured += _of_positive(judged.choice, items, categories, replies, positive)
    table = chooser.reply_table(replies, *pairs, judged, items.examples.ids)
    read = Read(judged, rules, rule, table)
    outcome = report([accuracy], rows, least, sets, measured, read, whole=whole)
    counts = {"unparsed": judged.unparsed, "replies": sum(map(len, replies)), **match.counts}
    counts, notes = {**outcome.counts, **counts}, [*outcome.notes, *notes]
    return replace(outcome, counts=counts, notes=notes, asked_by=way)


def _frequent(items: QuestionItems) -> Choice:
    """Return the choice of the option that is right most often in other clusters.

    Options share the credit if their numbers differ by at most what the item's own cluster adds to
    an option: without that cluster, the most frequent option of balanced data would be wrong.
    """
    by_cluster: dict[str, Counter[str]] = {}
    for item, right, cluster in zip(items.asked, items.right, items.examples.clusters, strict=True):
        counts = by_cluster.setdefault(cluster, Counter())
        counts.update(item.options[number] for number in right)
    total = sum(by_cluster.values(), Counter[str]())
    replies = []
    for item, cluster in zip(items.asked, items.examples.clusters, strict=True):
        here = [by_cluster[cluster][option] for option in item.options]
        others = [total[option] - n for option, n in zip(item.options, here, strict=True)]
        most = max(others) - max(here)
        replies.append([Reply(tuple(range(len(here))), [float(min(n, most)) for n in others])])
    options = [item.options for item in items.asked]
    return judge(replies, options, items.right, letters).choice


def _of_positive(
    choice: Choice,
    items: QuestionItems,
    categories: Sequence[str],
    replies: Sequence[Sequence[Reply]],
    positive: str,
) -> list[Measured]:
    """Return the F1 of a positive answer and its frequency, over all items and by category."""
    places = [place_of(question.options, positive) for question in items.asked]
    truth = np.array([at in right for at, right in zip(places, items.right, strict=True)], float)
    # Tied likelihoods count as half of each answer; a text that names no option counts as neither.
    tied, is_positive = choice.tied.numpy(), choice.chosen.numpy() == np.array(places)
    says = np.where(tied, 0.5, is_positive).astype(float)
    in_words = isinstance(replies[0][0].said, str | NoAnswer)
    says_yes, credit = _read_as_published(replies, truth) if in_words else (says, says)
    rows_of = {"": np.ones(len(truth), bool)}
    rows_of |= {name: np.array(categories) == name for name in sorted({*categories})}
    measured = []
    for category, rows in rows_of.items():
        at = {"category": category} if category else {}
        examples = items.examples.select(np.flatnonzero(rows).tolist())
        measured += _rates("", at, examples, says[rows], truth[rows])
        if in_words:
            measured += _rates(PUBLISHED, at, examples, says_yes[rows], truth[rows])
            measured.append(mean_credit(f"accuracy{PUBLISHED}", at, credit[rows], examples, 0.5))
    return measured


def _read_as_published(replies: Sequence[Sequence[Reply]], truth: Floats) -> tuple[Floats, Floats]:
    """Return whether POPE's code reads each reply as yes, and the credit; no answer is never right.

    `truth` [N] is 1 if the positive answer is right.
    """
    texts = [group[0].said if isinstance(group[0].said, str) else None for group in replies]
    says_yes = np.array([text is not None and _says_yes(text) for text in texts], float)
    is_text = np.array([text is not None for text in texts])
    return says_yes, ((says_yes == truth) & is_text).astype(float)


def _says_yes(text: str) -> bool:
    """Return whether POPE's code reads a reply as yes."""
    sentence = text.partition(".")[0].replace(",", "")
    return not {"No", "no", "not"} & {*sentence.split(" ")}


def _rates(
    rule: str,
    at: Mapping[str, str],
    examples: Examples,
    says: Floats,
    truth: Floats,
) -> list[Measured]:
    """Return the F1 of the positive answer, and its frequency; each image is a cluster.

    F1 is 2 TP / (2 TP + FP + FN). The floor, always giving the positive answer, has F1 2 p / (1 +
    p) if a fraction p of the items is positive.
    """
    _, places = np.unique(examples.clusters, return_inverse=True)
    measured = []
    if truth.sum() + says.sum() > 0:
        hits, both = np.bincount(places, 2 * says * truth), np.bincount(places, says + truth)
        estimate, p = fraction_of_sums(hits, both), float(truth.mean())
        always = {"always_positive": 2 * p / (1 + p)}
        f1 = Score(f"f1{rule}", at=at, n=len(truth), floors=always, **estimate._asdict())
        measured.append(Measured(f1))
    frequency = mean_credit(f"positive_share{rule}", at, says, examples, None)
    score = replace(frequency.score, no_chance=NO_DIRECTION)
    return [*measured, frequency._replace(score=score)]
