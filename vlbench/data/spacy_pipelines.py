"""Pipelines of spaCy, an optional package."""

from __future__ import annotations

import importlib
import shlex
from typing import Any

from vlbench.errors import PackageAbsent


def load_pipeline(name: str) -> tuple[Any, Any]:
    """Return spaCy, and its pipeline of this name. Raises DataAbsent if one is not installed."""
    try:
        # The import takes seconds: only tasks with a pipeline need it.
        spacy = importlib.import_module("spacy")
        return spacy, spacy.load(name)
    except (ImportError, OSError) as error:
        commands = "pip install spacy", f"spacy download {shlex.quote(name)}"
        raise PackageAbsent(f"the spaCy pipeline '{name}'", *commands) from error
