"""The page: all boards of a folder in one HTML file that needs no server and no network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from vlbench._version import __version__
from vlbench.boards.board import board_digest, read_board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import FindingsSpec
from vlbench.drawing.html import render_html
from vlbench.errors import counted, printed, spaced
from vlbench.report.data_sets import UNKNOWN
from vlbench.report.leaders import leaders_by_task
from vlbench.report.page.bars import bar, rules
from vlbench.report.page.models import ModelBox, models_of
from vlbench.report.page.sections import Section, all_notes_of, columns_of, section_of
from vlbench.report.pivot import (
    OTHER_DATA,
    Pivot,
    data_name,
    data_order,
    mark_notes,
    pivots,
    within,
)
from vlbench.report.reproduction import grids, reproduce
from vlbench.report.rows import is_random, ties_mark
from vlbench.report.table import (
    APART,
    Entry,
    ScoreTable,
    cells,
    directionless,
    interval,
    key_of,
)
from vlbench.report.texts import Grid, bare_number, condition, score_name, value
from vlbench.results import Result, Score
from vlbench.system.files import safe_name

# Above this number of scores, the pages of models list only primary scores, and the other scores
# are only in the tables of tasks: the file must stay small enough to open.
MOST_SCORES = 20_000

# The largest number of columns that a table shows at first.
MOST_VISIBLE = 16

# The facts in the table of models.
FACTS = ("parameters", "training images", "training data", "released", "weights", "capabilities")

HERE = Path(__file__).parent
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


class Page(NamedTuple):
    """The content of the page.

    `groups` are the boards and summaries by the name of their data, `date` is the day of the newest
    row, and `digest` is the digest of all boards. A page `is_brief` if there are many scores.
    """

    groups: Mapping[str, Sequence[Section]]
    models: Sequence[ModelBox]
    overview: Sequence[Pivot]
    findings: Sequence[Grid]
    date: str
    digest: str
    is_brief: bool

    @property
    def sections(self) -> list[Section]:
        """All boards and summaries."""
        return [section for group in self.groups.values() for section in group]

    @property
    def data(self) -> list[str]:
        """The names of all data, by which tables are filtered."""
        names = (
            [data_of(table, section, group) for table in section.tables] or [group]
            for group, parts in self.groups.items()
            for section in parts
        )
        return [*dict.fromkeys(chain.from_iterable(names))]

    @property
    def ids(self) -> dict[str, str]:
        """The address of each board and summary by its task."""
        return {section.board.task: section.id for section in self.sections}

    @property
    def tags(self) -> list[str]:
        """All tags of the tasks."""
        return sorted({tag for one in self.sections if one.spec for tag in one.spec.tags})

    @property
    def facts(self) -> list[str]:
        """The facts that the catalog contains about any of the models, for their table."""
        return [fact for fact in FACTS if any(fact in model.facts for model in self.models)]

    @property
    def capabilities(self) -> dict[str, list[str]]:
        """The capabilities of each model in the catalog."""
        return {model.name: model.capabilities for model in self.models if model.capabilities}


def read_page(
    output: Path, catalog: Catalog, findings: Mapping[str, FindingsSpec] | None = None
) -> Page:
    """Return the content of the page of a folder of boards, with the verdicts on findings.

    Raises SpecError for malformed boards.
    """
    papers = findings or {}
    files = [*sorted(output.glob("*.json")), *sorted(output.glob("summaries/*.json"))]
    read = {file: board for file in files if (board := read_board(file))}
    leaders = leaders_by_task(output, read.values(), with_worst=True)
    groups: dict[str, list[Section]] = {}
    for file, board in read.items():
        section = section_of(output, file, board, catalog, leaders[board.task])
        groups.setdefault(data_name(section.tables, section.spec) or OTHER_DATA, []).append(section)
    order = data_order({name: [s.is_embedded for s in part] for name, part in groups.items()})
    rows = [row for board in read.values() for row in board.results]
    digests = "".join(map(board_digest, read))
    sections = [section for name in order for section in groups[name]]
    return Page(
        groups={name: groups[name] for name in order},
        models=models_of(sections, catalog),
        overview=[
            pivot._replace(controls={})
            for pivot in pivots([*read.values()], catalog, leaders)
            if len(pivot.columns) > 1
        ],
        findings=[g for paper in papers.values() for g in grids(reproduce(paper, catalog, output))],
        date=max((str(row.run.get("finished", ""))[:10] for row in rows), default=""),
        digest=hashlib.sha256(digests.encode()).hexdigest()[:12],
        is_brief=sum(len(row.scores) for row in rows) > MOST_SCORES,
    )


def render(page: Page) -> bytes:
    """Return the page as UTF-8; the same page gives the same bytes."""
    return render_html(
        HERE / "templates" / "index.html",
        (HERE / "page.css").read_text("utf-8") + rules() + _columns(),
        (HERE / "page.js").read_text("utf-8"),
        filters=FILTERS,
        page=page,
        cards={model.name: model.card for model in page.models},
        version=__version__,
        notes=mark_notes(page.overview),
        data={"capabilities": page.capabilities, "models": len(page.models)},
    )


def data_of(table: ScoreTable, section: Section, group: str) -> str:
    """Return the name of a table's data for the filter: that of the group, if it names the data."""
    is_named = group != OTHER_DATA and not section.has_several_data
    return group if is_named or table.data == UNKNOWN else table.data


def model_id(name: str) -> str:
    """Return the id of a model."""
    return f"model-{safe_name(name)}"


def row_id(row: Result, section: Section) -> str:
    """Return the id of a row, which does not depend on the other rows of the page."""
    of_set = safe_name(row.comparable.removeprefix("sha256:"))[:8]
    more = f".{of_set}" if row.model in section.repeated else ""
    return f"row-{safe_name(section.name)}.{safe_name(row.model)}{more}"


def conditions(score: Score) -> str:
    """Return the conditions of a score in words."""
    return printed(", ".join(f"{key} {condition(value)}" for key, value in score.at.items()))


def label(score: Score, at: Mapping[str, Any]) -> str:
    """Return a score's name with its unit, and with its conditions if they differ from `at`."""
    name = score_name(score.metric, {} if dict(score.at) == dict(at) else score.at)
    return spaced(printed(f"{name}, %" if score.unit == "fraction" else name))


def value_of(score: Score | None, row: Result | None = None) -> str:
    """Return a score without its unit, with its verdict, or a dash; a `row` of ties is marked."""
    if score is None:
        return "-"
    return value(score, bare_number) + (ties_mark(row) if row else "")


def badges(entry: Entry) -> list[str]:
    """Return the marks beside the name of a model."""
    row, apart = entry.row, [APART] if entry.is_apart else []
    partial = [f"partial: {counted(row.absent_rows, 'row')} absent"] if row.is_partial else []
    return [*apart, *partial, *row.marks, *(["random weights"] if is_random(row) else [])]


def arxiv_links(paper: str) -> list[str]:
    """Return the addresses of the papers on arXiv whose ids a text names."""
    return [f"https://arxiv.org/abs/{number}" for number in dict.fromkeys(ARXIV.findall(paper))]


def broken(name: str) -> Markup:
    """Return a name as HTML that may be broken after each underscore."""
    return escape(name).replace("_", Markup("_<wbr>"))


FILTERS: Mapping[str, Any] = {
    "arxiv": arxiv_links,
    "badges": badges,
    "bar": bar,
    "beside": lambda entry: cells(entry, bare_number),
    "broken": broken,
    "columns": columns_of,
    "conditions": conditions,
    "counted": counted,
    "data_of": data_of,
    "directionless": directionless,
    "interval": interval,
    "label": label,
    "model_id": model_id,
    "notes": all_notes_of,
    "number": bare_number,
    "row_id": row_id,
    "scores": lambda entry: {key_of(score): score for score in entry.row.scores},
    "score_key": key_of,
    "spaced": spaced,
    "value": value_of,
    "with_unit": value,
    "within": within,
}


def _columns() -> str:
    """Return the CSS that hides the columns beyond the first N of a table if scripts run."""
    return "".join(
        f".js .m{n}>*>*>:nth-child(n+{n + 1}){{display:none}}" for n in range(2, MOST_VISIBLE + 1)
    )
