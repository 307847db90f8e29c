"""The content of the page: the boards of a folder, and what the catalog says of them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from vlbench.boards.board import Board, read_board
from vlbench.boards.privacy import cleaned, shown
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import FindingsSpec
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import SpecError
from vlbench.files import read_bytes
from vlbench.report.leaders import Comparisons, read_comparisons
from vlbench.report.page.models import model_rows, models_of
from vlbench.report.page.tables import (
    Shelf,
    first_score,
    primary_label,
    reasons_of,
    rules,
    tables_of,
)
from vlbench.report.page.values import (
    Figure,
    ModelRow,
    Page,
    Paper,
    Task,
    WrongItem,
    arxiv_link,
    model_id,
    task_id,
)
from vlbench.report.pivot import pivots
from vlbench.report.reproduction import grids, reproduce
from vlbench.report.rows import comparable_sets

# With more scores than this, the pages of models list the primary ones alone, and the other ones
# stand in the tables of the tasks only: the file must stay small enough to open.
MOST_SCORES = 20_000

NO_PAPER = "Other tasks"

# A summary is compared with nothing.
NOTHING = Comparisons({}, is_outdated=False)

# The bytes of a figure, of which the largest have a tenth.
MOST_FIGURE = 4 << 20


class Part(NamedTuple):
    """What the page has of one board: its task without the catalog's words, and its models' rows.

    `scores` is the number of all its scores.
    """

    task: Task
    rows: Sequence[ModelRow]
    scores: int
    is_outdated: bool


def read_page(
    output: Path, catalog: Catalog, findings: Mapping[str, FindingsSpec] | None = None
) -> Page:
    """Return the content of the page of a folder of boards, and of what they say of findings.

    Raises SpecError for malformed boards.
    """
    files = [*sorted(output.glob("*.json")), *sorted(output.glob("summaries/*.json"))]
    read = {file: board for file in files if (board := read_board(file))}
    everything = [_part(output, *one, catalog) for one in read.items()]
    boards = [part for part in everything if not part.task.is_summary]
    names = sorted({row.model for part in everything for row in part.rows})
    is_brief = sum(part.scores for part in everything) > MOST_SCORES
    papers: dict[str, list[Task]] = {}
    for part in everything:
        task = _with_words(part.task, catalog)
        papers.setdefault(paper_of(task.paper) or NO_PAPER, []).append(task)
    rows = [row for part in boards for row in part.rows]
    models = models_of(rows, names, catalog, brief=is_brief)
    return Page(
        title="vlbench leaderboards",
        papers=[
            Paper(f"paper-{i}", name, arxiv_link(name), papers[name])
            for i, name in enumerate(sorted(papers, key=lambda name: (name == NO_PAPER, name)))
        ],
        models=models,
        tags=sorted({tag for tasks in papers.values() for task in tasks for tag in task.tags}),
        capabilities={model.name: model.capabilities for model in models if model.capabilities},
        is_brief=is_brief,
        outdated=[part.task.name for part in boards if part.is_outdated],
        overview=pivots(output, [*read.values()], catalog, findings or {}),
        findings=[
            grid
            for paper in (findings or {}).values()
            for grid in grids(reproduce(paper, catalog, output))
        ],
    )


def _part(output: Path, file: Path, board: Board, catalog: Catalog) -> Part:
    """Return what the page has of a board or a summary."""
    is_summary = file.parent != output
    compared = NOTHING if is_summary else read_comparisons(output, file.stem)
    shelf = Shelf(file.stem, board, compared.leaders, is_summary=is_summary)
    scores = sum(len(row.scores) for row in board.results)
    task = _task(output, shelf, catalog.tasks.get(file.stem))
    return Part(task, model_rows(shelf), scores, compared.is_outdated)


def _task(output: Path, shelf: Shelf, spec: TaskSpec | None) -> Task:
    """Return the task of a board, without the words of the catalog."""
    board, name = shelf.board, shelf.name
    first = first_score(board)
    return Task(
        id=task_id(name, summary=shelf.is_summary),
        name=name,
        version=board.version,
        is_summary=shelf.is_summary,
        description="",
        paper=board.paper,
        link="",
        tags=[],
        primary=primary_label(board),
        direction="lower" if first and not first.higher_is_better else "higher",
        tables=tables_of(shelf, spec),
        reasons=reasons_of(board),
        departures=[],
        settings="",
        figure=figure_of_board(output, shelf),
        wrong=wrong_items(shelf),
        data=_data(board),
    )


def _with_words(task: Task, catalog: Catalog) -> Task:
    """Return a task with what the catalog says of it."""
    spec = catalog.tasks.get(task.name)
    paper = task.paper or _paper(spec, catalog)
    return task._replace(
        description=spec.description if spec else "",
        paper=paper,
        link=arxiv_link(paper),
        tags=list(spec.tags) if spec else [],
        departures=departures_of(spec),
        settings=settings_of(spec),
    )


def _paper(spec: TaskSpec | None, catalog: Catalog) -> str:
    """Return the paper of a task, or of the first task of a group; empty where none is known."""
    if spec is None:
        return ""
    papers = [spec.paper, *(catalog.tasks[name].paper for name in spec.group)]
    return next(filter(None, papers), "")


def _data(board: Board) -> list[str]:
    """Return the data of the ok rows, which their provenance names by content."""
    ok = (row for row in board.results if row.status == "ok")
    return [x for x in dict.fromkeys(str(row.provenance.get("data", "")) for row in ok) if x]


def figure_of_board(output: Path, shelf: Shelf) -> Figure | None:
    """Return the figure that `build` has drawn of a board or a summary.

    None where the tables say it all, as they do of one score per model, and where it was drawn from
    another state of the board. Raises SpecError for one that cannot be read.
    """
    metric = shelf.board.primary["metric"]
    ats = [s.at for row in shelf.board.results for s in row.scores if s.metric == metric]
    names = dict.fromkeys(name for at in ats for name in at)
    by = [name for name in names if len({at.get(name) for at in ats}) > 1]
    file = _figure_file(output, shelf.name)
    if not by or not file.is_file() or not (shelf.is_summary or shelf.leaders):
        return None
    try:
        content = read_bytes(file, MOST_FIGURE)
    except OSError as error:
        raise SpecError(f"{file}: {error}") from error
    # As an image, whoever drew it: nothing in an image runs or is loaded.
    source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
    return Figure(source, f"{metric} by {', '.join(by)}; the tables have the numbers")


def _figure_file(output: Path, name: str) -> Path:
    """Return the file of a board's figure; one that does not exist for a link out of the folder."""
    file = output / "figures" / f"{name}.svg"
    return file if file.resolve().is_relative_to(output.resolve()) else Path()


# What of a task's file stands elsewhere on the page.
ELSEWHERE = ("description", "paper", "tags", "version", "reference", "primary", "findings")


def departures_of(spec: TaskSpec | None) -> list[str]:
    """Return the comments of a task's file, which say where it departs from the paper."""
    if spec is None:
        return []
    paragraphs: list[list[str]] = [[]]
    for line in spec.file.read_text("utf-8").splitlines():
        if line.lstrip().startswith("#"):
            paragraphs[-1].append(line.strip().lstrip("#").strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return [cleaned(" ".join(lines)) for lines in paragraphs if lines]


def settings_of(spec: TaskSpec | None) -> str:
    """Return the data, probe and parameters of a task as YAML, without the folders of a machine."""
    if spec is None:
        return ""
    values = {k: shown(v, k) for k, v in spec.document.values.items() if k not in ELSEWHERE}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=72).strip()


def paper_of(paper: str) -> str:
    """Return a paper without the place in it, which stands after the first comma."""
    return paper.partition(",")[0].strip()


def wrong_items(shelf: Shelf) -> list[WrongItem]:
    """Return the items of a board that `build` found to be wrong most often, of its first set."""
    sets = (
        shelf.leaders[key] for key in comparable_sets(shelf.board.results) if key in shelf.leaders
    )
    return [
        WrongItem(
            id=item.id,
            credit=f"{100.0 * item.credit:.0f}",
            models=item.models,
            target=item.target,
            predictions=", ".join(f"{text} ({n})" for text, n in item.predictions.items()),
        )
        for item in next((one.worst for one in sets if one.worst), ())
    ]


# No table shows more columns at first.
MOST_VISIBLE = 16

HERE = Path(__file__).parent


def render(page: Page) -> bytes:
    """Return the page as UTF-8. Texts of boards are escaped; the same page gives the same bytes.

    The policy in it allows the style and the script that are in the file, by their digests, and
    nothing else: what a board may have smuggled in does not run, and no request is made.
    """
    style = (HERE / "page.css").read_text("utf-8") + rules() + _columns()
    script = (HERE / "page.js").read_text("utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    environment.filters |= {"broken": _broken, "model_id": model_id}
    environment.filters["task_id"] = partial(task_id, summary=False)
    template = environment.get_template("index.html")
    cards = {model.name: model.card for model in page.models}
    # Both are our own files, and end no element.
    inside = {"style": Markup(style), "script": Markup(script)}  # noqa: S704
    return template.render(page=page, policy=policy, cards=cards, **inside).encode()


def _broken(name: str) -> Markup:
    """Return a name as HTML that may be broken behind each underscore."""
    return escape(name).replace("_", Markup("_<wbr>"))


def _columns() -> str:
    """Return the CSS that hides the columns beyond the first N of a table, where a script runs."""
    return "".join(
        f".js .m{n}>*>*>:nth-child(n+{n + 1}){{display:none}}" for n in range(2, MOST_VISIBLE + 1)
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
