"""Dependencies of captions without any, parsed by a spaCy pipeline where one is installed."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from vlbench.data.annotations import Arc
from vlbench.data.dependencies import Token, word_arcs
from vlbench.data.records import Split
from vlbench.data.words import word_spans
from vlbench.engine import Engine
from vlbench.errors import DataError, PackageAbsent


def parsed(rows: Split, parser: str | None, engine: Engine) -> list[list[list[Arc]]]:
    """Return Stanford's arcs of every caption of every image, parsed by the named pipeline.

    Raises DataError where `parser` is None, DataAbsent where it is not installed.
    """
    if parser is None:
        raise DataError("the captions have no arcs; give `parser`, the name of a spaCy pipeline")
    texts = [text for captions in rows["captions"] for text in captions]
    spans = [
        word_spans(text, words)
        for captions, splits in zip(rows["captions"], rows["words"], strict=True)
        for text, words in zip(captions, splits, strict=True)
    ]
    spacy, pipeline = _pipeline(parser)
    # The identity of the pipeline, as of a model: spaCy is optional, and imported by its name.
    key = {
        "what": "arcs",
        "parser": [parser, str(pipeline.meta.get("version")), str(spacy.__version__)],
        "texts": texts,
        "spans": spans,
    }
    found = engine.once(key, lambda: _arcs(pipeline, texts, spans))
    arcs = iter([[Arc(*arc) for arc in caption] for caption in found])
    return [[next(arcs) for _ in captions] for captions in rows["captions"]]


def _arcs(
    pipeline: Any, texts: Sequence[str], spans: Iterable[list[tuple[int, int]]]
) -> list[list[list[Any]]]:
    """Return the arcs of each text as plain lists."""
    return [
        [list(arc) for arc in word_arcs(_tokens(parse), words)]
        for parse, words in zip(pipeline.pipe(texts), spans, strict=True)
    ]


def _tokens(parse: Any) -> list[Token]:
    return [Token(t.idx, t.idx + len(t), t.tag_, t.dep_, t.head.i) for t in parse]


def _pipeline(name: str) -> tuple[Any, Any]:
    """Return spaCy, and its pipeline of this name."""
    try:
        # Optional, and it takes seconds: only data without arcs need it.
        spacy = importlib.import_module("spacy")
        return spacy, spacy.load(name)
    except (ImportError, OSError) as error:
        commands = "pip install spacy", f"spacy download {shlex.quote(name)}"
        raise PackageAbsent(f"the spaCy pipeline '{name}'", *commands) from error
