"""Shell completion: commands, options, files, and the names of tasks and models, by argcomplete."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.parser import normalise_argv, parser_of
from vlbench.errors import VlbenchError


def complete() -> None:
    """Write the completions of the line that the shell gives in COMP_LINE, and exit."""
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    program, _, rest = line.partition(" ")
    if rest.startswith("-") and normalise_argv([rest.split()[0]])[0] == "run":
        # The options of `run` may be typed without the word.
        line, point = f"{program} run {rest}", point + len(" run")
    os.environ |= {"COMP_LINE": line, "COMP_POINT": str(point)}
    parser = command = parser_of()
    for word in line.split()[1:]:
        if word not in command.commands:
            break
        command = command.commands[word]
        command.load_options()
    argcomplete.autocomplete(
        parser,
        always_complete_options="long",
        default_completer=_complete_value,  # type: ignore[arg-type]  # a class in its types
    )


def _complete_value(
    *, prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: Any
) -> list[str]:
    """Return the names of models or tasks if the argument takes them, otherwise files."""
    before, comma, _last = prefix.rpartition(",")
    names = _names(action, parsed_args)
    if not names:
        return list(FilesCompleter()(prefix))
    return [f"{before}{comma}{name}" for name in names]


def _names(action: argparse.Action, parsed_args: argparse.Namespace) -> list[str]:
    kinds = " ".join([action.dest, *map(str, [action.metavar])]).lower()
    if "model" not in kinds and "task" not in kinds:
        return []
    folders: list[Path] = parsed_args.include_path
    try:
        catalog = load_catalog(folders)
    except VlbenchError:
        return []  # `vlbench validate` says what is wrong
    models = [*catalog.models] if "model" in kinds and "args" not in kinds else []
    tasks = [*catalog.tasks] if "task" in kinds else []
    tags = {tag for task in catalog.tasks.values() for tag in task.tags}
    return models + tasks + sorted(tags if action.dest == "tasks" else ())
