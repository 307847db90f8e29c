"""A model's choices among candidates, however it is asked.

A model with two towers or a matching head gives each candidate text a score; a generative model is
asked by the log-likelihood of each option as the answer, by letter, or in words; a recording is
looked up. `vlbench.metrics.replies` scores the replies, in the same way for all models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from vlbench.asking.pair_scores import PairScorer, pictures_of
from vlbench.asking.questions import Question
from vlbench.capabilities import (
    UNSTATED,
    Answerer,
    AnswerScorer,
    Asked,
    DualEncoder,
    ImageTextScorer,
    NoAnswer,
    Recording,
    Reply,
    first_misfit,
)
from vlbench.data.records import Split, image_suffixes
from vlbench.engine import Engine
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import CannotDo, DataError, ServerError
from vlbench.metrics.gains import ALONE, ANOTHER
from vlbench.metrics.ranking import Choice
from vlbench.metrics.replies import (
    LABELS,
    MOST_LETTERS,
    Judged,
    Labels,
    Rule,
    judge,
    letters,
    reply_table,
    words,
)

if TYPE_CHECKING:  # planning a run must not wait for it
    import pyarrow as pa

# How to ask a model: by the log-likelihood of each option as the answer; with lettered options,
# in all cyclic orders; or without options, for an answer in words. A recording is looked up.
# A model with towers or a matching head is not asked: its similarities or scores are compared.
Way = Literal["similarity", "score", "likelihood", "letter", "words", "recorded"]
BY_SCORES = ("similarity", "score")

# The note on a row of a model that always needs an image.
CANNOT = "the model cannot be asked without an image, so its priors are not measured as a floor"

# The answers to the first questions, asked again one by one.
AGAIN = (
    "{} of the first {} questions are answered otherwise if each is asked by itself: {!r:.60}, not "
    "{!r:.60}; unless answers are drawn at random, look at their order and at padding"
)

ASK_FOR_LETTER = "Answer with the letter of the right option only."

# The largest fraction of answers that may be lacking for reasons that may pass.
MOST_LACKING = 0.01

# What to do if no reply names an option.
LABELS_OF_RECORDING = (
    "the recording was read with --model-args labels={}; if its answers name options otherwise, "
    f"give another of {', '.join(LABELS)}"
)
WANTED_REPLY = (
    "a reply must contain the {} of an option and no other; look at the model's prompt and at how "
    "long its replies may be; if its adapter has score_answers, it is asked by likelihood instead"
)


def way_of(model: Any, asked: str = "", *, by_scores: bool = False) -> Way:
    """Return how to ask a model: as `asked` states, else by likelihood, else by letter.

    For a recording it is always "recorded". With `by_scores`, scores and similarities come first.
    Raises CannotDo if the model cannot be asked so.
    """
    if isinstance(model, Recording):
        return "recorded"
    if by_scores and not asked and isinstance(model, ImageTextScorer | DualEncoder):
        return "score" if isinstance(model, ImageTextScorer) else "similarity"
    way = asked or ("likelihood" if isinstance(model, AnswerScorer) else "letter")
    needed = AnswerScorer if way == "likelihood" else Answerer
    if not isinstance(model, needed):
        raise CannotDo(f"it does not implement {needed.__name__}, which `asked: {way}` needs")
    return cast("Way", way)


class RecordedRows(NamedTuple):
    """The rows of a split that have recorded replies, these replies, and what was not used.

    For a model that is no recording, all rows, and no replies.
    """

    rows: Split
    replies: Sequence[list[Reply]] = ()
    counts: Mapping[str, int] = {}
    notes: Sequence[str] = ()


def look_up(
    model: Any, rows: Split, questions: Sequence[Question], right: Sequence[Sequence[int]]
) -> RecordedRows:
    """Return the recorded replies to questions about the rows of a split.

    An item's index is that of its row in the whole data, before rows were drawn. Raises DataError
    if no row has a reply, for a reply whose order or scores do not fit the item's options, and for
    a recording that states another right answer.
    """
    if not isinstance(model, Recording):
        return RecordedRows(rows)
    names = rows["image"].ids
    categories = [*rows["category"]] if "category" in rows.columns else [""] * len(rows)
    places = indices(rows)
    items = [
        Asked(name, tuple(query.options), query.text, category, place)
        for name, query, category, place in zip(names, questions, categories, places, strict=True)
    ]
    replies = model.replies(items)
    for item, true, of_item in zip(items, right, replies, strict=True):
        for reply in of_item:
            _require_fit(reply, item)
            _require_target(reply, item, true)
    kept = [row for row, group in enumerate(replies) if group]
    notes = [f"answers: {note}" for note in getattr(model, "notes", ())]
    absent = [name for name, group in zip(names, replies, strict=True) if not group]
    if not kept:
        what = f"the recording has none of the {len(rows)} items, such as {names[0]:.80}"
        raise DataError("; ".join([what, *notes]))
    if absent:
        lack = f"none for {len(absent):,} of {len(rows):,} items, for example {absent[0]:.80}"
        notes.append(f"answers: {lack}")
    counts = {"unanswered": len(absent), **getattr(model, "counts", {})}
    return RecordedRows(rows.select(kept), [replies[row] for row in kept], counts, notes)


def indices(rows: Split) -> Sequence[int]:
    """Return the index of each item in the whole data, before rows were drawn."""
    return rows["question" if "question" in rows.columns else "caption"].rows


def _require_fit(reply: Reply, item: Asked) -> None:
    count = len(item.texts)
    if sorted(reply.order) != [*range(count)]:
        raise DataError(
            f"{item.image:.80}: the order {reply.order} is not an order of {count} options"
        )
    if isinstance(reply.said, str | NoAnswer):
        return
    if len(reply.said) != count:
        raise DataError(f"{item.image:.80}: {len(reply.said)} scores for {count} options")
    if misfit := first_misfit(UNSTATED, torch.tensor(reply.said)):
        raise DataError(f"{item.image:.80}: a score is {reply.said[misfit[0]]}; {misfit[1]}")


def _require_target(reply: Reply, item: Asked, right: Sequence[int]) -> None:
    """Raise DataError if a recording states that another option is right."""
    stated = [i for i, text in enumerate(item.texts) if text == reply.target]
    if stated and not {*stated} & {*right}:
        truth = ", ".join(item.texts[i] for i in right)
        what = f"right is {reply.target!r:.80} in the recording and {truth!r:.80} in the data"
        raise DataError(f"{item.image:.80}, {item.question:.80}: {what}")


class Chooser:
    """Lets a model choose among candidates, for the rows of a split, in a `way`.

    The work is spread over the processes. `instruction` follows each question. `per_byte` divides
    the log-likelihood of an option by the length of its text in UTF-8, as lm-eval's `acc_norm`
    does. `recorded` contains the replies to each row, for a recording.
    """

    def __init__(
        self,
        model: Any,
        rows: Split,
        engine: Engine,
        way: Way,
        *,
        instruction: str = "",
        per_byte: bool = False,
        recorded: Sequence[list[Reply]] = (),
    ) -> None:
        self._model, self._rows, self._engine, self.way = model, rows, engine, way
        self._instruction, self._per_byte = instruction, per_byte
        self.labels: Labels = words if way == "words" else letters
        self._recorded = recorded
        # The first questions that were asked, and their answers.
        self._first: dict[tuple[int | None, str], str | NoAnswer] = {}
        if way == "recorded":
            self.labels = LABELS[model.labels]
        by_likelihood = way == "likelihood"
        self._scorers = [
            PairScorer(model, rows, engine, answers=by_likelihood, suffix=suffix)
            for suffix in (image_suffixes(rows) if by_likelihood or way in BY_SCORES else ())
        ]
        # Whether scores have no upper bound, for ties.
        self.log_odds = not self._scorers or self._scorers[0].log_odds

    @property
    def reads_text_alone(self) -> bool:
        """Whether the model can be asked without a picture."""
        is_asked = self.way not in {*BY_SCORES, "recorded"}
        return is_asked and bool(getattr(self._model, "reads_text_alone", False))

    def notes(self) -> list[str]:
        """Return notes on what cannot be measured, and on answers that depend on other questions.

        The first questions are asked again, each by itself: without that, answers in another order,
        or changed by padding, look like mistakes of the model.
        """
        looks_away = self.reads_text_alone or self.way in {*BY_SCORES, "recorded"}
        notes = [] if looks_away else [CANNOT]
        first = [*self._first.items()]
        again = self._engine.spread(self._one_by_one, [pair for pair, _ in first])
        changed = [
            (answer, other)
            for (_, answer), other in zip(first, again, strict=True)
            if answer != other and isinstance(answer, str) and isinstance(other, str)
        ]
        if changed:
            answer, other = changed[0]
            notes.append(AGAIN.format(len(changed), len(first), other, answer))
        return notes

    def choose(
        self,
        rows: Sequence[int | None],
        questions: Sequence[Question],
        right: Sequence[Sequence[int]],
    ) -> Judged:
        """Return the scored replies of the model; a row of None means no picture."""
        return self.judge(self.replies(rows, questions), questions, right)

    def judge(
        self,
        replies: Sequence[Sequence[Reply]],
        questions: Sequence[Question],
        right: Sequence[Sequence[int]],
        rule: Rule = "one_label",
    ) -> Judged:
        """Return scored replies, read by a rule."""
        options = [question.options for question in questions]
        return judge(replies, options, right, self.labels, log_odds=self.log_odds, rule=rule)

    def reply_table(
        self,
        replies: Sequence[Sequence[Reply]],
        questions: Sequence[Question],
        right: Sequence[Sequence[int]],
        judged: Judged,
        ids: Sequence[str],
    ) -> pa.Table | None:
        """Return what was said to items, see `replies.reply_table`; None if replies are scores."""
        if judged.labelled is None:
            return None
        options, places = [question.options for question in questions], indices(self._rows)
        return reply_table(ids, places, options, right, replies, judged, self.labels.__name__)

    def by_rules(
        self,
        replies: Sequence[Sequence[Reply]],
        questions: Sequence[Question],
        right: Sequence[Sequence[int]],
    ) -> dict[Rule, Judged]:
        """Return the replies as scored under each rule by which they can be read.

        Replies in words have one rule, and scores none.
        """
        flat = [*chain(*replies)]
        if not all(isinstance(reply.said, str | NoAnswer) for reply in flat):
            return {}
        rules: list[Rule] = ["one_label"]
        rules += [] if self.labels is words else ["first_label", "last_label"]
        if all(reply.reading is not None for reply in flat):
            rules.append("recorded_reading")
        return {rule: self.judge(replies, questions, right, rule) for rule in rules}

    def without_image(
        self,
        others: Sequence[int | None],
        questions: Sequence[Question],
        right: Sequence[Sequence[int]],
    ) -> dict[str, Choice]:
        """Return the choices with the images of `others`, and with the text only, if possible."""
        views = {} if self.way == "recorded" else {ANOTHER: others}
        views |= {ALONE: [None] * len(questions)} if self.reads_text_alone else {}
        return {name: self.choose(rows, questions, right).choice for name, rows in views.items()}

    def table(
        self, rows: Sequence[int | None], texts: Sequence[Sequence[str]], question: str = ""
    ) -> Tensor:
        """Return the scores of all images of N rows for each row's T texts, float64 [N, I, T].

        Raises CannotDo for a model that is asked by letter or in words, and for a recording.
        """
        if not self._scorers:
            raise CannotDo("a model asked in words can choose only among texts for one image")
        repeated = [row for row, group in zip(rows, texts, strict=True) for _ in group]
        every, size = [*chain(*texts)], len(texts[0])
        questions = [question] * len(every) if self.way == "likelihood" else []
        by_image = [score(repeated, every, questions).double() for score in self._scorers]
        return torch.stack([scores.view(-1, size) for scores in by_image], 1)

    def notes_on(self, judged: Judged) -> list[str]:
        """Return a note if some of the model's replies name no single option.

        Raises DataError if no reply names exactly one option, and ServerError if too many answers
        are lacking for reasons that may pass.
        """
        if judged.may_pass > MOST_LACKING * judged.replies:
            lack = f"{judged.may_pass:,} of {judged.replies:,} answers are lacking"
            why = "for reasons that may pass; with --name, the next run asks for these again"
            raise ServerError(f"{lack} {why}: {judged.told}")
        if judged.replies > judged.unparsed:
            return [f"answers: {judged.told}; credit 0"] if judged.unparsed else []
        remedy = WANTED_REPLY.format("text" if self.way == "words" else "letter")
        if self.way == "recorded":
            remedy = LABELS_OF_RECORDING.format(self._model.labels)
        raise DataError(f"no reply names an option: {judged.told}; {remedy}")

    def replies(self, rows: Sequence[int | None], items: Sequence[Question]) -> list[list[Reply]]:
        """Return the replies to each question about the image of its row.

        By letter there is a reply for each cyclic order of the options, otherwise one reply. Raises
        DataError for more than 10 options by letter.
        """
        if self.way == "recorded":
            return [self._recorded[row] for row in rows if row is not None]
        if self._scorers:
            return self._scores(rows, items)
        turns = [self._orders(item.options) for item in items]
        pairs = [
            (row, self._prompt(question, order))
            for row, question, orders in zip(rows, items, turns, strict=True)
            for order in orders
        ]
        # What occurs twice is asked once, in the order of pictures.
        each = sorted(dict.fromkeys(pairs), key=lambda pair: (pair[0] is not None, pair[0] or 0))
        answers = dict(zip(each, self._engine.spread(self._answers, each, "answers"), strict=True))
        self._first = self._first or dict(islice(answers.items(), REPEATED))
        texts = iter([answers[pair] for pair in pairs])
        return [[Reply(order, next(texts)) for order in orders] for orders in turns]

    def _orders(self, options: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the orders in which options are shown: each option is in each place once."""
        places = range(len(options))
        if self.way == "words":
            return [tuple(places)]
        if len(options) > MOST_LETTERS:
            most = f"at most {MOST_LETTERS} options have a letter"
            raise DataError(f"{most}, not {len(options)}; ask by likelihood")
        return [(*places[turn:], *places[:turn]) for turn in places]

    def _prompt(self, item: Question, order: Sequence[int]) -> str:
        """Return the text that the model gets."""
        question = f"{item.text} {self._instruction}".strip()
        if self.way == "words":
            return question
        options = [item.options[number] for number in order]
        lines = [f"{label}. {text}" for label, text in zip(letters(options), options, strict=True)]
        return "\n".join([question, *lines, ASK_FOR_LETTER])

    def _scores(self, rows: Sequence[int | None], items: Sequence[Question]) -> list[list[Reply]]:
        """Return the scores of the options of each question."""
        options = [*chain(*(item.options for item in items))]
        places = [row for row, item in zip(rows, items, strict=True) for _ in item.options]
        of_likelihood = list[str]()
        for item in items if self.way == "likelihood" else ():
            of_likelihood += [f"{item.text} {self._instruction}".strip()] * len(item.options)
        every = self._scorers[0](places, options, of_likelihood).tolist()
        if self._per_byte:
            every = [score / len(text.encode()) for score, text in zip(every, options, strict=True)]
        ends = [*accumulate((len(item.options) for item in items), initial=0)]
        orders = {size: tuple(range(size)) for size in {len(item.options) for item in items}}
        return [[Reply(orders[b - a], every[a:b])] for a, b in pairwise(ends)]

    def _one_by_one(self, pairs: Sequence[tuple[int | None, str]]) -> list[str | NoAnswer]:
        return [answer for pair in pairs for answer in self._answers([pair])]

    def _answers(self, pairs: Sequence[tuple[int | None, str]]) -> list[str | NoAnswer]:
        pictures = pictures_of(self._rows, [row for row, _ in pairs])
        answers = self._model.answer(pictures, [text for _, text in pairs])
        are_texts = all(isinstance(answer, str | NoAnswer) for answer in answers)
        if isinstance(answers, str) or len(answers) != len(pairs) or not are_texts:
            name = self._engine.name_of(self._model)
            raise ValueError(f"{name} must give one of texts for each question")
        return list(answers)
