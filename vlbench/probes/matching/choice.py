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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from vlbench.capabilities import (
    Answerer,
    AnswerScorer,
    DualEncoder,
    ImageTextScorer,
    Recording,
    Reply,
    count_truncated,
)
from vlbench.data.records import Column, Data, Split, examples_of_items, image_names, image_suffixes
from vlbench.engine import Engine
from vlbench.engine.asking import CANNOT, Asker, Question, likelihoods_alone, look_up, way_of
from vlbench.engine.pair_scores import PairScorer, rows_of_other_clusters
from vlbench.errors import CannotDo, DataError, TooFewRows
from vlbench.metrics.gains import ALONE, ANOTHER, gains
from vlbench.metrics.items import Examples, Items, Measured, Options, options_among
from vlbench.metrics.language_model import TextScorer, caption_words
from vlbench.metrics.ranking import Choice, choose_any, choose_first
from vlbench.metrics.replies import Judged
from vlbench.probes.matching.credits import categories_of, group_choice, report, without_image
from vlbench.probes.question_items import refuse_equal
from vlbench.results import Outcome, Positive

# `language_model` names splits whose captions are needed.
ChoiceRows = Annotated[Data, "test", "language_model"]

# Scores texts only, without an image, float64 [N].
TextRule = Callable[[list[str]], Tensor]

# The text rule whose scores are log-likelihoods.
TRIGRAM = "trigram"

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
    every = data.splits["test"]
    rows = whole = _without(every, omitted)
    counts = {"omitted": len(every) - len(rows)} if omitted else {}
    pairs = isinstance(model, ImageTextScorer | DualEncoder) and not asked
    way = "" if pairs else way_of(model, asked)
    rules, asker, scorers = _text_rules(data, language_model), None, list[RowScorer]()
    notes: list[str] = []
    if way in {"letter", "recorded"}:
        own = [Question("" if way == "recorded" else question, one) for one in _texts_of_one(rows)]
        known: list[list[Reply]] = []
        if isinstance(model, Recording):
            rows, known, of_recording, notes = look_up(model, rows, own, [[0]] * len(rows))
            counts |= of_recording
        asker = Asker(model, rows, engine, way or "letter", recorded=known)
    else:
        of_likelihood = question if way else ""
        scorers = [
            RowScorer(model, rows, end, engine, of_likelihood) for end in image_suffixes(rows)
        ]
        if way and getattr(model, "reads_text_alone", False):
            rules[ALONE] = partial(_alone, model, question, engine)
    questions = Questions(rows, scorers, rules, asker, question)
    asks = questions.asked(floors or {}, seed)
    if not asks:
        columns = ", ".join(sorted(rows.columns))
        raise DataError(f"the rows offer no choice: they need {WANTED}; they have {columns}")
    counts |= count_truncated(model, questions.texts)
    counts |= {"unparsed": questions.judged.unparsed} if questions.judged else {}
    more = [gained for one in asks for gained in _gains(one)]
    looks_away = not way or way == "recorded" or getattr(model, "reads_text_alone", False)
    notes += [] if looks_away else [CANNOT]
    notes += questions.notes
    more = more if way else []
    judged, same = questions.judged, questions.same_words
    outcome = report(asks, rows, least, sets, more, judged, whole=whole, same_words=same)
    by_scores = "score" if isinstance(model, ImageTextScorer) else "similarity"
    counts, notes = {**outcome.counts, **counts}, [*outcome.notes, *notes]
    return replace(outcome, counts=counts, notes=notes, asked_by=way or by_scores)


def _gains(items: Items) -> list[Measured]:
    """Return the gains of a metric over its floors without the image."""
    floors = {name: one.credit for name, one in items.floors.items() if isinstance(one, Choice)}
    return gains(items.metric, items.choice.credit, floors, items.examples)


def _texts_of_one(rows: Split) -> list[list[str]]:
    """Return the candidate texts for the image of each row, the right text first.

    Raises CannotDo if rows have several images.
    """
    if "foils" not in rows.columns or len(image_suffixes(rows)) > 1:
        raise CannotDo("a model asked in words can choose only among texts for one image")
    return [[one, *wrong] for one, wrong in zip(rows["caption"], rows["foils"], strict=True)]


def _alone(model: Any, question: str, engine: Engine, texts: list[str]) -> Tensor:
    """Return the log-likelihood of texts without an image, float64 [N]."""
    return torch.tensor(likelihoods_alone(model, question, texts, engine), dtype=torch.float64)


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


class RowScorer:
    """Scores texts for the images of rows; an image of several rows is encoded once."""

    def __init__(self, model: Any, rows: Split, suffix: str, engine: Engine, question: str) -> None:
        """Use the columns `image` and `picture` with this suffix."""
        image, picture = rows["image" + suffix], rows["picture" + suffix]
        # Images of the same content may have different regions.
        own_regions = f"regions{suffix}" in rows.columns
        by_content = image.digests and not own_regions
        keys = [image.digests[row] for row in image.rows] if by_content else [*image.rows]
        first = {key: row for row, key in reversed([*enumerate(keys)])}
        places = {key: place for place, key in enumerate(first)}
        self._places = [places[key] for key in keys]
        distinct = Split({"image": image, "picture": picture}).select([*first.values()])
        self._scorer = PairScorer(model, distinct, engine, question)
        self.log_odds = self._scorer.log_odds

    def __call__(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the score of each text for the image of its row, float32 [N]."""
        return self._scorer([self._places[row] for row in rows], texts)


class Questions:
    """The questions of a split's rows; `scorers` score `image`, `image_2` and so on, in order.

    `rules`, by name, choose a text without an image. An `asker` asks by letter and replaces the
    scorers.
    """

    def __init__(
        self,
        rows: Split,
        scorers: Sequence[RowScorer],
        rules: Mapping[str, TextRule],
        asker: Asker | None = None,
        question: str = "",
    ) -> None:
        self._rows, self._scorers, self._rules = rows, scorers, rules
        self._asker, self._question = asker, question
        self.judged: Judged | None = None
        self.notes: list[str] = []
        # By metric, the rows whose candidates have the same words.
        self.same_words: dict[str, list[bool]] = {}
        # The choices whose scores are on a log scale: names of floors, and "" for the model.
        of_model = bool(scorers) and scorers[0].log_odds
        self._log_odds = {"": of_model, ANOTHER: of_model, TRIGRAM: True, ALONE: True}
        self._captions = [*rows["caption"]]
        self._foils = [*rows["foils"]] if "foils" in rows.columns else []
        self._seconds = [*rows["caption_2"]] if "caption_2" in rows.columns else []
        self._examples = self._named_examples()

    @property
    def texts(self) -> list[str]:
        """All texts that are scored."""
        return [*self._captions, *chain(*self._foils), *self._seconds]

    def asked(self, seen: Mapping[str, str], seed: int) -> list[Items]:
        """Return the items of each metric; `seen` has the column of each floor that sees words."""
        others = rows_of_other_clusters(self._examples.clusters, seed)
        if self._seconds and len(self._scorers) > 1:
            return self._twins(seen, others)
        texts = [self._choose_texts(seen, others)] if self._foils else []
        images = [self._choose_images(others)] if len(self._scorers) > 1 else []
        return [*texts, *images]

    def _choose_texts(self, seen: Mapping[str, str], others: Sequence[int]) -> Items:
        """Ask for the caption of an image among its foils."""
        texts = [
            [caption, *wrong] for caption, wrong in zip(self._captions, self._foils, strict=True)
        ]
        refuse_equal(texts)
        rows = range(len(texts))
        every = [*chain(*texts)]

        def of_images(places: Sequence[int]) -> Tensor:
            repeated = [i for i, own in zip(places, texts, strict=True) for _ in own]
            return self._scorers[0](repeated, every).double()

        tables = {name: rule(every) for name, rule in self._rules.items()}
        tables |= {name: _bag(self._rows[column], texts) for name, column in seen.items()}
        sizes = [len(own) for own in texts]
        if not self._asker:
            tables |= {ANOTHER: of_images(others), "": of_images(rows)}
        choices = {
            name: choose_first(table, sizes, log_odds=self._log_odds.get(name, False))
            for name, table in tables.items()
        }
        if self._asker:
            choices |= self._ask_for_letters(self._asker, texts, others)
        own = choices.pop("")
        self.same_words["text_accuracy"] = [
            len({_bag_key(text) for text in own_texts}) == 1 for own_texts in texts
        ]
        chances = [1 / size for size in sizes]
        return _items("text_accuracy", own, texts, chances, self._examples, choices, self._rules)

    def _ask_for_letters(
        self, asker: Asker, texts: Sequence[Sequence[str]], others: Sequence[int]
    ) -> dict[str, Choice]:
        """Return the choices of a model among lettered texts, under "", and of its floors."""
        asked, right = [Question(self._question, own) for own in texts], [[0]] * len(texts)
        self.judged = asker.judge(range(len(texts)), asked, right)
        # If no reply names an option, the floors need not be asked.
        self.notes = asker.notes_on(self.judged)
        return {"": self.judged.choice, **without_image(asker, others, asked, right)}

    def _choose_images(self, others: Sequence[int]) -> Items:
        """Ask for the image of a caption among other images."""
        rows = range(len(self._captions))

        def of_captions(captions: list[str]) -> Choice:
            table = torch.stack([score(rows, captions) for score in self._scorers], 1)
            sizes = [len(self._scorers)] * len(rows)
            return choose_first(table.flatten(), sizes, log_odds=self._log_odds[""])

        other = of_captions([self._captions[i] for i in others])
        chance = [1 / len(self._scorers)] * len(rows)
        own, names = of_captions(self._captions), image_names(self._rows)
        return _items("image_accuracy", own, names, chance, self._examples, {"another_text": other})

    def _twins(self, seen: Mapping[str, str], others: Sequence[int]) -> list[Items]:
        """Ask for the captions of two images, and for the images of two captions."""
        pairs = [list(pair) for pair in zip(self._captions, self._seconds, strict=True)]
        refuse_equal(pairs)
        tables = {"": self._tables(pairs, range(len(pairs)))}
        tables[ANOTHER] = self._tables(pairs, others)
        for name, rule in self._rules.items():
            by_text = torch.stack([rule([*of_side]) for of_side in zip(*pairs, strict=True)], 1)
            tables[name] = by_text[:, None].expand(-1, 2, -1)
        for name, column in seen.items():
            sides = [self._rows[column + suffix] for suffix in ("", "_2")]
            bags = [_bag(words, pairs).view(-1, 2) for words in sides]
            tables[name] = torch.stack(bags, 1)
        same = [_bag_key(first) == _bag_key(second) for first, second in pairs]
        choices = {
            name: twin_choices(table, log_odds=self._log_odds.get(name, False))
            for name, table in tables.items()
        }
        own, examples = choices.pop(""), self._examples
        digests = [self._rows[name].examples().digests for name in ("image", "image_2")]
        of_both = _of_both(examples)._replace(images=[*chain(*zip(*digests, strict=True))])
        candidates = {"text_accuracy": pairs, "image_accuracy": image_names(self._rows)}
        asked, blind = [], tuple(self._rules)
        for metric, choice_of_model in own.items():
            of_sides = metric in candidates
            texts = [one for one in candidates[metric] for _ in range(2)] if of_sides else []
            chance = {"group_score": 1 / 6}.get(metric, 0.5 if of_sides else 0.25)
            asked.append(
                _items(
                    metric,
                    choice_of_model,
                    texts,
                    [chance] * len(choice_of_model.credit),
                    of_both if of_sides else examples,
                    {name: of_floor[metric] for name, of_floor in choices.items()},
                    blind if metric == "text_accuracy" else (),
                    [0, 1] * len(pairs),
                )
            )
            self.same_words[metric] = same
        return asked

    def _tables(self, pairs: Sequence[Sequence[str]], rows: Sequence[int]) -> Tensor:
        """Return the scores of both images of some rows with both texts, float64 [N, 2, 2]."""
        repeated, texts = [row for row in rows for _ in range(2)], [*chain(*pairs)]
        by_image = [score(repeated, texts).double().view(-1, 2) for score in self._scorers[:2]]
        return torch.stack(by_image, 1)

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
        return examples._replace(clusters=["/".join(own) for own in zip(*columns, strict=True)])


def twin_choices(table: Tensor, *, log_odds: bool = False) -> dict[str, Choice]:
    """Return the choices of twins by metric, from scores float64 [N, 2, 2] of images with texts.

    The first text is right for the first image, the second text for the second image.
    """
    right = torch.eye(2, dtype=torch.bool).expand(table.shape)
    texts, images = (
        choose_any(one, right, log_odds=log_odds) for one in (table, table.transpose(1, 2))
    )
    return {
        "text_accuracy": Choice(*(part.flatten() for part in texts)),
        "image_accuracy": Choice(*(part.flatten() for part in images)),
        "text_score": _both(texts),
        "image_score": _both(images),
        "group_score": group_choice(table, log_odds=log_odds),
    }


def _both(choices: Choice) -> Choice:
    tied = choices.tied.any(1)
    return Choice(choices.credit.prod(1), tied, torch.full(tied.shape, -1))


def _of_both(examples: Examples) -> Examples:
    """Return the examples of both sides of twins; both sides are in one cluster."""
    ids = [f"{one}/{side}" for one in examples.ids for side in (1, 2)]
    digests = [one for one in examples.digests for _ in range(2)]
    clusters, categories = (
        [one for one in column for _ in range(2)]
        for column in (examples.clusters, examples.categories)
    )
    return Examples(ids, digests, clusters, categories=categories)


def _items(
    metric: str,
    own: Choice,
    candidates: Sequence[Sequence[str]],
    chance: Sequence[float],
    examples: Examples,
    floors: Mapping[str, Choice],
    blind: Iterable[str] = (),
    right: Sequence[int] = (),
) -> Items:
    """Return the items of a metric; the first candidates are right, unless `right` has others.

    Without candidates, choices have no answers.
    """
    if not candidates:
        return Items(metric, own, examples, Options((), (), chance), floors)
    places = right or [0] * len(candidates)
    own, options = options_among(candidates, own, places, chance)
    return Items(metric, own, examples, options, floors, blind=tuple(blind))


def _bag(words: Column, texts: Sequence[Sequence[str]]) -> Tensor:
    """Return the number of true words of each text minus the number of its other words."""
    scores = []
    for true, own in zip(words, texts, strict=True):
        known = {word for one in true for word in caption_words(one)}
        for text in own:
            are_true = [word in known for word in caption_words(text)]
            scores.append(2.0 * sum(are_true) - len(are_true))
    return torch.tensor(scores, dtype=torch.float64)


def _bag_key(text: str) -> tuple[str, ...]:
    """Return the sorted words of a text; words joined by punctuation are split."""
    return tuple(sorted(re.findall(r"[\w']+", text.lower())))
