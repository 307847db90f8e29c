"""Replies to questions with options: which option a reply names, and its credit.

Replies are judged separately from asking, so that replies of a model and recorded replies are
judged alike. An item may be asked several times, each time with its options in another order. Its
credit is the mean over its replies, so that a model that always names the same place is at chance.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import NoAnswer, Reply
from vlbench.metrics.parsing import LETTER, LETTERS, first_label, last_label, read_reply
from vlbench.metrics.ranking import Choice, choose_any
from vlbench.results import REPLY_COLUMNS

if TYPE_CHECKING:  # planning a run must not wait for it
    import pyarrow as pa

Value = TypeVar("Value")

# Maps options, in the order shown, to the labels that name them in a reply.
Labels = Callable[[Sequence[str]], Sequence[str]]

# Most options of an item that is asked by letter.
MOST_LETTERS = len(LETTERS)


def letters(options: Sequence[str]) -> str:
    """Return a letter for each option, from A.

    Example:
        >>> letters(["cat", "dog"])
        'AB'
    """
    return ascii_uppercase[: len(options)]


def numbers(options: Sequence[str]) -> list[str]:
    """Return the number of each option, from 1.

    Example:
        >>> numbers(["cat", "dog"])
        ['1', '2']
    """
    return [str(i + 1) for i in range(len(options))]


def brackets(options: Sequence[str]) -> list[str]:
    """Return the number of each option in brackets, from (1).

    Example:
        >>> brackets(["cat", "dog"])
        ['(1)', '(2)']
    """
    return [f"({i + 1})" for i in range(len(options))]


def words(options: Sequence[str]) -> Sequence[str]:
    """Return the options themselves: a reply names an option by its text.

    Example:
        >>> words(["cat", "dog"])
        ['cat', 'dog']
    """
    return options


# Kinds of labels, by the name that a recording gives them.
LABELS: dict[str, Labels] = {one.__name__: one for one in (letters, numbers, brackets, words)}


def place_of(options: Sequence[str], answer: str) -> int:
    """Return the number of the option that is a right answer, given as its text or its letter.

    Raises ValueError if it is neither, or could be two options.

    Example:
        >>> place_of(["cat", "dog"], "B"), place_of(["cat", "dog"], "Cat ")
        (1, 0)
    """
    form = _form(answer)
    by_text = [i for i, option in enumerate(options) if _form(option) == form]
    letter = LETTER.fullmatch(answer.strip())
    by_letter = (
        [letters(options).index(letter[1].upper())]
        if (letter and letter[1].upper() in letters(options))
        else []
    )
    places = {*by_text, *by_letter}
    if len(places) == 1:
        return places.pop()
    how = "is neither an option nor the letter of an option" if not places else "means two options"
    raise ValueError(f"the right answer {answer!r:.40} {how}: {', '.join(options):.80}")


def _form(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip().casefold()


# How a reply is read: by the only label that it names (see `read_reply`); by the first label, at
# its start; by the last label; or as the authors of a recording read it.
Rule = Literal["one_label", "first_label", "last_label", "recorded_reading"]


class Labelled(NamedTuple):
    """The labels, as shown, in M replies to items, and the right labels.

    `item` int [M] has the item of each reply, `label` int [M] its label, -1 if it is unread, and
    `right` bool [M, L] the right labels. `options` int [N] is the number of an item's options.
    `texts` int [N] is equal for items that share the texts by which a reply in words names an
    option; letters and numbers are the same labels for all items.
    """

    item: NDArray[np.intp]
    label: NDArray[np.intp]
    right: NDArray[np.bool_]
    options: NDArray[np.intp]
    texts: NDArray[np.intp]


class Judged(NamedTuple):
    """The choices of N items, and the replies that name no option, by reason.

    An item's `chosen` is the option that all its replies name, else -1. `of_replies` has the choice
    of each reply, and `places` the place at which it showed the first right option; `sizes` are the
    numbers of replies per item. `unread` has, by reason, the replies that name no single option,
    and `reasons` has the reason for each reply of each item, empty for a reply that is read. If
    replies are scores, `labelled` is None, and `reasons` is empty.
    """

    choice: Choice
    of_replies: Choice
    places: Sequence[int]
    sizes: Sequence[int]
    unread: Mapping[str, Sequence[str | NoAnswer]]
    labelled: Labelled | None = None
    reasons: Sequence[Sequence[str]] = ()

    @property
    def by_place(self) -> list[list[float]]:
        """The credit of the reply that showed the first right option at each place, per item.

        It is empty if an item does not have exactly one reply per place.
        """
        return _by_place(self.of_replies.credit, self.places, self.sizes)

    @property
    def read(self) -> list[list[float]]:
        """Whether the reply of each place names a single option, as `by_place`."""
        read = self.of_replies.tied | (self.of_replies.chosen >= 0)
        return _by_place(read.double(), self.places, self.sizes)

    @property
    def replies(self) -> int:
        """The number of all replies."""
        return len(self.places)

    @property
    def unparsed(self) -> int:
        """The number of replies that name no single option."""
        return sum(map(len, self.unread.values()))

    @property
    def may_pass(self) -> int:
        """The number of replies that are lacking for a reason that may pass."""
        unread = chain.from_iterable(self.unread.values())
        return sum(isinstance(reply, NoAnswer) and reply.may_pass for reply in unread)

    @property
    def told(self) -> str:
        """How many replies name no single option, by reason, each with an example."""
        reasons = []
        for why, group in sorted(self.unread.items(), key=lambda item: -len(item[1])):
            words = [reply.words if isinstance(reply, NoAnswer) else reply for reply in group]
            example = next(filter(str.strip, words), "")[:70]
            reasons.append(f"{why} {len(group):,}" + f" (such as {example!r})" * bool(example))
        return f"{self.unparsed:,} of {self.replies:,} name no single option: {', '.join(reasons)}"


def judge(
    replies: Sequence[Sequence[Reply]],
    options: Sequence[Sequence[str]],
    right: Sequence[Sequence[int]],
    labels: Labels,
    *,
    log_odds: bool = True,
    rule: Rule = "one_label",
) -> Judged:
    """Return the credit of replies to N items; `right` has the numbers of their right options.

    A text that names a right option earns 1 (see `vlbench.metrics.parsing`); a text that names no
    single option, and no answer, earn 0. If replies are scores, the highest is chosen; tied options
    share the credit (see `tie_margin` for `log_odds`). Raises ValueError for an item without
    replies, for texts among scores, and for a reply without the reading that a `rule` needs.

    Example:
        >>> replies = [[Reply((0, 1), "A"), Reply((1, 0), "A")]]  # the same letter in both orders
        >>> judged = judge(replies, [["cat", "dog"]], [[0]], letters)
        >>> judged.choice.credit.tolist(), judged.by_place, judged.unparsed
        ([0.5], [[1.0, 0.0]], 0)
        >>> judge([[Reply((0, 1), "both")]], [["cat", "dog"]], [[0]], letters).told
        "1 of 1 name no single option: no option 1 (such as 'both')"
    """
    flat, sizes = [*chain(*replies)], [*map(len, replies)]
    rows = [row for row, size in enumerate(sizes) for _ in range(size)]
    scored = [not isinstance(reply.said, str | NoAnswer) for reply in flat]
    if 0 in sizes or (any(scored) and not all(scored)):
        raise ValueError("each item must have replies, all texts or all scores")
    unread: dict[str, list[str | NoAnswer]] = {}
    reasons = list[str]()
    if any(scored):
        scores = [reply.said for reply in flat]
        choice = _choose(scores, [right[row] for row in rows], log_odds=log_odds)
    else:
        pairs = [*zip(rows, flat, strict=True)]
        readings = [_read(reply, options[row], labels, rule) for row, reply in pairs]
        named, reasons = [option for option, _ in readings], [why for _, why in readings]
        for why, reply in zip(reasons, flat, strict=True):
            if why:
                unread.setdefault(why, []).append(_words(reply))
        hits = [float(number in right[row]) for number, row in zip(named, rows, strict=True)]
        untied = torch.zeros(len(flat), dtype=torch.bool)
        credit = torch.tensor(hits, dtype=torch.float64)
        choice = Choice(credit, untied, torch.tensor(named))
    return Judged(
        _by_item(choice, sizes),
        choice,
        [reply.order.index(right[row][0]) for row, reply in zip(rows, flat, strict=True)],
        sizes,
        unread,
        None if any(scored) else _labelled(pairs, named, options, right, labels),
        [*_of_items(reasons, sizes)] if reasons else (),
    )


def _of_items(values: Sequence[Value], sizes: Sequence[int]) -> Iterator[list[Value]]:
    """Yield the values of each item's replies, from the values of all replies, in order."""
    each = iter(values)
    return (list(islice(each, size)) for size in sizes)


# The most characters of a reply that are kept: half of them from its start, half from its end.
MOST_KEPT = 4000


def reply_table(
    ids: Sequence[str],
    places: Sequence[int],
    options: Sequence[Sequence[str]],
    right: Sequence[Sequence[int]],
    replies: Sequence[Sequence[Reply]],
    judged: Judged,
    labels: str,
) -> pa.Table:
    """Return what was said: a row for each reply in words, with the columns REPLY_COLUMNS.

    `item` is the index of an item in the whole data, `order` the order in which its options were
    shown, `unread` why the reply names no option, `labels` how an option is named. A reply of more
    than MOST_KEPT characters is cut in its middle; `characters` is its whole length.

    Example:
        >>> replies, options = [[Reply((1, 0), "both")]], [["cat", "dog"]]
        >>> judged = judge(replies, options, [[0]], letters)
        >>> table = reply_table(["a.png"], [7], options, [[0]], replies, judged, "letters")
        >>> table.select(["item", "order", "reply", "unread"]).to_pylist()
        [{'item': 7, 'order': '1 0', 'reply': 'both', 'unread': 'no option'}]
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    lines = [
        (place, name, [*texts], " ".join(map(str, reply.order)), texts[true[0]], *kept, labels)
        for place, name, texts, true, of_item, reasons in zip(
            places, ids, options, right, replies, judged.reasons, strict=True
        )
        for reply, why in zip(of_item, reasons, strict=True)
        for kept in [_reply_cells(reply, why)]
    ]
    return pa.Table.from_pylist([dict(zip(REPLY_COLUMNS, line, strict=True)) for line in lines])


def _reply_cells(reply: Reply, why: str) -> tuple[str, int, str]:
    """Return what is kept of a reply, its length, and why it is unread."""
    content = _words(reply)
    text = content.words if isinstance(content, NoAnswer) else content
    return shorten(text), len(text), why


def shorten(text: str, most: int = MOST_KEPT) -> str:
    """Return a text of at most `most` characters as it is, and the two ends of a longer text.

    Example:
        >>> shorten("abcdefghij", 4)
        'ab [... 6 characters ...] ij'
    """
    if len(text) <= most:
        return text
    start, end = text[: most // 2], text[len(text) - most // 2 :]
    return f"{start} [... {len(text) - most:,} characters ...] {end}"


def _by_item(choice: Choice, sizes: list[int]) -> Choice:
    """Return the choices of items, each with several replies."""
    if max(sizes) == 1:
        return choice
    credit, tied, chosen = (torch.split(part, sizes) for part in choice)
    means = torch.stack([earned.mean() for earned in credit])
    common = [int(part[0]) if (part == part[0]).all() else -1 for part in chosen]
    return Choice(means, torch.stack([part.any() for part in tied]), torch.tensor(common))


def _by_place(values: Tensor, places: Sequence[int], sizes: Sequence[int]) -> list[list[float]]:
    """Return a value of each reply by place of the right option, per item."""
    parts = zip(_of_items(places, sizes), _of_items(values.tolist(), sizes), strict=True)
    return [_sort(own, part) for own, part in parts]


def _sort(places: Sequence[int], credit: Sequence[float]) -> list[float]:
    """Return the credit at each place; empty unless every place occurs once."""
    if sorted(places) != [*range(len(places))]:
        return []
    return [value for _, value in sorted(zip(places, credit, strict=True))]


def _read(reply: Reply, options: Sequence[str], labels: Labels, rule: Rule) -> tuple[int, str]:
    """Return the number of the option that a reply names; if it names none, -1 and the reason."""
    if rule == "recorded_reading":
        if reply.reading is None:
            raise ValueError("the recording does not state how its authors read each reply")
        return reply.reading, "no option by the recorded reading" if reply.reading < 0 else ""
    if isinstance(reply.said, NoAnswer):
        return -1, reply.said.why
    text, names = str(reply.said), labels([options[number] for number in reply.order])
    if rule == "one_label":
        place, why = read_reply(text, names, in_words=labels is words)
    else:
        place, why = (first_label if rule == "first_label" else last_label)(text, names)
    return (-1, why) if place is None else (reply.order[place], "")


def _words(reply: Reply) -> str | NoAnswer:
    return reply.said if isinstance(reply.said, str | NoAnswer) else ""


def _labelled(
    flat: Sequence[tuple[int, Reply]],
    named: Sequence[int],
    options: Sequence[Sequence[str]],
    right: Sequence[Sequence[int]],
    labels: Labels,
) -> Labelled:
    """Return the labels of replies; `flat` has the item of each reply, `named` its option."""
    by_text = labels is words
    sets = {texts: i for i, texts in enumerate(dict.fromkeys(tuple(sorted(o)) for o in options))}
    label, is_right = list[int](), np.zeros((len(flat), max(map(len, options))), bool)
    for i, ((row, reply), number) in enumerate(zip(flat, named, strict=True)):
        ordered = sorted(range(len(options[row])), key=options[row].__getitem__)
        order = ordered if by_text else [*reply.order]
        label.append(order.index(number) if number >= 0 else -1)
        is_right[i, [order.index(number) for number in right[row]]] = True
    texts = [sets[tuple(sorted(option))] if by_text else 0 for option in options]
    items, sizes = [row for row, _ in flat], [*map(len, options)]
    arrays = (np.array(column, np.intp) for column in (items, label, sizes, texts))
    item, labels_said, count, of_texts = arrays
    return Labelled(item, labels_said, is_right, count, of_texts)


def _choose(scores: Sequence[Any], right: Sequence[Sequence[int]], *, log_odds: bool) -> Choice:
    """Return the choices by scores; each reply has a score per option."""
    sizes = torch.tensor([*map(len, scores)])
    is_option = torch.arange(int(sizes.max())) < sizes[:, None]
    table = torch.zeros(is_option.shape, dtype=torch.float64)
    table[is_option] = torch.from_numpy(np.fromiter(chain(*scores), np.float64))
    is_right = torch.zeros(is_option.shape, dtype=torch.bool)
    rows = [row for row, true in enumerate(right) for _ in true]
    is_right[rows, [*chain(*right)]] = True
    return choose_any(table, is_right, candidates=is_option, log_odds=log_odds)
