"""Sentence templates for nouns. arXiv:2210.09550, section 5.2, table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Template(NamedTuple):
    """The words before the first noun, before the second, and before each further noun."""

    first: str
    second: str
    further: str


TEMPLATES: Mapping[str, Template] = {
    "uniter": Template("a", "of the", ""),
    "rosita": Template("a image image that is a a", "but a a", "but a a"),
    "vilbert": Template("a", "that the", "at the"),
    "clip": Template("a image image of", "near a", "near a"),
    "lxmert": Template("a", "of a", "of a"),
}


def fill(template: Template, nouns: Sequence[str]) -> str:
    """Return a template filled with nouns. Raises ValueError if there are none."""
    if not nouns:
        raise ValueError("no noun for a template; leave out captions without nouns")
    openings = [template.first, template.second, *[template.further] * len(nouns)]
    pairs = zip(openings, nouns, strict=False)
    return " ".join(word for pair in pairs for word in pair if word)
