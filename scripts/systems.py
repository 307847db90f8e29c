#!/usr/bin/env python3
"""Writes the table of docs/experiments.md: which system runs which tasks, and why not.

The plan's logic decides, from a probe's annotation and an adapter class; neither data nor weights
are read.

    scripts/systems.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers import table

from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.run.model import fit, resolve_model
from vlbench.run.options import Options
from vlbench.run.task import Task, resolve_task

PAGE = Path(__file__).resolve().parents[1] / "docs" / "experiments.md"
START, END = "<!-- systems -->\n", "<!-- /systems -->\n"

# The 15 systems of arXiv:2104.08313 (`clip-rn50` counts as two: its text tower and its image
# tower), and ten of the other four papers.
SYSTEMS = (
    *("bert-base-uncased", "gpt2", "clip-rn50", "virtex", "icmlm", "tsm", "bit-m-r50x1", "rn50"),
    *("sin", "sin-in", "sin-in-fin", "ar-l2", "ar-linf4", "ar-linf8"),
    *("glove-6b-300d", "random-vectors", "detr-r50", "visualbert-vqa-coco-pre"),
    *("visualbert-flickr30k", "uniter-base", "rosita-base", "vilbert", "lxmert-base-uncased"),
    "clip-vit-b-32",
)


def make_table() -> str:
    """Return the table in Markdown; systems with equal cells share a line."""
    catalog = load_catalog()
    tasks = tasks_by_family(catalog)
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in SYSTEMS:
        lines.setdefault(cells_of(catalog, name, tasks), []).append(f"`{name}`")
    head = ["system", *(f"{family} ({len(own)})" for family, own in tasks.items())]
    rows = [[", ".join(names), *cells] for cells, names in lines.items()]
    return "".join(f"{line}\n" for line in table(head, rows))


def tasks_by_family(catalog: Catalog) -> dict[str, list[Task]]:
    """Return the tasks of each family, by the name of its folder."""
    found = defaultdict(list)
    for name, spec in catalog.tasks.items():
        if not spec.group:
            task = resolve_task(catalog, name, named=False, options=Options())
            found[spec.file.parent.name].append(task)
    return {family.replace("_", " "): found[family] for family in sorted(found)}


def cells_of(catalog: Catalog, name: str, tasks: Mapping[str, Sequence[Task]]) -> tuple[str, ...]:
    """Return for each family how many of its tasks a system runs, and the missing capabilities."""
    if catalog.models[name].unavailable:
        return tuple("weights unavailable" for _ in tasks)
    model = resolve_model(catalog, name, Options())
    gaps = {
        family: [fit(model.for_task(task.spec), task.needs)[1] for task in own]
        for family, own in tasks.items()
    }
    return tuple(map(_cell, gaps.values()))


def _cell(gaps: Sequence[str]) -> str:
    """Return how many gaps are empty, and the capabilities missing in the others."""
    names = sorted({name for gap in gaps for name in re.findall(r"[A-Z]\w+", gap)})
    count = gaps.count("")
    if not names:
        return "all"
    return f"{count or 'none'}: no {', '.join(names)}"


def with_table(text: str) -> str:
    """Return the page with the table between its markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    return before + start + make_table() + end + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
