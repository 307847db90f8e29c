"""Parameters in docstrings: an `Args:` section in Google's style, with a line for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc

from vlbench.catalog.sources import PACKAGE, top_level

SECTION = re.compile(r"\n\n^Args:\n((?: .*\n?|\n)*)", re.MULTILINE)
# A name and its text, up to the next name; continuation lines are indented further.
PARAMETER = re.compile(r"^ {4}(\S+): (.*(?:\n {5,}.*)*)", re.MULTILINE)

OPTIONS = "**options"


def split_args(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a docstring without its `Args:` section, and the text of each parameter by name.

    `**options` stands for the parameters of `RowOptions`, which all loaders of rows share.
    """
    prose, section, after = [*SECTION.split(cleandoc(docstring or ""), maxsplit=1), "", ""][:3]
    texts = {name: " ".join(text.split()) for name, text in PARAMETER.findall(section)}
    if texts.pop(OPTIONS, None):
        texts |= _row_options()
    return "\n\n".join(filter(None, (prose, after))), texts


@cache
def _row_options() -> Mapping[str, str]:
    """Return the parameters of RowOptions; its module is parsed, since importing it is slow."""
    classes = {node.name: node for node in top_level(PACKAGE / "data/gate.py", ast.ClassDef)}
    return split_args(ast.get_docstring(classes["RowOptions"]))[1]
