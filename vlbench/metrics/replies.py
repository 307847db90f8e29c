"""Replies to questions with options: which option a reply names, and its credit.

Replies are judged separately from asking, so that replies of a model and recorded replies are
judged alike. An item may be asked several times, each time with its options in another order. Its
credit is the mean over its replies, so that a model that always names the same place is at chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import NamedTuple

import torch

from vlbench.capabilities import Reply
from vlbench.metrics.ranking import Choice, choose_any

# Maps options, in the order shown, to the labels that name them in a reply.
Labels = Callable[[Sequence[str]], Sequence[str]]

# Most options of an item that is asked by letter.
MOST_LETTERS = 10


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


def named_option(said: str, labels: Sequence[str]) -> int | None:
    """Return the place of the only label that occurs in a reply; None if there is none or several.

    A label inside a longer word or a longer label does not count. Letters must be capitals, and "A"
    before a lower-case word is the article, unless the word is "is", "or" or "and". Other labels
    may have any case.

    Example:
        >>> named_option("A cat, so B.", "AB"), named_option("A or B", "AB")
        (1, None)
    """
    found = []
    for place in sorted(range(len(labels)), key=lambda place: -len(labels[place])):
        pattern, flags = _pattern(labels[place])
        if re.search(pattern, said, flags):
            found.append(place)
            said = re.sub(pattern, " ", said, flags=flags)
    return found[0] if len(found) == 1 else None


def _pattern(label: str) -> tuple[str, int]:
    word = rf"(?<!\w){re.escape(label)}(?!\w)"
    if len(label) == 1 and label in ascii_uppercase:
        return word + (r"(?! (?!(is|or|and)\b)[a-z])" if label == "A" else ""), 0
    return word, re.IGNORECASE


class Judged(NamedTuple):
    """The choices of N items, and the number of replies that name no option, or several.

    An item's `chosen` is the option that all its replies name, else -1. `by_place` has, per item,
    the credit of the reply that showed the first right option at each place; it is empty if an item
    does not have exactly one reply per place. `replies` is the number of all replies; `told` states
    how many are unparsed, with an example, and is empty if there is none.
    """

    choice: Choice
    by_place: Sequence[Sequence[float]]
    unparsed: int
    replies: int
    told: str


def judge(
    replies: Sequence[Sequence[Reply]],
    options: Sequence[Sequence[str]],
    right: Sequence[Sequence[int]],
    labels: Labels,
) -> Judged:
    """Return the credit of replies to N items; `right` has the numbers of their right options.

    A text that names a right option earns 1; a text that names no option or several earns 0. If
    replies are scores, the highest is chosen; tied options share the credit. Raises ValueError for
    an item without replies, and for texts among scores.

    Example:
        >>> replies = [[Reply((0, 1), "A"), Reply((1, 0), "A")]]  # the same letter in both orders
        >>> judged = judge(replies, [["cat", "dog"]], [[0]], letters)
        >>> judged.choice.credit.tolist(), judged.by_place, judged.unparsed
        ([0.5], [[1.0, 0.0]], 0)
        >>> judge([[Reply((0, 1), "both")]], [["cat", "dog"]], [[0]], letters).told
        "1 of 1 without exactly one of A, B, such as 'both'"
    """
    flat, silent = [(row, one) for row, own in enumerate(replies) for one in own], list[int]()
    scored = [not isinstance(one.said, str) for _, one in flat]
    if any(not own for own in replies) or (any(scored) and not all(scored)):
        raise ValueError("each item must have replies, all texts or all scores")
    if any(scored):
        choice = _choose([one.said for _, one in flat], [right[row] for row, _ in flat])
    else:
        named = [_named(one, options[row], labels) for row, one in flat]
        silent = [i for i, number in enumerate(named) if number < 0]
        hits = [float(one in right[row]) for one, (row, _) in zip(named, flat, strict=True)]
        untied = torch.zeros(len(flat), dtype=torch.bool)
        credit = torch.tensor(hits, dtype=torch.float64)
        choice = Choice(credit, untied, torch.tensor(named))
    places = [
        [one.order.index(true[0]) for one in own] for own, true in zip(replies, right, strict=True)
    ]
    told = ""
    if silent:
        row, first = flat[silent[0]]
        wanted = ", ".join(labels(options[row]))
        told = (
            f"{len(silent):,} of {len(flat):,} without exactly one of {wanted:.80}, "
            f"such as {first.said!r:.80}"
        )
    return Judged(*_by_item(choice, places), len(silent), len(flat), told)


def _by_item(choice: Choice, places: Sequence[Sequence[int]]) -> tuple[Choice, list[list[float]]]:
    """Return the choices of items, and their credit by place of the right option.

    `places` has the place of the right option in each reply.
    """
    sizes = [len(own) for own in places]
    credit, tied, chosen = (torch.split(part, list(sizes)) for part in choice)
    means = torch.stack([own.mean() for own in credit])
    one = [int(own[0]) if (own == own[0]).all() else -1 for own in chosen]
    item = Choice(means, torch.stack([own.any() for own in tied]), torch.tensor(one))
    by_place = [_sort(own, one.tolist()) for own, one in zip(places, credit, strict=True)]
    return item, by_place


def _sort(places: Sequence[int], credit: Sequence[float]) -> list[float]:
    """Return the credit at each place; empty unless every place occurs once."""
    if sorted(places) != [*range(len(places))]:
        return []
    return [one for _, one in sorted(zip(places, credit, strict=True))]


def _named(reply: Reply, options: Sequence[str], labels: Labels) -> int:
    """Return the number of the option that a text names, or -1."""
    shown = [options[number] for number in reply.order]
    place = named_option(str(reply.said), labels(shown))
    return -1 if place is None else reply.order[place]


def _choose(scores: Sequence[str | Sequence[float]], right: Sequence[Sequence[int]]) -> Choice:
    """Return the choices by log-likelihoods; each reply has a log-likelihood per option."""
    table = torch.zeros(len(scores), max(map(len, scores)), dtype=torch.float64)
    is_option, is_right = torch.zeros(2, *table.shape, dtype=torch.bool)
    for i, (own, true) in enumerate(zip(scores, right, strict=True)):
        table[i, : len(own)] = torch.tensor(own, dtype=torch.float64)
        is_option[i, : len(own)] = True
        is_right[i, list(true)] = True
    return choose_any(table, is_right, candidates=is_option, log_odds=True)
