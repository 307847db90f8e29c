"""`vlbench run --config FILE`: the options of a run in a YAML file, under the same names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlbench.errors import SpecError, unknown

if TYPE_CHECKING:  # `vlbench --help` needs no YAML
    from vlbench.catalog.strict_yaml import Document

# What names nothing that a file could set.
NOT_IN_FILES = frozenset({"command", "config", "parser"})

# What may name code, which a file may do only where the command line says --trust.
NAMES_CODE = frozenset({"model", "model_args"})

# Of two options that exclude each other, the command line's holds.
CACHE = ("cache_dir", "no_cache")


def configured(
    parser: argparse.ArgumentParser, given: argparse.Namespace, words: Sequence[str]
) -> list[str]:
    """Return the words of a run with those of its file before its own, which override them."""
    defaults = vars(parser.parse_args(["run"]))
    return ["run", *config_words(given.config, vars(given), defaults), *words[1:]]


def config_words(file: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return the options in a file as words of the command line.

    `given` are the options on the command line, `defaults` those of an empty one. Relative folders
    are relative to where the run starts, as on the command line. Raises SpecError, with file and
    line, for what is no option, or has a value that the command line could not have.
    """
    from vlbench.catalog.strict_yaml import load_yaml  # noqa: PLC0415 - as above
    from vlbench.planning.functions import names_file  # noqa: PLC0415 - as above

    document = load_yaml(file)
    words: list[str] = []
    cached = any(given[name] != defaults[name] for name in CACHE)
    for key, value in document.values.items():
        name = str(key).replace("-", "_")
        if name not in defaults or name in NOT_IN_FILES:
            known = defaults.keys() - NOT_IN_FILES
            raise SpecError(f"{document.where(str(key))}: {unknown('option', str(key), known)}")
        if value is None or (cached and name in CACHE):
            continue
        if name == "trust":
            raise SpecError(f"{document.where(str(key))}: {key} is not for a file; pass --trust")
        given_words = [*_words(document, str(key), value, defaults[name])]
        is_code = name in NAMES_CODE and any(map(names_file, given_words))
        if (is_code or name == "include_path") and not given["trust"]:
            why = f"{key} names code to run; if you know what it does, pass --trust"
            raise SpecError(f"{document.where(str(key))}: {why}")
        words += given_words
    return words


def _words(document: Document, key: str, value: Any, default: Any) -> Iterator[str]:
    option, where = f"--{key.replace('_', '-')}", document.where(key)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise SpecError(f"{where}: {key} is true or false, not {value!r:.40}")
        yield from [option] if value else []
    elif isinstance(default, list):  # an option that may be repeated
        for text in _texts(where, key, value):
            yield f"{option}={text}"
    else:
        texts = _texts(where, key, value)
        if len(texts) > 1 and any("," in text for text in texts):
            raise SpecError(f"{where}: {key} has a comma inside one of its values")
        yield f"{option}={','.join(texts)}"


def _texts(where: str, key: str, value: Any) -> Sequence[str]:
    if isinstance(value, dict):
        value = [f"{k}={v}" for k, v in value.items()]
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) for one in values):
        raise SpecError(f"{where}: {key} is a text, a number or a list of them")
    return [str(one) for one in values]
