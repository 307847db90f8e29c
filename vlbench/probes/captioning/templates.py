"""The five sentence templates of arXiv:2210.09550, table 7, by the model whose taste each is.

An opening, the first noun, then each further noun after its words: `a dog of the cat tree` is
UNITER's for dog, cat and tree. Where nouns end early, so does the template. The examples of table 1
differ from it by a word here and there; table 7 is followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Template(NamedTuple):
    """The words before the first noun, before the second, and before each further one."""

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
    """Return nouns poured into a template. Raises ValueError for none."""
    if not nouns:
        raise ValueError("no noun for a template; leave out captions without nouns")
    openings = [template.first, template.second, *[template.further] * len(nouns)]
    pairs = zip(openings, nouns, strict=False)
    return " ".join(word for pair in pairs for word in pair if word)
