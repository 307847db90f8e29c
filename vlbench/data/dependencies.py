"""Stanford dependencies converted from spaCy's English labels and Universal Dependencies.

In Stanford's basic dependencies (de Marneffe and Manning, 2008) the copula is a dependent, and the
labels are those of Penn Treebank parsers. The mapping follows arXiv:1603.06598 and the UD guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vlbench.data.coco_files import Arc

# Stanford's label for each label of spaCy's English pipelines (ClearNLP) and of UD. Labels that are
# missing here are equal. For `acl` and nominals with a case, more than the label is needed.
STANFORD = {
    "acl:relcl": "rcmod",
    "advcl:relcl": "rcmod",
    "aux:pass": "auxpass",
    "case": "possessive",
    "cc:preconj": "preconj",
    "compound": "nn",
    "compound:prt": "prt",
    "csubj:pass": "csubjpass",
    "dative": "iobj",
    "det:predet": "predet",
    "expl:pass": "expl",
    "fixed": "mwe",
    "flat": "nn",
    "goeswith": "goeswith",
    "intj": "discourse",
    "nmod:npmod": "npadvmod",
    "nmod:poss": "poss",
    "nmod:tmod": "tmod",
    "nsubj:pass": "nsubjpass",
    "nummod": "num",
    "obj": "dobj",
    "obl:npmod": "npadvmod",
    "obl:tmod": "tmod",
    "oprd": "acomp",
    "quantmod": "number",
    "relcl": "rcmod",
    "agent": "prep",
    # Relations that do not exist in Stanford's scheme.
    "dislocated": "dep",
    "list": "dep",
    "meta": "dep",
    "nmod": "dep",
    "obl": "npadvmod",
    "orphan": "dep",
    "reparandum": "dep",
    "vocative": "dep",
}

# Nominals whose preposition is their head in Stanford's trees and their dependent, a case, in UD.
NOMINALS = ("nmod", "obl")

PARTICIPLES = frozenset({"VBG", "VBN"})


class Token(NamedTuple):
    """A parser's token: its characters, Penn tag, relation, and head (itself for the root)."""

    start: int
    stop: int
    tag: str
    relation: str
    head: int


def stanford(tokens: Sequence[Token]) -> list[Arc]:
    """Return the arcs of a sentence in Stanford's scheme; the root is not a dependent.

    A nominal with prepositions, `case` in UD, becomes the object of the last preposition. Each
    preposition depends on the one before it, and the first on the head of the nominal. A clause
    `acl` is `partmod` with a participle, `infmod` with an infinitive, and otherwise `rcmod`.
    """
    return sorted(_arcs(tokens), key=lambda arc: (arc.dependent, arc.head))


def word_arcs(tokens: Sequence[Token], spans: Sequence[tuple[int, int]]) -> list[Arc]:
    """Return Stanford's arcs between words, which are given as character spans.

    A token belongs to the word that contains its first character. Arcs within a word are omitted.
    """
    word = [_word_at(spans, token.start) for token in tokens]
    arcs = [(a.relation, word[a.head], word[a.dependent]) for a in stanford(tokens)]
    return [Arc(r, h, d) for r, h, d in arcs if h is not None and d is not None and h != d]


def _arcs(tokens: Sequence[Token]) -> Iterator[Arc]:
    for i, token in enumerate(tokens):
        kind, head = token.relation.lower(), token.head
        if head == i or kind == "root":
            continue
        if _is_preposition(tokens, i):
            continue
        cases = [c for c, other in enumerate(tokens) if other.head == i and c != i]
        chain = [c for c in cases if _is_preposition(tokens, c)]
        if chain:
            yield from (Arc("prep", h, c) for h, c in zip([head, *chain], chain, strict=False))
            yield Arc("pobj", chain[-1], i)
        else:
            yield Arc(_label(tokens, i), head, i)


def _is_preposition(tokens: Sequence[Token], i: int) -> bool:
    """Return whether a token is a case of UD that Stanford treats as a preposition."""
    nominal = tokens[tokens[i].head].relation.lower().partition(":")
    plain = nominal[0] in NOMINALS and nominal[2] in {"", "agent", "arg"}
    return tokens[i].relation.lower() == "case" and plain


def _label(tokens: Sequence[Token], i: int) -> str:
    kind = tokens[i].relation.lower()
    if kind == "acl":
        return _clause(tokens, i)
    return STANFORD.get(kind, STANFORD.get(kind.partition(":")[0], kind.partition(":")[0]))


def _clause(tokens: Sequence[Token], i: int) -> str:
    marks = {token.tag for token in tokens if token.head == i}
    if "TO" in marks:
        return "infmod"
    return "partmod" if tokens[i].tag in PARTICIPLES else "rcmod"


def _word_at(spans: Sequence[tuple[int, int]], place: int) -> int | None:
    return next((i for i, (start, stop) in enumerate(spans) if start <= place < stop), None)
