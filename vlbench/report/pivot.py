"""Models x tasks: each model's primary score on each board, one table for each data set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product, starmap
from typing import Any, NamedTuple

from vlbench.boards.board import Board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.training_data import trained_models
from vlbench.errors import require_known
from vlbench.report.data_sets import UNKNOWN
from vlbench.report.leaders import Leaders
from vlbench.report.notes import joined_notes, notes_of
from vlbench.report.rows import ties_mark, unpublished
from vlbench.report.table import Entry, ScoreTable, interval, score_columns, tables_of, title_of
from vlbench.report.texts import Grid, lead, number, score_name, value

# The table of data sets with a single column, and of tasks whose titles name no data.
OTHER_DATA = "Other data"

# The tag of tasks on drawings and digits shipped with vlbench; they come below real data.
EMBEDDED = "embedded"

# Marks beside a score, and their meaning.
BEST_MARK, APART_MARK, NOTE_MARK, TRAINED_MARK = "*", "#", "!", "^"
BEST_NOTE = "* differs from every other model at 5 % (paired tests, corrected for all pairs)."
APART_NOTE = "# not comparable with the rest of its column: other regions or parameters."
NOTE_NOTE = "! the row has notes."
TRAINED_NOTE = "^ the model was trained on the task's data set, or on part of it."
CONTROL_NOTE = "Controls ignore their inputs."
CHANCE = "chance"
# The number of steps from chance to a perfect score.
SHADES = 5
COLUMNS = ("paper", "task", "data", "title", "score", "model", "control", "value", "ci95_low",
           "ci95_high", "n", "unit", "chance", "verdict", "best", "apart", "trained_on",
           "notes")  # fmt: skip


class Column(NamedTuple):
    """A task: its title, its primary score, and chance if it is the same for all models.

    If a task's board has several data sets, there is one column for each, and `data` is its name.
    For a task on a user's own data, `data` is the name of the folder. `head` is the title without
    the name of the data that all columns of a table share.
    """

    task: str
    title: str
    score: str
    chance: str = ""
    data: str = ""
    paper: str = ""
    head: str = ""

    @property
    def key(self) -> str:
        """The key of the column's cells."""
        return f"{self.task}: {self.data}" if self.data else self.task


class Cell(NamedTuple):
    """A model's entry on a board, and whether it is outside its column's largest comparable set.

    `trained_on` is the task's data set if the model was trained on it. `marks` are shown beside the
    score; marks that all cells of the model share are shown beside its name instead.
    """

    entry: Entry
    is_apart: bool = False
    trained_on: str = ""
    marks: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The score with its unit, verdict and marks."""
        score = self.entry.primary
        if score is None:
            return ""
        best, apart = BEST_MARK * self.entry.is_best, APART_MARK * self.is_apart
        noted = NOTE_MARK * self.has_notes
        return f"{value(score)}{best}{apart}{noted}{''.join(self.marks)}"

    @property
    def shade(self) -> int:
        """How far the score is on the way from chance to a perfect score, 0..SHADES.

        It is 0 for controls, and for scores without a chance, a direction or a perfect score.
        """
        score = self.entry.primary
        if score is None or score.chance is None or self.entry.row.is_control:
            return 0
        perfect = {True: score.limits[1], False: score.limits[0], None: None}
        best = perfect[score.higher_is_better]
        if best is None or best == score.chance:
            return 0
        return max(0, round(SHADES * (score.value - score.chance) / (best - score.chance)))

    @property
    def has_notes(self) -> bool:
        """Whether the row has notes; notes of controls are expected, and only below their board."""
        return not self.entry.row.is_control and bool(notes_of(self.entry.row))

    @property
    def about(self) -> str:
        """The 95 % interval of the score, if it has one, and its n."""
        score = self.entry.primary
        if score is None:
            return ""
        around = interval(score)
        return f"95 % interval {around}, n {score.n:,}" if around else f"n {score.n:,}"


class Pivot(NamedTuple):
    """The models of some tasks, by name, controls last, and their cells by column.

    `marks` are the marks that all cells of a model share.
    """

    title: str
    columns: Sequence[Column]
    models: Mapping[str, Mapping[str, Cell]]
    controls: Mapping[str, Mapping[str, Cell]]
    marks: Mapping[str, str] = {}

    @property
    def rows(self) -> dict[str, Mapping[str, Cell]]:
        """The cells of all models, controls last."""
        return {**self.models, **self.controls}


def pivots(
    boards: Sequence[Board],
    catalog: Catalog,
    leaders: Mapping[str, Mapping[str, Leaders]],
    models: Collection[str] = (),
    *,
    all_rows: bool = False,
) -> list[Pivot]:
    """Return a table for each data set with two columns or more, and one for all others.

    Only publishable rows (or `all_rows`) and boards with scores are included, and only `models` if
    given. Tables of drawings and digits come last. The best models are taken from the `leaders`, by
    task. Raises UnknownNameError for a model without a publishable row.
    """
    groups: dict[str, list[_Filled]] = {}
    for board in boards:
        if any(row.status == "ok" for row in board.results):
            for filled in _columns(board, leaders.get(board.task, {}), catalog, all_rows=all_rows):
                groups.setdefault(filled.data, []).append(filled)
    alone = {name: group for name, group in groups.items() if name and len(group) > 1}
    rest = [filled for name, group in groups.items() if name not in alone for filled in group]
    sets = alone | ({OTHER_DATA: rest} if rest else {})
    order = data_order({name: [one.is_embedded for one in group] for name, group in sets.items()})
    tables = [_pivot(name, sets[name]) for name in order]
    if not models:
        return tables
    names = {model for table in tables for model in table.rows}
    require_known("model with scores", models, names)
    # Shades are still those over all models.
    return [
        table._replace(
            models={model: table.models[model] for model in models if model in table.models},
            controls={model: table.controls[model] for model in models if model in table.controls},
        )
        for table in tables
    ]


def data_order(embedded: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return the names of data sets, real data first, then by number of tasks, the most first.

    `embedded` states for each task of a data set whether its data are shipped with vlbench.
    """
    return sorted(
        embedded,
        key=lambda name: (all(embedded[name]), name == OTHER_DATA, -len(embedded[name]), name),
    )


def data_name(tables: Sequence[ScoreTable], spec: TaskSpec | None) -> str:
    """Return the name of the data of some tables; empty if they have several data sets or no name.

    It is the name in the task's title. If the title names none, or for a user's own data, it is
    that of the folder, since boards with the same title may have the data of different folders.
    """
    names = {table.data for table in tables} - {UNKNOWN}
    if spec and data_of(spec.title) and not is_on_own_data(spec):
        return data_of(spec.title)
    return names.pop() if len(names) == 1 else ""


def is_on_own_data(spec: TaskSpec) -> bool:
    """Return whether a task is on a user's own data: `your images`, or `yours`, by its title."""
    return spec.is_on_images or data_of(spec.title).startswith("your")


def data_of(title: str) -> str:
    """Return the data that a task's title names after its last comma; empty if it names none."""
    return title.rpartition(", ")[2] if ", " in title else ""


def mark_notes(pivots: Sequence[Pivot]) -> str:
    """Return the meaning of the marks in some tables."""
    cells = [cell for pivot in pivots for row in pivot.rows.values() for cell in row.values()]
    notes = {
        BEST_NOTE: any(cell.entry.is_best for cell in cells),
        APART_NOTE: any(cell.is_apart for cell in cells),
        NOTE_NOTE: any(cell.has_notes for cell in cells),
        TRAINED_NOTE: any(cell.trained_on for cell in cells),
        CONTROL_NOTE: any(pivot.controls for pivot in pivots),
    }
    return " ".join(note for note, is_needed in notes.items() if is_needed)


def row_notes(pivots: Sequence[Pivot]) -> list[str]:
    """Return the notes of the models of some tables, with the titles of the tasks."""
    return joined_notes(
        (cells[column.key].entry.row, column.title)
        for pivot in pivots
        for column in pivot.columns
        for cells in pivot.models.values()
        if column.key in cells
    )


def together(boards: Sequence[Board], parts: Sequence[Pivot], models: Sequence[str] = ()) -> Pivot:
    """Return one table made of several, its columns in the order of the boards.

    Its rows are in the order of the `models`, or by name.
    """
    columns = [column._replace(head="") for pivot in parts for column in pivot.columns]
    rows: dict[str, dict[str, Cell]] = {}
    for pivot in parts:
        for model, cells in pivot.rows.items():
            rows.setdefault(model, {}).update(cells)
    ordered = {model: rows[model] for model in models or sorted(rows) if model in rows}
    shown = [column for board in boards for column in columns if column.task == board.task]
    return _marked("Models by tasks", shown, ordered)


def caption(pivot: Pivot) -> str:
    """Return, for each column, n and how far the 95 % intervals reach, then the notes on marks."""
    parts = []
    for column in pivot.columns:
        cells = [row[column.key] for row in pivot.models.values() if column.key in row]
        scores = [cell.entry.primary for cell in cells if cell.entry.primary]
        if scores:
            ns = sorted({score.n for score in scores})
            n = f"{ns[0]:,}" if len(ns) == 1 else f"{ns[0]:,} to {ns[-1]:,}"
            ends = [abs(end - s.value) for s in scores for end in s.ci95 or ()]
            size = lead(max(ends), scores[0].unit).removeprefix("+") if ends else ""
            within = f", 95 % intervals reach at most {size}" if ends else ""
            parts.append(f"{column.title}: {column.score}, n {n}{within}")
    columns = f"{'; '.join(parts)}." if parts else ""
    return " ".join(filter(None, [columns, mark_notes([pivot])]))


def place_of(board: Board, catalog: Catalog) -> str:
    """Return a board's paper and the place in it; for a group, of its first task that has one."""
    spec = catalog.tasks.get(board.task)
    papers = [spec.paper, *(catalog.tasks[name].paper for name in spec.group)] if spec else []
    return next(filter(None, [board.paper, *papers]), "")


def within(title: str, data: str) -> str:
    """Return a task's title without the data that its heading names."""
    bare = title.removesuffix(f": {data}")
    return title if data == OTHER_DATA else bare.removesuffix(f", {data_of(bare)}")


class _Filled(NamedTuple):
    """A column, its cells by model, the name of its data, and whether they are embedded."""

    column: Column
    cells: dict[str, Cell]
    data: str
    is_embedded: bool


def _pivot(title: str, filled: Sequence[_Filled]) -> Pivot:
    columns = [part.column._replace(head=within(part.column.title, title)) for part in filled]
    rows: dict[str, dict[str, Cell]] = {}
    for column, cells, *_ in filled:
        for model, cell in cells.items():
            rows.setdefault(model, {})[column.key] = cell
    return _marked(title, columns, {model: rows[model] for model in sorted(rows)})


def _marked(title: str, columns: Sequence[Column], rows: Mapping[str, Mapping[str, Cell]]) -> Pivot:
    """Return a table in which marks that all cells of a model share are moved to its name."""
    models, blind = dict[str, dict[str, Cell]](), dict[str, dict[str, Cell]]()
    common: dict[str, str] = {}
    for model, cells in rows.items():
        marks = {key: _marks(cell) for key, cell in cells.items()}
        first, *others = marks.values()
        shared = [mark for mark in first if all(mark in other for other in others)]
        common[model] = "".join(shared)
        is_control = any(cell.entry.row.is_control for cell in cells.values())
        (blind if is_control else models)[model] = {
            key: cell._replace(marks=[mark for mark in marks[key] if mark not in shared])
            for key, cell in cells.items()
        }
    return Pivot(title, columns, models, blind, common)


def _marks(cell: Cell) -> list[str]:
    """Return the marks of a cell: trained on the data, mostly ties, and others."""
    row = cell.entry.row
    trained = [TRAINED_MARK] if cell.trained_on else []
    ties = [ties_mark(row)] if row.is_mostly_tied else []
    return [*trained, *ties, *(f" ({mark})" for mark in row.marks)]


def _columns(
    board: Board, leaders: Mapping[str, Leaders], catalog: Catalog, *, all_rows: bool
) -> Iterator[_Filled]:
    """Yield the column of each data set of a board, by name.

    The largest set of comparable rows comes first; its rows are used for models with several rows.
    """
    spec, by_name = catalog.tasks.get(board.task), dict[str, list[ScoreTable]]()
    for table in tables_of(board, leaders, spec):
        by_name.setdefault(table.data, []).append(table)
    title, paper = title_of(board.task, spec, board), place_of(board, catalog)
    score = score_name(board.primary["metric"], board.primary.get("at", {}))
    trained = trained_models({row.model for row in board.results}, catalog.models, spec)
    is_embedded = spec is not None and EMBEDDED in spec.tags
    is_folder = spec is not None and is_on_own_data(spec) and {*by_name} != {UNKNOWN}
    for name, tables in sorted(by_name.items()):
        has_data = len(by_name) > 1 or is_folder
        head, data = (f"{title}: {name}", name) if has_data else (title, "")
        column = Column(board.task, head, score, _chance(tables), data, paper.partition(",")[0])
        cells = _cells(tables, trained, all_rows=all_rows)
        yield _Filled(column, cells, data_name(tables, spec), is_embedded)


def _cells(
    tables: Sequence[ScoreTable], trained: Mapping[str, str], *, all_rows: bool
) -> dict[str, Cell]:
    """Return the cells of a column by model; `trained` has the data set of trained models."""
    cells: dict[str, Cell] = {}
    for i, table in enumerate(tables):
        for entry in table.entries:
            model = entry.row.model
            cell = Cell(entry, entry.is_apart or i > 0, trained_on=trained.get(model, ""))
            if all_rows or not unpublished(entry.row):
                cells.setdefault(model, cell)
    return cells


def _chance(tables: Sequence[ScoreTable]) -> str:
    scores = [score for table in tables for score in table.scores]
    chances = {number(score.chance, score.unit) for score in scores if score.chance is not None}
    return chances.pop() if len(chances) == 1 else ""


def grid(pivot: Pivot) -> Grid:
    """Return a table to print: models, chance, controls; a dash for no score."""

    def row(model: str, cells: Mapping[str, Cell]) -> list[str]:
        control = " (control)" if model in pivot.controls else ""
        texts = (cells[c.key].text if c.key in cells else "" for c in pivot.columns)
        name = f"{model}{control}{pivot.marks.get(model, '')}"
        return [name, *(text or "-" for text in texts)]

    head = ["model", *(column.head or column.title for column in pivot.columns)]
    chances = [column.chance or "-" for column in pivot.columns]
    rows = [
        *starmap(row, pivot.models.items()),
        *([[CHANCE, *chances]] if {*chances} != {"-"} else []),
        *starmap(row, pivot.controls.items()),
    ]
    columns = "l" + "r" * len(chances)
    return Grid(pivot.title, head, rows, columns, caption(pivot), row_notes([pivot]))


def lines(pivots: Sequence[Pivot]) -> Iterator[dict[str, Any]]:
    """Yield a line for each model, task and data set with a score, for CSV and JSON."""
    for pivot in pivots:
        for (model, cells), column in product(pivot.rows.items(), pivot.columns):
            cell = cells.get(column.key)
            if cell and cell.entry.primary:
                line = score_columns(cell.entry.row, cell.entry.primary) | {
                    "paper": column.paper,
                    "task": column.task,
                    "data": cell.entry.data,
                    "title": column.title,
                    "score": column.score,
                    "model": model,
                    "control": model in pivot.controls,
                    "best": cell.entry.is_best,
                    "apart": cell.is_apart,
                    "trained_on": cell.trained_on,
                }
                yield {name: line[name] for name in COLUMNS}
