"""Parameters in docstrings: a section `Args:` in Google's style, with a line for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc

from vlbench.catalog.sources import PACKAGE, top_level

SECTION = re.compile(r"\n\n^Args:\n((?: .*\n?|\n)*)", re.MULTILINE)
# A name, and its text to the next name: further lines are indented more.
PARAMETER = re.compile(r"^ {4}(\S+): (.*(?:\n {5,}.*)*)", re.MULTILINE)

OPTIONS = "**options"


def split_args(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section `Args:`, and the text of each parameter by its name.

    `**options` stands for the parameters that all sources of rows share, as `RowOptions` has them.
    """
    prose, section, after = [*SECTION.split(cleandoc(docstring or ""), maxsplit=1), "", ""][:3]
    texts = {name: " ".join(text.split()) for name, text in PARAMETER.findall(section)}
    if texts.pop(OPTIONS, None):
        texts |= _row_options()
    return "\n\n".join(filter(None, (prose, after))), texts


@cache
def _row_options() -> Mapping[str, str]:
    """Return the parameters of RowOptions, whose module takes long to import."""
    classes = {node.name: node for node in top_level(PACKAGE / "data/gate.py", ast.ClassDef)}
    return split_args(ast.get_docstring(classes["RowOptions"]))[1]
