"""`vlbench show`: what a task or a model is, or a sheet of vlbench's own world."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import yaml

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.answer import Answer
from vlbench.commands.listing import show_thing
from vlbench.errors import printed

# What a sheet is drawn of.
DRAWN = ("objects", "scenes")


def answer(arguments: argparse.Namespace) -> Answer:
    """Return a task's file or a model's line as YAML or JSON; a sheet is written where we are."""
    if arguments.name in DRAWN:
        return _drawn(arguments)
    shown = show_thing(load_catalog(arguments.include_path), arguments.name, arguments.output)
    if arguments.json:
        return Answer([json.dumps(shown, indent=1)])
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    if text != printed(text):  # YAML has escapes of its own
        text = yaml.safe_dump(shown, sort_keys=False)
    return Answer([text.rstrip("\n")])


def _drawn(arguments: argparse.Namespace) -> Answer:
    from vlbench.data.scenes import sheet  # noqa: PLC0415 - a task's text needs no torch

    shown = sheet.write_sheet(arguments.name, Path(f"{arguments.name}.png"))
    return Answer([json.dumps(shown, indent=1) if arguments.json else sheet.describe(shown)])
