"""The content of the page: the boards of a folder, and what the catalog says of them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from vlbench.boards import Board, read_board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import SpecError
from vlbench.files import read_bytes
from vlbench.leaderboard.comparison.leaders import read_leaders
from vlbench.leaderboard.page.models import models_of
from vlbench.leaderboard.page.tables import (
    Shelf,
    first_score,
    primary_label,
    reasons_of,
    rules,
    tables_of,
)
from vlbench.leaderboard.page.values import (
    Figure,
    Page,
    Paper,
    Task,
    WrongItem,
    arxiv_link,
    task_id,
)
from vlbench.leaderboard.rows import comparable_sets
from vlbench.planning.privacy import cleaned, shown

# With more scores than this, the pages of models list the primary ones alone, and the other ones
# stand in the tables of the tasks only: the file must stay small enough to open.
MOST_SCORES = 20_000

NO_PAPER = "Other tasks"

# The bytes of a figure, of which the largest have a tenth.
MOST_FIGURE = 4 << 20


def read_page(output: Path, catalog: Catalog) -> Page:
    """Return the content of the page of a folder of boards. Raises SpecError for malformed ones."""
    boards = list(_shelves(output, output.glob("*.json")))
    summaries = list(_shelves(output, output.glob("summaries/*.json")))
    everything = [*boards, *summaries]
    names = sorted({row.model for shelf in everything for row in shelf.board.results})
    cards = {name: f"c{i}" for i, name in enumerate(names)}
    scores = sum(len(row.scores) for shelf in everything for row in shelf.board.results)
    papers: dict[str, list[Task]] = {}
    for shelf in everything:
        task = _task(output, shelf, catalog, cards)
        papers.setdefault(paper_of(task.paper) or NO_PAPER, []).append(task)
    models = models_of(boards, catalog, cards, brief=scores > MOST_SCORES)
    return Page(
        title="vlbench leaderboards",
        papers=[
            Paper(f"paper-{i}", name, arxiv_link(name), papers[name])
            for i, name in enumerate(sorted(papers, key=lambda name: (name == NO_PAPER, name)))
        ],
        models=models,
        tags=sorted({tag for tasks in papers.values() for task in tasks for tag in task.tags}),
        capabilities={model.name: model.capabilities for model in models if model.capabilities},
        is_brief=scores > MOST_SCORES,
    )


def _shelves(output: Path, files: Iterator[Path]) -> Iterator[Shelf]:
    for file in sorted(files):
        board = read_board(file)
        if board:
            leaders = read_leaders(output, file.stem) if file.parent == output else {}
            yield Shelf(file.stem, board, leaders, is_summary=file.parent != output)


def _task(output: Path, shelf: Shelf, catalog: Catalog, cards: Mapping[str, str]) -> Task:
    board, name = shelf.board, shelf.name
    spec = catalog.tasks.get(name)
    first = first_score(board)
    paper = board.paper or _paper(spec, catalog)
    return Task(
        id=task_id(name, summary=shelf.is_summary),
        name=name,
        version=board.version,
        is_summary=shelf.is_summary,
        description=spec.description if spec else "",
        paper=paper,
        link=arxiv_link(paper),
        tags=list(spec.tags) if spec else [],
        primary=primary_label(board),
        direction="lower" if first and not first.higher_is_better else "higher",
        tables=tables_of(shelf, cards, spec),
        reasons=reasons_of(board),
        departures=departures_of(spec),
        settings=settings_of(spec),
        figure=figure_of_board(output, shelf),
        wrong=wrong_items(shelf),
        data=_data(board),
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
    file = output / "figures" / f"{shelf.name}.svg"
    is_ours = file.is_file() and file.resolve().is_relative_to(output.resolve())
    if not by or not is_ours or not (shelf.is_summary or shelf.leaders):
        return None
    try:
        content = read_bytes(file, MOST_FIGURE)
    except OSError as error:
        raise SpecError(f"{file}: {error}") from error
    # As an image, whoever drew it: nothing in an image runs or is loaded.
    source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
    return Figure(source, f"{metric} by {', '.join(by)}; the tables have the numbers")


# What of a task's file stands elsewhere on the page.
ELSEWHERE = ("description", "paper", "tags", "version", "reference", "primary", "claims")


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
    )
    environment.filters["broken"] = _broken
    template = environment.get_template("index.html")
    # Both are our own files, and end no element.
    inside = {"style": Markup(style), "script": Markup(script)}  # noqa: S704
    return template.render(page=page, policy=policy, **inside).encode()


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
