"""The content of the page: the boards of a folder, and what the catalog says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vlbench.boards import Board, read_board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.leaderboard.comparison.leaders import read_leaders
from vlbench.leaderboard.page.columns import first_score, primary_label
from vlbench.leaderboard.page.figures import figure_of_board
from vlbench.leaderboard.page.items import wrong_items
from vlbench.leaderboard.page.models import models_of
from vlbench.leaderboard.page.names import arxiv_link, task_id
from vlbench.leaderboard.page.tables import Shelf, reasons_of, tables_of
from vlbench.leaderboard.page.tasks import departures_of, paper_of, settings_of
from vlbench.leaderboard.page.values import Page, Paper, Table, Task
from vlbench.leaderboard.references import Published, published
from vlbench.results import Score

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
