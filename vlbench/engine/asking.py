"""Questions about images to a generative model: by likelihood of answers, by letter, in words.

`vlbench.metrics.replies` scores the replies, in the same way for all models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from vlbench.capabilities import Answerer, AnswerScorer, Asked, NoAnswer, Picture, Recording, Reply
from vlbench.data.records import Split, value_column
from vlbench.engine.engine import Engine
from vlbench.errors import CannotDo, DataError, ServerError
from vlbench.metrics.replies import (
    LABELS,
    MOST_LETTERS,
    Judged,
    Labels,
    judge,
    letters,
    words,
)

# How to ask a model: by the log-likelihood of each option as the answer; with lettered options,
# in all cyclic orders; or without options, for an answer in words. A recording is looked up.
Way = Literal["likelihood", "letter", "words", "recorded"]

# The note on a row of a model that always needs an image.
CANNOT = "the model cannot be asked without an image, so its priors are not measured as a floor"

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


class Question(NamedTuple):
    """A question about one image, and the texts of its options."""

    text: str
    options: Sequence[str]


def way_of(model: Any, asked: Literal["", Way]) -> Way:
    """Return how to ask a model: as `asked` states, else by likelihood, else by letter.

    For a recording it is always "recorded". Raises CannotDo if the model cannot be asked so.
    """
    if isinstance(model, Recording):
        return "recorded"
    way: Way = asked or ("likelihood" if isinstance(model, AnswerScorer) else "letter")
    needed = AnswerScorer if way == "likelihood" else Answerer
    if not isinstance(model, needed):
        raise CannotDo(f"it does not implement {needed.__name__}, which `asked: {way}` needs")
    return way


def likelihoods_alone(
    model: AnswerScorer, question: str, texts: Sequence[str], engine: Engine
) -> list[float]:
    """Return the log-likelihood of each text as the answer to a question without an image."""
    no_rows = Split({"question": value_column([question], "text")})
    different = list(dict.fromkeys(texts))
    asker = Asker(model, no_rows, engine, "likelihood")
    ((own,),) = asker.replies([None], [Question(question, different)])
    assert not isinstance(own.said, str | NoAnswer)
    known = dict(zip(different, own.said, strict=True))
    return [known[text] for text in texts]


class LookedUp(NamedTuple):
    """The rows of a split that have recorded replies, these replies, and what was not used."""

    rows: Split
    replies: list[list[Reply]]
    counts: dict[str, int]
    notes: list[str]


def look_up(
    model: Recording, rows: Split, asked: Sequence[Question], right: Sequence[Sequence[int]]
) -> LookedUp:
    """Return the recorded replies to questions about the rows of a split.

    An item's index is that of its row in the whole data, before rows were drawn. Raises DataError
    if no row has a reply, for a reply whose order or scores do not fit the item's options, and for
    a recording that states another right answer.
    """
    names = rows["image"].examples().ids
    several = [*rows["category"]] if "category" in rows.columns else [""] * len(rows)
    places = rows["question" if "question" in rows.columns else "caption"].rows
    items = [
        Asked(name, tuple(one.options), one.text, category, place)
        for name, one, category, place in zip(names, asked, several, places, strict=True)
    ]
    found = model.replies(items)
    for item, true, own in zip(items, right, found, strict=True):
        for reply in own:
            _require_fit(reply, item)
            _require_target(reply, item, true)
    kept = [row for row, own in enumerate(found) if own]
    notes = [f"answers: {note}" for note in getattr(model, "notes", ())]
    absent = [name for name, own in zip(names, found, strict=True) if not own]
    if not kept:
        what = f"the recording has none of the {len(rows)} items, such as {names[0]:.80}"
        raise DataError("; ".join([what, *notes]))
    if absent:
        lack = f"none for {len(absent):,} of {len(rows):,} items, for example {absent[0]:.80}"
        notes.append(f"answers: {lack}")
    counts = {"unanswered": len(absent), **getattr(model, "counts", {})}
    return LookedUp(rows.select(kept), [found[row] for row in kept], counts, notes)


def _require_fit(reply: Reply, item: Asked) -> None:
    count = len(item.texts)
    if sorted(reply.order) != [*range(count)]:
        raise DataError(
            f"{item.image:.80}: the order {reply.order} is not an order of {count} options"
        )
    if not isinstance(reply.said, str | NoAnswer) and len(reply.said) != count:
        raise DataError(f"{item.image:.80}: {len(reply.said)} scores for {count} options")


def _require_target(reply: Reply, item: Asked, right: Sequence[int]) -> None:
    """Raise DataError if a recording states that another option is right."""
    stated = [i for i, text in enumerate(item.texts) if text == reply.target]
    if stated and not {*stated} & {*right}:
        known = ", ".join(item.texts[i] for i in right)
        what = f"right is {reply.target!r:.80} in the recording and {known!r:.80} in the data"
        raise DataError(f"{item.image:.80}, {item.question:.80}: {what}")


class Asker:
    """Asks a model about the images of a split; the work is spread over the processes.

    `instruction` follows each question. `per_byte` divides the log-likelihood of an option by the
    length of its text in UTF-8, as lm-eval's `acc_norm` does. `recorded` contains the replies to
    each row, for a recording.
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
        if way == "recorded":
            self.labels = LABELS[model.labels]
        self.reads_text_alone = bool(getattr(model, "reads_text_alone", False))

    def judge(
        self,
        rows: Sequence[int | None],
        asked: Sequence[Question],
        right: Sequence[Sequence[int]],
    ) -> Judged:
        """Return the scored replies of the model; a row of None means no picture."""
        options = [one.options for one in asked]
        return judge(self.replies(rows, asked), options, right, self.labels)

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

    def replies(self, rows: Sequence[int | None], asked: Sequence[Question]) -> list[list[Reply]]:
        """Return the replies to each question about the image of its row.

        By letter there is a reply for each cyclic order of the options, otherwise one reply. Raises
        DataError for more than 10 options by letter.
        """
        if self.way == "recorded":
            return [self._recorded[row] for row in rows if row is not None]
        if self.way == "likelihood":
            return self._likelihoods(rows, asked)
        turns = [self._orders(one.options) for one in asked]
        pairs = [
            (row, self._shown(one, order))
            for row, one, orders in zip(rows, asked, turns, strict=True)
            for order in orders
        ]
        said = iter(self._each(pairs, self._answers, "answers"))
        return [[Reply(order, next(said)) for order in orders] for orders in turns]

    def _orders(self, options: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the orders in which options are shown: each option is in each place once."""
        places = range(len(options))
        if self.way == "words":
            return [tuple(places)]
        if len(options) > MOST_LETTERS:
            most = f"at most {MOST_LETTERS} options have a letter"
            raise DataError(f"{most}, not {len(options)}; ask by likelihood")
        return [(*places[turn:], *places[:turn]) for turn in places]

    def _shown(self, asked: Question, order: Sequence[int]) -> str:
        """Return the text that the model gets."""
        question = f"{asked.text} {self._instruction}".strip()
        if self.way == "words":
            return question
        options = [asked.options[number] for number in order]
        lines = [f"{label}. {text}" for label, text in zip(letters(options), options, strict=True)]
        return "\n".join([question, *lines, ASK_FOR_LETTER])

    def _likelihoods(
        self, rows: Sequence[int | None], asked: Sequence[Question]
    ) -> list[list[Reply]]:
        triples = [
            (row, f"{one.text} {self._instruction}".strip(), option)
            for row, one in zip(rows, asked, strict=True)
            for option in one.options
        ]
        scores = iter(self._each(triples, self._scores, "likelihoods of answers"))
        replies = []
        for one in asked:
            own = [next(scores) for _ in one.options]
            if self._per_byte:
                sizes = (len(option.encode()) for option in one.options)
                own = [score / size for score, size in zip(own, sizes, strict=True)]
            replies.append([Reply(tuple(range(len(own))), own)])
        return replies

    def _each(self, wanted: Sequence[Any], ask: Callable[[Any], list[Any]], what: str) -> list[Any]:
        """Return the result of `ask` for each; duplicates are asked once, ordered by picture."""
        each = sorted(dict.fromkeys(wanted), key=lambda one: (one[0] is not None, one[0] or 0))
        given = dict(zip(each, self._engine.spread(ask, each, what), strict=True))
        return [given[one] for one in wanted]

    def _answers(self, pairs: Sequence[tuple[int | None, str]]) -> list[str | NoAnswer]:
        said = self._model.answer(self._pictures(pairs), [text for _, text in pairs])
        are_texts = all(isinstance(one, str | NoAnswer) for one in said)
        self._require(len(said) == len(pairs) and are_texts, "texts")
        return list(said)

    def _scores(self, triples: Sequence[tuple[int | None, str, str]]) -> list[float]:
        score = self._engine.checked(self._model.score_answers)
        questions, options = ([one[i] for one in triples] for i in (1, 2))
        found = score(self._pictures(triples), questions, options)
        self._require(tuple(found.shape) == (len(triples),), "numbers")
        values = found.float().cpu()
        if not values.isfinite().all():
            bad = int((~values.isfinite()).nonzero()[0])
            what = f"the answer {options[bad]!r:.80} to {questions[bad]!r:.80}"
            raise DataError(f"{self._name} gave the score {values[bad].item()} to {what}")
        return list(values.tolist())

    def _require(self, fits: bool, what: str) -> None:
        if not fits:
            raise ValueError(f"{self._name} must give one of {what} for each question")

    def _pictures(self, asked: Sequence[Sequence[Any]]) -> list[Picture]:
        """Return the picture of each; each row's picture is opened once."""
        shown = "picture" if "picture" in self._rows.columns else "image"
        pictures: dict[int | None, Picture] = {None: Picture(None, None)}
        for row in dict.fromkeys(one[0] for one in asked if one[0] is not None):
            value = self._rows[shown][row]
            pictures[row] = value if isinstance(value, Picture) else Picture(value, None)
        return [pictures[one[0]] for one in asked]

    @property
    def _name(self) -> str:
        return self._engine.name_of(self._model)
