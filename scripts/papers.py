#!/usr/bin/env python3
"""Writes docs/papers/: a page for each paper, made from its file of findings, its tasks and boards.

Run it again after findings, tasks or boards have changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.board import read_board
from vlbench.catalog.catalog import Catalog, load_all_findings, load_catalog
from vlbench.catalog.findings import FindingsSpec
from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import load_yaml
from vlbench.catalog.task_files import own_text
from vlbench.report.papers import HEADS, cells, rows_of, total
from vlbench.report.reproduction import Reference, count_values, name_of, reproduce
from vlbench.report.texts import number
from vlbench.results import Score

ROOT = Path(__file__).resolve().parents[1]
PAGES, BOARDS, README = ROOT / "docs" / "papers", ROOT / "leaderboards", ROOT / "README.md"

# Markers around the number in the README.
START, END = "<!-- measured -->", "<!-- /measured -->"

# What each paper prints, and the task that repeats it, or why no task does.
PRINTED = PAGES / "tables_and_figures.yaml"

ABOUT_RUNS = """A task is run if its board is shipped. The models of these boards are not the
paper's."""

# A comment of a task's file on a departure from the paper.
DEPARTURE = re.compile(r"^ *# Departure: (.+(?:\n *# (?!Departure).+)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    catalog = load_catalog()
    findings = load_all_findings(catalog)
    return {f"{name}.md": page(one, catalog) for name, one in findings.items() if one.experiments}


def page(paper: FindingsSpec, catalog: Catalog) -> str:
    """Return the page of a paper in Markdown."""
    return "\n".join(_parts(paper, catalog)) + "\n"


class Measured(NamedTuple):
    """How many values the papers and other sources publish, and how many are on shipped boards."""

    papers: tuple[int, int]
    others: tuple[int, int]


def measured(catalog: Catalog) -> Measured:
    """Return the number of published values, and the number with our value on a shipped board."""
    papers = load_all_findings(catalog).values()
    ids = {paper.paper for paper in papers}
    references = [one for paper in papers for one in reproduce(paper, catalog, BOARDS).references]
    others = [one for one in references if one.source not in ids]
    return Measured(
        count_values([one for one in references if one.source in ids]), count_values(others)
    )


def recorded(catalog: Catalog) -> int:
    """Return the number of published values scored on shipped boards from recorded answers."""
    count = 0
    for file in sorted(BOARDS.glob("*.json")):
        of = {row.model for row in read_board(file).results if row.is_recorded}
        task = catalog.tasks.get(file.stem)
        count += sum(one["model"] in of for one in (task.reference if task else ()))
    return count


def with_number(text: str) -> str:
    """Return the README with the current number of published values measured on shipped boards."""
    catalog = load_catalog()
    papers, others = measured(catalog)
    sentence = (
        f"None of the papers' {papers[0]} published values is measured here"
        if not papers[1]
        else f"{papers[1]} of the papers' {papers[0]} published values are measured here"
    )
    sentence += (
        f", and {others[1]} of {others[0]} of other sources;\n"
        f"{recorded(catalog)} further values, of recorded answers, were scored again"
    )
    return re.sub(rf"(?s)(?<={START}).*?(?={END})", sentence, text)


def _parts(paper: FindingsSpec, catalog: Catalog) -> Iterator[str]:
    rows = rows_of(paper, catalog)
    yield f"# {paper.title}\n\n{paper.paper}. {paper.question}\n"
    commands = [f"vlbench papers {paper.name} {option}" for option in ("--dry-run", "--download")]
    yield "\n".join(["```", *commands, "```\n"])
    yield "`scripts/papers.py` writes this page.\n"
    reproduction = reproduce(paper, catalog, BOARDS)
    yield from _printed(paper, catalog, reproduction.references)
    yield "\n## What it takes\n"
    listed = [cells(row) for row in rows]
    yield from table(HEADS, [[f"`{task}`", f"`{model}`", *rest] for task, model, *rest in listed])
    yield f"\n{total(rows)}. Each is fetched once.\n"
    for data, access, licence in dict.fromkeys((r.data, r.access, r.licence) for r in rows):
        yield f"- {data}: {access}; licence: {licence}"
    for one in paper.without:
        yield f"- Without {one.what}: {one.why}. Nearest: {one.nearest}."
    head = ("task", "model", "score", "where", "published", "ours")
    for source, references in reproduction.by_source.items():
        if references:
            of = "" if source == paper.paper else f" elsewhere: {source}"
            yield f"\n## Published and measured{of}\n"
            yield from table(head, [_reference(one) for one in references])
    tasks = [catalog.tasks[name] for name in dict.fromkeys(row.task for row in rows)]
    departures = [line for task in tasks for line in _departures(task)]
    if departures:
        yield "\n## Departures\n"
        yield from departures


def _printed(
    paper: FindingsSpec, catalog: Catalog, references: Sequence[Reference]
) -> Iterator[str]:
    """Yield the tables and figures of a paper: what each shows, its tasks, and what has been run.

    Raises KeyError for a task that there is not.
    """
    yield f"## Tables and figures\n\n{ABOUT_RUNS}\n"
    rows = []
    for one in load_yaml(PRINTED).values[paper.name]:
        own = [
            reference
            for reference in references
            if reference.source == paper.paper
            and reference.given["where"].partition(",")[0] == one["where"]
        ]
        tasks = one.get("tasks", [])
        state = f"not repeated: {one['why_not']}" if "why_not" in one else _state(one, own, catalog)
        rows.append([one["where"], one["shows"], _code(tasks) or "-", state])
    yield from table(("paper", "what it shows", "task", "state"), rows)


def _state(one: Mapping[str, Any], references: Sequence[Reference], catalog: Catalog) -> str:
    """Return how many published values are measured, and the tasks whose boards are shipped."""
    published, measured = count_values(references)
    own, near = (
        [
            task
            for name in one.get(key, ())
            for task in catalog.tasks[name].group or [name]
            if (BOARDS / f"{task}.json").is_file()
        ]
        for key in ("tasks", "near")
    )
    parts = [f"run: {_code(own)}" if own else "not run"]
    parts += [f"{measured} of {published} published values measured"] if published else []
    parts += [f"on other data: {_code(near)}"] if near else []
    return "; ".join(parts)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _reference(one: Reference) -> list[str]:
    given, unit = one.given, one.ours.unit if isinstance(one.ours, Score) else ""
    ours = number(one.ours.value, one.ours.unit) if isinstance(one.ours, Score) else "-"
    value = number(given["value"], unit) if unit else f"{given['value']:g}"
    return [
        f"`{one.spec.name}`",
        f"`{given['model']}`",
        name_of(given),
        given["where"],
        value,
        ours,
    ]


def _departures(task: TaskSpec) -> Iterator[str]:
    for found in DEPARTURE.findall(own_text(task.document)):
        text = " ".join(line.strip().removeprefix("# ") for line in found.splitlines())
        yield f"- `{task.name}`: {text}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text, "utf-8")
    README.write_text(with_number(README.read_text("utf-8")), "utf-8")
