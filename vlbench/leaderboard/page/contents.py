"""The content of the page: the boards of a folder, and what the catalog says of them."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from vlbench.boards import Board, read_board
from vlbench.boards.privacy import cleaned, shown
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_items
from vlbench.leaderboard.comparison.leaders import read_leaders
from vlbench.leaderboard.page.figures import figure_of_board
from vlbench.leaderboard.page.models import models_of
from vlbench.leaderboard.page.tables import (
    Shelf,
    first_score,
    primary_label,
    reasons_of,
    rules,
    tables_of,
)
from vlbench.leaderboard.page.values import Page, Paper, Table, Task, WrongItem, arxiv_link, task_id
from vlbench.leaderboard.rows import Published, publishable, published
from vlbench.metrics.items import at_text
from vlbench.results import ITEMS, Result, Score, matching

# With more scores than this, the pages of models list the primary ones alone, and the other ones
# stand in the tables of the tasks only: the file must stay small enough to open.
MOST_SCORES = 20_000

NO_PAPER = "Other tasks"


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

    def beside(model: str, score: Score) -> Published | None:
        return published(spec, model, score) if spec else None

    tables = tables_of(shelf, cards, beside)
    wrong, problems = wrong_items(output, board)
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
        tables=tables,
        reasons=reasons_of(board),
        departures=departures_of(spec),
        settings=settings_of(spec),
        figure=figure_of_board(board, _best(tables), list(cards)),
        wrong=wrong,
        problems=problems,
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


def _best(tables: Sequence[Table]) -> list[str]:
    """Return the models of the tables, in their order."""
    return list(dict.fromkeys(row.model for table in tables for row in table.rows))


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


MOST = 10


def wrong_items(output: Path, board: Board) -> tuple[list[WrongItem], list[str]]:
    """Return the examples that are worst by mean credit over a board's models, and problems.

    Each model counts once, with its mean over trials, and only items of the primary score count
    that all these models have. Models are those whose rows are publishable and that the first of
    them may be compared with. A problem names a model and why its items cannot be read.
    """
    rows = [row for row in publishable(board.results).values() if ITEMS in row.artifacts]
    tables, problems = [], []
    for row in rows:
        if row.comparable != rows[0].comparable:
            continue
        try:
            tables.append(_primary(read_items(output, row), board))
        except DataError as error:
            problems.append(f"{row.model}: {error}")
    filled = [table for table in tables if len(table)]
    return (_worst(filled, lower=_lower_is_better(rows, board)) if filled else []), problems


def _lower_is_better(rows: Sequence[Result], board: Board) -> bool:
    """Return whether full credit is 0, as for the success of an attack."""
    scores = [score for row in rows for score in matching(row.scores, board.primary)]
    return any(not score.higher_is_better for score in scores)


def _primary(items: pa.Table, board: Board) -> pa.Table:
    """Return id, credit, prediction and target of a model's items of the primary score."""
    metric = pc.equal(items["metric"], board.primary["metric"])
    at = pc.equal(items["at"], at_text(board.primary.get("at", {})))
    own = items.select(["id", "credit", "prediction", "target"]).filter(pc.and_(metric, at))
    kinds = [(c, pa.float64() if c == "credit" else pa.string()) for c in own.column_names]
    return own.cast(pa.schema(kinds))


def _worst(tables: Sequence[pa.Table], *, lower: bool) -> list[WrongItem]:
    """Return the items with the lowest mean credit, or the highest; by id where they are equal."""
    means = pa.concat_tables(
        table.group_by("id").aggregate([("credit", "mean")]) for table in tables
    )
    over = means.group_by("id").aggregate([("credit_mean", "mean"), ("credit_mean", "count")])
    shared = over.filter(pc.equal(over["credit_mean_count"], len(tables)))
    order = [("credit_mean_mean", "descending" if lower else "ascending"), ("id", "ascending")]
    worst = shared.sort_by(order).slice(0, MOST).to_pylist()
    ids = pa.array([item["id"] for item in worst], pa.string())
    said = pa.concat_tables(t.filter(pc.is_in(t["id"], ids)) for t in tables).to_pylist()
    return [
        WrongItem(
            id=item["id"],
            credit=f"{100.0 * item['credit_mean_mean']:.0f}",
            models=len(tables),
            target=next((s["target"] for s in said if s["id"] == item["id"] and s["target"]), ""),
            predictions=_counted([s["prediction"] for s in said if s["id"] == item["id"]]),
        )
        for item in worst
        if (item["credit_mean_mean"] > 0.0 if lower else item["credit_mean_mean"] < 1.0)
    ]


def _counted(predictions: Sequence[str | None]) -> str:
    """Return the three most frequent predictions, the most frequent first."""
    counted = Counter(text for text in predictions if text is not None)
    most = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    return ", ".join(f"{text} ({count})" for text, count in most)


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
