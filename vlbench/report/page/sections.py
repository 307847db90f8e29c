"""The content of the page for a board or a summary, besides its tables."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from vlbench.boards.board import Board
from vlbench.boards.items import KeptReply, WrongItem, replies_of
from vlbench.boards.privacy import cleaned, shown
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.task_files import own_text
from vlbench.catalog.training_data import trained_models
from vlbench.errors import SpecError, spaced
from vlbench.report.data_sets import figure_names, published_by_data
from vlbench.report.leaders import Leaders
from vlbench.report.notes import count_note, notes_of
from vlbench.report.page.bars import Scale, scale_of
from vlbench.report.pivot import EMBEDDED, is_on_own_data, place_of
from vlbench.report.table import HEADS, ScoreTable, cells, other_scores, tables_of, title_of
from vlbench.report.texts import bare_number, few, score_name
from vlbench.results import Result, Score, matching
from vlbench.system.files import read_bytes, safe_name

# The largest number of figures of single models that are shown for a task.
MOST_OF_ROWS = 12

# The most bytes of a figure: ten times the largest known figures.
MOST_FIGURE = 4 << 20

# The entries of a task's file that are shown elsewhere on the page.
ELSEWHERE = ("title", "description", "paper", "tags", "version", "reference", "primary", "findings")
# Columns that are visible at first, of other scores with the conditions of the primary score.
VISIBLE_SCORES = 2

# The largest number of images of items that models get wrong most often.
MOST_IMAGES = 6

# The largest number of names listed of models that are not tested.
MOST_NAMES = 20
# These are printed below a table if all rows have the same value, otherwise in a column.
VARYING = ("n", "chance", "highest floor")


class Section(NamedTuple):
    """A board or a summary, under the name of its file.

    `leaders` are the leaders of its sets, by `comparable`. A board that `is_outdated` has changed
    since `build` drew its figures. `figures` are data addresses of pictures. `of_rows` are the
    first figures of single models, by name, and `row_figures` is their total number. `repeated` are
    the models with several rows. `trained` maps each model that was trained on the task's data set
    to that data set. `thumbnails` are data addresses of pictures, `questions` what was asked, and
    `replies` what the leader said, by item.
    """

    name: str
    board: Board
    tables: Sequence[ScoreTable]
    leaders: Mapping[str, Leaders]
    spec: TaskSpec | None
    paper: str
    is_summary: bool = False
    is_outdated: bool = False
    figures: Sequence[str] = ()
    of_rows: Mapping[str, str] = {}
    row_figures: int = 0
    repeated: Collection[str] = ()
    trained: Mapping[str, str] = {}
    thumbnails: Mapping[str, str] = {}
    questions: Mapping[str, str] = {}
    replies: Mapping[str, Sequence[KeptReply]] = {}

    @property
    def id(self) -> str:
        """The address of the section within the page."""
        return f"{'group' if self.is_summary else 'task'}-{safe_name(self.name)}"

    @property
    def title(self) -> str:
        """What the task is called."""
        return title_of(self.name, self.spec, self.board)

    @property
    def is_embedded(self) -> bool:
        """Whether its data are shipped with vlbench."""
        return self.spec is not None and EMBEDDED in self.spec.tags

    @property
    def primary(self) -> str:
        """The primary score, with its conditions and unit."""
        score = self._first
        name = spaced(score_name(self.board.primary["metric"], self.board.primary.get("at", {})))
        return f"{name}, %" if score and score.unit == "fraction" else name

    @property
    def direction(self) -> str:
        """Which scores are better: `higher` or `lower`; empty if neither is."""
        if self._first is None:
            return "higher"
        return {True: "higher", False: "lower", None: ""}[self._first.higher_is_better]

    @property
    def _first(self) -> Score | None:
        matches = (matching(row.scores, self.board.primary) for row in self.board.results)
        return next((scores[0] for scores in matches if scores), None)

    @property
    def reasons(self) -> dict[tuple[str, str], list[str]]:
        """The models without a score by status and reason, the failed ones first."""
        models_by_reason: dict[tuple[str, str], list[str]] = {}
        for row in sorted(self.board.results, key=lambda row: (row.status, row.reason)):
            if row.status != "ok":
                models_by_reason.setdefault((row.status, row.reason), []).append(row.model)
        return models_by_reason

    @property
    def data(self) -> list[str]:
        """The data of the ok rows, identified by content in their provenance."""
        ok = (row for row in self.board.results if row.status == "ok")
        return [x for x in dict.fromkeys(str(row.provenance.get("data", "")) for row in ok) if x]

    @property
    def worst_of(self) -> ScoreTable | None:
        """The first table with items that its models get wrong most often; None if none has."""
        return next((table for table in self.tables if table.leaders and table.leaders.worst), None)

    @property
    def worst(self) -> Sequence[WrongItem]:
        """The items that the models of this table get wrong most often."""
        leaders = self.worst_of.leaders if self.worst_of else None
        return leaders.worst if leaders else ()

    @property
    def strip(self) -> list[WrongItem]:
        """The worst items whose images are shown: the first of each image."""
        by_image: dict[str, WrongItem] = {}
        for item in self.worst:
            if item.id in self.thumbnails:
                by_image.setdefault(self.thumbnails[item.id], item)
        return [*by_image.values()][:MOST_IMAGES]

    @property
    def leading_row(self) -> Result | None:
        """The row of the leader of the table with the worst items; None if no table has any."""
        table = self.worst_of
        if table is None or table.leaders is None:
            return None
        return next(entry.row for entry in table.entries if entry.row.model == table.leaders.leader)

    @property
    def has_several_data(self) -> bool:
        """Whether its rows are of several data sets."""
        return len({table.data for table in self.tables}) > 1

    @property
    def departures(self) -> list[str]:
        """The comments of the task in its file, which state its departures from the paper."""
        paragraphs: list[list[str]] = [[]]
        for line in own_text(self.spec.document).splitlines() if self.spec else ():
            if line.lstrip().startswith("#"):
                paragraphs[-1].append(line.strip().lstrip("#").strip())
            elif paragraphs[-1]:
                paragraphs.append([])
        return [cleaned(" ".join(lines)) for lines in paragraphs if lines]

    @property
    def command(self) -> str:
        """The command that runs the task on a model; empty if the task's file is not here."""
        if not self.spec:
            return ""
        words = ["vlbench --model MODEL --tasks", self.name]
        if self.spec.is_on_images:
            words.append("--images DIR")
        elif is_on_own_data(self.spec):
            words.append(f"--data-dir {self.name}=DIR")
        is_shipped = self.spec.source == shipped_source()
        return " ".join([*words, *([] if is_shipped else ["--include-path SOURCE"])])

    @property
    def bibtex(self) -> str:
        """The BibTeX entry of the task's published data set; empty if there is none."""
        data_set = data_sets().get(self.spec.data.get("loader", "")) if self.spec else None
        return data_set.bibtex.strip() if data_set else ""

    @property
    def settings(self) -> str:
        """The data, probe and parameters as YAML, without the folders of a machine."""
        entries = self.spec.document.values if self.spec else {}
        values = {k: shown(v, k) for k, v in entries.items() if k not in ELSEWHERE}
        if not values:
            return ""
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=72).strip()


def section_of(
    output: Path, file: Path, board: Board, catalog: Catalog, leaders: Mapping[str, Leaders]
) -> Section:
    """Return the page's section of a board or a summary of a folder."""
    is_summary, spec = file.parent != output, catalog.tasks.get(file.stem)
    often = Counter(row.model for row in board.results if row.status == "ok")
    drawn = _file(output, file.stem)
    is_outdated = drawn.is_file() and drawn.stat().st_mtime_ns < file.stat().st_mtime_ns
    section = Section(
        name=file.stem,
        board=board,
        tables=tables_of(board, leaders, spec),
        leaders=leaders,
        spec=spec,
        paper=place_of(board, catalog),
        is_summary=is_summary,
        is_outdated=is_outdated and not is_summary,
        repeated={model for model, count in often.items() if count > 1},
        trained=trained_models(often, catalog.models, spec),
    )
    files, leading = _row_figures(output, section), section.leading_row
    return section._replace(
        replies=replies_of(output, leading) if leading else {},
        figures=_figures(output, section),
        of_rows={file.stem: _address(file) for file in files[:MOST_OF_ROWS]},
        row_figures=len(files),
    )


def _figures(output: Path, section: Section) -> list[str]:
    """Return the pictures that `build` has drawn of a board or summary, and the task's figures.

    Left out are pictures of one score per model, which the tables show anyway, pictures of all
    scores if the task names figures, and pictures older than the board. Raises SpecError for an
    unreadable picture.
    """
    metric = section.board.primary["metric"]
    ats = [s.at for row in section.board.results for s in row.scores if s.metric == metric]
    varies = any(len({at.get(name) for at in ats}) > 1 for at in ats for name in at)
    drawn = section.spec.figures if section.spec else []
    names = [section.name] if varies and not drawn else []
    by_data = published_by_data(section.board.results)
    stems = [f"{section.name}_{safe_name(data)}" for data in by_data] if len(by_data) > 1 else []
    for stem in stems or [section.name]:
        names += [f"{stem}_{name.rpartition(':')[2]}" for name in drawn]
    # A summary of matrices has a figure of correlations.
    names += [f"{section.name}_correlations"] if section.is_summary else []
    if section.is_outdated:
        return []
    return [_address(file) for name in names if (file := _file(output, name)).is_file()]


def _row_figures(output: Path, section: Section) -> list[Path]:
    """Return the figures that `build` has drawn of single models whose row has a score."""
    if section.is_outdated or not (section.spec and section.spec.figures):
        return []
    stems = [file.stem for file in sorted((output / "figures" / section.name).glob("*.svg"))]
    names = figure_names(section.board.results)
    starts = tuple(f"{name}_" for name in names)
    matches = [stem for stem in stems if stem in names or stem.startswith(starts)]
    files = [_file(output, f"{section.name}/{stem}") for stem in matches]
    return [file for file in files if file.is_file()]


def _file(output: Path, name: str) -> Path:
    """Return the file of a figure; a path that is no file if a link leads out of the folder."""
    file = output / "figures" / f"{name}.svg"
    return file if file.resolve().is_relative_to(output.resolve()) else Path()


def _address(file: Path) -> str:
    try:
        content = read_bytes(file, MOST_FIGURE)
    except OSError as error:
        raise SpecError(f"{file}: {error}") from error
    # Embedded as an image, whoever drew it: an image runs no script and loads nothing.
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


class Columns(NamedTuple):
    """The columns of a table of the page besides model and score.

    `heads` are the columns of `HEADS` whose values differ between rows, `others` the table's other
    scores, `facts` what is the same for all rows. `visible` is the number of columns shown at
    first.
    """

    heads: Sequence[str]
    others: Sequence[Score]
    facts: Sequence[str]
    visible: int
    scale: Scale
    has_notes: bool


def columns_of(table: ScoreTable) -> Columns:
    """Return the columns of a table, which all its parts on the page share."""
    beside = [cells(entry, bare_number) for entry in table.entries if entry.primary]
    texts = {head: {row[head] for row in beside} for head in HEADS}
    same = [head for head in VARYING if len(texts[head]) < 2]
    heads = [head for head in table.heads if head not in same]
    others, at = other_scores(table), dict(table.primary.get("at", {}))
    untested: dict[str, list[str]] = {}
    for model, why in (table.leaders.untested if table.leaders else {}).items():
        untested.setdefault(why, []).append(model)
    facts = [f"{head} {text}" for head in same for text in texts[head] if text]
    facts += [f"not tested: {few(models, MOST_NAMES)}: {why}" for why, models in untested.items()]
    beyond = min(sum(dict(score.at) == at for score in others), VISIBLE_SCORES)
    has_notes = any(all_notes_of(entry.row) for entry in table.entries)
    visible = 2 + has_notes + len(heads) + beyond
    return Columns(heads, others, facts, visible, scale_of(table.scores), has_notes)


def all_notes_of(row: Result) -> list[str]:
    """Return a row's notes, and its other counts except 0 and those equal to `n` or `expected`."""
    values = {row.counts.get("n"), row.counts.get("expected"), 0}
    counts = (count_note(key, n) for key, n in row.counts.items() if n not in values)
    return [*dict.fromkeys([*notes_of(row), *counts])]
