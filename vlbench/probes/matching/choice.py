"""Choices between right and wrong: a text for an image, an image for a text, or both at once.

The columns of a row determine its question:

- `foils`, wrong texts beside the right `caption`: `text_accuracy` is how often the caption has the
  highest score for the image.
- `image_2`, `image_3` and so on, wrong images beside the right `image`: `image_accuracy` is how
  often the image has the highest score for the caption.
- `image_2` with its own `caption_2`, twins: both accuracies, over both images and over both
  captions, and the scores of Winoground (Thrush et al. 2022, arXiv:2204.03162, section 4):
  `text_score`, both images have their caption; `image_score`, both captions have their image;
  `group_score`, both. Chance is 1/4, 1/4 and 1/6.

`sets: {pair_accuracy: pair}`, given a column that names sets of items, scores how often all items
of a set are right, for the first question. A model that answers all items alike has no set right.

Tied candidates share the credit, as if all their orders were equally likely, also in the group
score and in sets. Items of a `cluster` (by default of an image) are treated as dependent.

A generative model is asked `question`: the score of a text is its log-likelihood as the answer
(VisualGPTScore, Lin et al. 2024, arXiv:2306.01879). It can also be asked by letter if an image has
several texts. The gain from the image is scored beside the accuracy. Answers by letter, and
recorded answers, are also scored by the place of the right option (`right_option`), in all orders,
and, if there are two options, by how much more items earn at the first place (`..._order_effect`).

Floors are choices without the image: the longest or the shortest text, the most probable text under
a trigram model of the captions of the splits `language_model`, and the model's choice for the image
of another cluster (`another_image`), or for a caption of another cluster (`another_text`). A floor
by a column, `floors: {seeing_bag: words}`, knows the words that are true of an image, in any order:
the score of a text is the number of its words that are true minus the number that are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from torch import Tensor

from vlbench.asking.chooser import BY_SCORES, Chooser, RecordedRows, look_up, way_of
from vlbench.asking.pair_scores import rows_of_other_clusters
from vlbench.asking.questions import ask_for_captions, first_case_notes, refuse_equal
from vlbench.capabilities import (
    Answerer,
    AnswerScorer,
    DualEncoder,
    ImageTextScorer,
    Recording,
    count_truncated,
)
from vlbench.data.records import Column, Data, Split, examples_of_items, image_names, image_suffixes
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows
from vlbench.metrics.gains import ALONE, ANOTHER, gains
from vlbench.metrics.items import Examples, Items, Options, options_among
from vlbench.metrics.language_model import TextScorer, caption_words
from vlbench.metrics.ranking import Choice, choose_any, choose_first
from vlbench.metrics.replies import Judged, Rule
from vlbench.probes.matching.credits import Read, categories_of, group_choice, report
from vlbench.results import Outcome, Positive

if TYPE_CHECKING:  # planning a run must not wait for it
    import pyarrow as pa

# `language_model` names splits whose captions are needed.
ChoiceRows = Annotated[Data, "test", "language_model"]

# Scores texts only, without an image, float64 [N].
TextRule = Callable[[list[str]], Tensor]

# The text rule whose scores are log-likelihoods.
TRIGRAM = "trigram"

# The chance levels of the scores of twins. Their accuracies are choices between two: 1/2.
TWIN_CHANCE = {"text_score": 1 / 4, "image_score": 1 / 4, "group_score": 1 / 6}

# The default question to a generative model.
QUESTION = "Which caption fits the image?"

WANTED = "`foils`, `image_2`, or `image_2` and `caption_2`, beside `image` and `caption`"


def choice(  # noqa: PLR0913 - tasks fill them by name
    model: ImageTextScorer | DualEncoder | AnswerScorer | Answerer | Recording,
    data: ChoiceRows,
    engine: Engine,
    *,
    asked: Literal["", "likelihood", "letter"] = "",
    question: str = QUESTION,
    floors: dict[str, str] | None = None,
    language_model: Sequence[str] = (),
    omitted: Sequence[str] = (),
    least: Positive = 1,
    sets: dict[str, str] | None = None,
    seed: int = 0,
) -> Outcome:
    """Return how often the right text, the right image, or both score highest.

    Raises DataError for rows without a choice, or with a foil equal to the caption, and TooFewRows
    for fewer than two clusters.

    Args:
        asked: how a model is asked: by `likelihood` or `letter`; empty: by similarity or matching
            scores if it has them, else by likelihood, else by letter.
        question: question to a generative model; the texts are its answers.
        floors: by name of a floor, the column with the words that are true of each image.
        language_model: splits whose captions train the trigram model that is a floor; empty: no
            such floor.
        omitted: categories whose items are left out.
        least: fewest items, 1 or more, for a category to have a score and to be part of the mean
            over categories, `..._macro`.
        sets: by metric, the column that names the set of each item; all items of a set must be
            right.
        seed: seed that draws an image, and a caption, of another cluster for each item.
    """
    whole = _without(data.splits["test"], omitted)
    way, recorded = way_of(model, asked, by_scores=True), RecordedRows(whole)
    if way in {"letter", "recorded"}:
        if "foils" not in whole.columns or len(image_suffixes(whole)) > 1:
            raise CannotDo("a model asked in words can choose only among texts for one image")
        recorded = look_up(model, whole, ask_for_captions(whole), [[0]] * len(whole))
    rows = recorded.rows
    chooser = Chooser(model, rows, engine, way, recorded=recorded.replies)
    rules = _text_rules(data, language_model)
    candidates = Candidates(rows, chooser, rules, question, floors or {}, seed)
    of_metrics = candidates.choose()
    if not of_metrics:
        columns = ", ".join(sorted(rows.columns))
        raise DataError(f"the rows offer no choice: they need {WANTED}; they have {columns}")
    judged, same_words = candidates.judged, candidates.same_words
    differences = [] if way in BY_SCORES else [*chain(*map(gains, of_metrics))]
    read = Read(judged, candidates.rules, table=candidates.reply_table)
    outcome = report(
        of_metrics, rows, least, sets, differences, read, whole=whole, same_words=same_words
    )
    counts = {**outcome.counts, **recorded.counts}
    counts |= {"omitted": len(data.splits["test"]) - len(whole)} if omitted else {}
    counts |= count_truncated(model, candidates.texts)
    counts |= {"repeated_foils": candidates.repeated} if candidates.repeated else {}
    counts |= {"unparsed": judged.unparsed} if judged and judged.labelled else {}
    notes = [*outcome.notes, *recorded.notes, *chooser.notes(), *candidates.notes]
    return replace(outcome, counts=counts, notes=notes, asked_by=way)


def _without(rows: Split, omitted: Sequence[str]) -> Split:
    if not omitted:
        return rows
    kept = [i for i, name in enumerate(rows["category"]) if name not in omitted]
    if not kept:
        raise TooFewRows("every item is of an omitted category")
    return rows.select(kept)


def _text_rules(data: Data, language_model: Sequence[str]) -> dict[str, TextRule]:
    """Return rules that choose a text without an image."""
    rules: dict[str, TextRule] = {"longest_text": _length, "shortest_text": lambda t: -_length(t)}
    if language_model:
        read = chain.from_iterable(data.splits[name]["captions"] for name in language_model)
        rules[TRIGRAM] = TextScorer(read)
    return rules


def _length(texts: Sequence[str]) -> Tensor:
    return torch.tensor([float(len(text)) for text in texts], dtype=torch.float64)


class Candidates:
    """The candidates of a split's rows, and the choices of a model and of rules among them.

    `rules`, by name, choose a text without an image; `true_words` has, by name of a rule, the
    column of the words that it knows to be true. Other images, and captions, are drawn by the seed.
    `choose` sets `judged`, `rules`, `reply_table`, `notes` and `repeated` if it asks for texts.
    """

    def __init__(
        self,
        rows: Split,
        chooser: Chooser,
        rules: Mapping[str, TextRule],
        question: str,
        true_words: Mapping[str, str],
        seed: int,
    ) -> None:
        self._rows, self._chooser, self._text_rules = rows, chooser, rules
        self._question, self._true_words = question, true_words
        self.judged: Judged | None = None
        self.rules: Mapping[Rule, Judged] = {}
        self.reply_table: pa.Table | None = None
        self.notes: list[str] = []
        # The number of foils that equal another foil of their row.
        self.repeated = 0
        # By metric, the rows whose candidates have the same words.
        self.same_words: dict[str, list[bool]] = {}
        self._captions = [*rows["caption"]]
        self._foils = [*rows["foils"]] if "foils" in rows.columns else []
        self._seconds = [*rows["caption_2"]] if "caption_2" in rows.columns else []
        self._examples = self._named_examples()
        self._others = rows_of_other_clusters(self._examples.clusters, seed)

    @property
    def texts(self) -> list[str]:
        """All texts that are scored."""
        return [*self._captions, *chain(*self._foils), *self._seconds]

    def choose(self) -> list[Items]:
        """Return the items of each metric; none if the rows offer no choice."""
        has_others = len(image_suffixes(self._rows)) > 1
        if self._seconds and has_others:
            return self._choose_both()
        texts = [self._choose_texts()] if self._foils else []
        return [*texts, self._choose_images()] if has_others else texts

    def _choose_texts(self) -> Items:
        """Choose the caption of an image among its foils."""
        questions = ask_for_captions(self._rows, self._question)
        texts, right = [question.options for question in questions], [[0]] * len(questions)
        every, sizes = [*chain(*texts)], [*map(len, texts)]
        replies = self._chooser.replies(range(len(texts)), questions)
        self.rules = self._chooser.by_rules(replies, questions, right)
        judged = self.rules.get("one_label") or self._chooser.judge(replies, questions, right)
        # Raises if no reply names an option; the floors are then not asked.
        self.judged, self.notes = judged, self._chooser.notes_on(judged)
        self.notes += first_case_notes("captions and foils", texts)
        ids = self._examples.ids
        self.reply_table = self._chooser.reply_table(replies, questions, right, judged, ids)
        self.repeated = sum(map(len, self._foils)) + len(texts) - len(every)
        self.same_words["text_accuracy"] = [*map(_have_same_words, texts)]
        scores = {name: rule(every) for name, rule in self._text_rules.items()}
        for name, column in self._true_words.items():
            scores[name] = _count_true_words(self._rows[column], texts)
        floors = {
            name: choose_first(of_rule, sizes, log_odds=name == TRIGRAM)
            for name, of_rule in scores.items()
        }
        floors |= self._chooser.without_image(self._others, questions, right)
        chance, blind = [1 / size for size in sizes], {*self._text_rules, ALONE}
        return _items("text_accuracy", judged.choice, texts, chance, self._examples, floors, blind)

    def _choose_images(self) -> Items:
        """Choose the image of a caption among other images."""
        rows, count = range(len(self._captions)), len(image_suffixes(self._rows))

        def images_of(captions: Sequence[str]) -> Choice:
            scores = self._chooser.table(rows, [[caption] for caption in captions], self._question)
            sizes, log_odds = [count] * len(rows), self._chooser.log_odds
            return choose_first(scores.flatten(), sizes, log_odds=log_odds)

        floors = {"another_text": images_of([self._captions[i] for i in self._others])}
        chosen, names = images_of(self._captions), image_names(self._rows)
        chance = [1 / count] * len(rows)
        return _items("image_accuracy", chosen, names, chance, self._examples, floors)

    def _choose_both(self) -> list[Items]:
        """Choose the caption of each of two images, and the image of each of two captions."""
        pairs = [list(pair) for pair in zip(self._captions, self._seconds, strict=True)]
        refuse_equal(pairs)
        choices = self._twin_choices(pairs)
        of_model = choices.pop("")
        same = [*map(_have_same_words, pairs)]
        self.same_words = dict.fromkeys(of_model, same)
        digests = [self._rows[name].examples().digests for name in ("image", "image_2")]
        of_sides = _of_sides(self._examples)._replace(images=[*chain(*zip(*digests, strict=True))])
        candidates = {"text_accuracy": pairs, "image_accuracy": image_names(self._rows)}
        items = []
        for metric, chosen in of_model.items():
            # An accuracy has an item for each side of a row; a score has an item for the row.
            texts = [text for text in candidates.get(metric, ()) for _ in range(2)]
            examples = of_sides if texts else self._examples
            chance = [TWIN_CHANCE.get(metric, 1 / 2)] * len(chosen.credit)
            floors = {name: of_floor[metric] for name, of_floor in choices.items()}
            blind = {*self._text_rules, ALONE} if metric == "text_accuracy" else ()
            right = [0, 1] * len(pairs)
            items.append(_items(metric, chosen, texts, chance, examples, floors, blind, right))
        return items

    def _twin_choices(self, pairs: Sequence[Sequence[str]]) -> dict[str, dict[str, Choice]]:
        """Return `twin_choices` of the model, by the name "", and of each floor."""
        views: dict[str, Sequence[int | None]] = {"": range(len(pairs)), ANOTHER: self._others}
        views |= {ALONE: [None] * len(pairs)} if self._chooser.reads_text_alone else {}
        scores = {
            name: self._chooser.table(rows, pairs, self._question)[:, :2]
            for name, rows in views.items()
        }
        for name, rule in self._text_rules.items():
            of_texts = torch.stack([rule([*side]) for side in zip(*pairs, strict=True)], 1)
            scores[name] = of_texts[:, None].expand(-1, 2, -1)
        for name, column in self._true_words.items():
            words = [self._rows[column + suffix] for suffix in ("", "_2")]
            counts = [_count_true_words(of_image, pairs).view(-1, 2) for of_image in words]
            scores[name] = torch.stack(counts, 1)
        are_log_odds = {TRIGRAM} | ({*views} if self._chooser.log_odds else set())
        return {
            name: twin_choices(table, log_odds=name in are_log_odds)
            for name, table in scores.items()
        }

    def _named_examples(self) -> Examples:
        """Return examples that identify each item by its image and row number.

        If no column names clusters, they are the images of a row (both images of twins).
        """
        content = zip(*filter(None, (self._captions, self._foils, self._seconds)), strict=True)
        examples = examples_of_items(self._rows, "caption", content)
        examples = examples._replace(categories=categories_of(self._rows))
        if "cluster" in self._rows.columns:
            return examples
        names = ["image", "image_2"] if self._seconds else ["image"]
        columns = [
            self._rows[name].examples().digests for name in names if name in self._rows.columns
        ]
        return examples._replace(clusters=["/".join(parts) for parts in zip(*columns, strict=True)])


def twin_choices(table: Tensor, *, log_odds: bool = False) -> dict[str, Choice]:
    """Return the choices of twins by metric, from scores float64 [N, 2, 2] of images with texts.

    The first text is right for the first image, the second text for the second image.
    """
    right = torch.eye(2, dtype=torch.bool).expand(table.shape)
    texts, images = (
        choose_any(scores, right, log_odds=log_odds) for scores in (table, table.transpose(1, 2))
    )
    return {
        "text_accuracy": Choice(*(part.flatten() for part in texts)),
        "image_accuracy": Choice(*(part.flatten() for part in images)),
        "text_score": _both_right(texts),
        "image_score": _both_right(images),
        "group_score": group_choice(table, log_odds=log_odds),
    }


def _both_right(choices: Choice) -> Choice:
    """Return whether both choices of a row are right, from choices [N, 2]."""
    tied = choices.tied.any(1)
    return Choice(choices.credit.prod(1), tied, torch.full(tied.shape, -1))


def _of_sides(examples: Examples) -> Examples:
    """Return two examples for each row of twins; both sides are in one cluster."""
    ids = [f"{name}/{side}" for name in examples.ids for side in (1, 2)]
    digests = [digest for digest in examples.digests for _ in range(2)]
    clusters, categories = (
        [value for value in column for _ in range(2)]
        for column in (examples.clusters, examples.categories)
    )
    return Examples(ids, digests, clusters, categories=categories)


def _items(
    metric: str,
    chosen: Choice,
    candidates: Sequence[Sequence[str]],
    chance: Sequence[float],
    examples: Examples,
    floors: Mapping[str, Choice],
    blind: Collection[str] = (),
    right: Sequence[int] = (),
) -> Items:
    """Return the items of a metric; the first candidates are right, unless `right` has others.

    Floors in `blind` use no image. Without candidates, choices have no answers.
    """
    if not candidates:
        return Items(metric, chosen, examples, Options((), (), chance), floors)
    places = right or [0] * len(candidates)
    chosen, options = options_among(candidates, chosen, places, chance)
    are_blind = tuple(name for name in floors if name in blind)
    return Items(metric, chosen, examples, options, floors, blind=are_blind)


def _count_true_words(words: Column, texts: Sequence[Sequence[str]]) -> Tensor:
    """Return the number of true words of each text minus the number of its other words, [texts].

    `words` has, for each row, texts whose words are true of its image.
    """
    scores = []
    for true, candidates in zip(words, texts, strict=True):
        vocabulary = {word for text in true for word in caption_words(text)}
        for text in candidates:
            are_true = [word in vocabulary for word in caption_words(text)]
            scores.append(2.0 * sum(are_true) - len(are_true))
    return torch.tensor(scores, dtype=torch.float64)


def _have_same_words(texts: Sequence[str]) -> bool:
    """Return whether texts differ only in the order of words; punctuation splits words."""
    return len({tuple(sorted(re.findall(r"[\w']+", text.lower()))) for text in texts}) == 1
