"""What the page shows, as plain values: the templates compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A model's scores on a task. `bar` holds the classes that draw the primary score."""

    id: str
    model: str
    card: str  # the id of the popover that says where the numbers come from
    badges: Sequence[str]
    bar: str
    score: str
    cells: Sequence[str]
    notes: Sequence[str]


class Table(NamedTuple):
    """Comparable rows, best first. The first `shown` columns are visible until others are chosen.

    The columns are the model, the score, those of `cells`, and the notes where a row has some.
    """

    id: str
    caption: str
    marks: str  # the classes that draw chance and floor
    facts: Sequence[str]
    columns: Sequence[str]
    shown: int
    rows: Sequence[Row]
    has_notes: bool

    @property
    def visible(self) -> int:
        """How many columns are visible at first, the model's and the score's among them."""
        return 2 + self.has_notes + self.shown


class Reason(NamedTuple):
    """Why some have no score; `names` are models, or tasks on the page of a model."""

    status: str
    why: str
    names: Sequence[str]


class Curve(NamedTuple):
    """A model in a chart: its line, its intervals, and its marks, as data of SVG paths."""

    look: str
    line: str
    intervals: str
    marks: str


class Chart(NamedTuple):
    """A panel of a figure, 320 x 200. A tick is a place and its label."""

    title: str
    x: str
    y: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    chance: str
    curves: Sequence[Curve]


class Figure(NamedTuple):
    """Panels, and the models in them: each with its look and the mark of it."""

    charts: Sequence[Chart]
    legend: Sequence[tuple[str, str, str]]
    left_out: int

    @property
    def has_chance(self) -> bool:
        """Whether chance is drawn."""
        return any(chart.chance for chart in self.charts)


class WrongItem(NamedTuple):
    """An example that models got wrong: its mean credit, and what they said how often."""

    id: str
    credit: str
    models: int
    target: str
    predictions: str


class Task(NamedTuple):
    """A board, or a summary, with what the catalog says of it."""

    id: str
    name: str
    version: int
    is_summary: bool
    description: str
    paper: str
    link: str
    tags: Sequence[str]
    primary: str
    direction: str
    tables: Sequence[Table]
    reasons: Sequence[Reason]
    departures: Sequence[str]
    settings: str
    figure: Figure | None
    wrong: Sequence[WrongItem]
    problems: Sequence[str]
    data: Sequence[str]

    @property
    def unscored(self) -> int:
        """How many models have no score."""
        return sum(len(reason.names) for reason in self.reasons)


class Paper(NamedTuple):
    """The tasks of a paper."""

    id: str
    name: str
    link: str
    tasks: Sequence[Task]


class Other(NamedTuple):
    """A score that is not the primary one."""

    metric: str
    at: str
    value: str
    interval: str
    n: str
    chance: str


class ModelScore(NamedTuple):
    """A model's primary score on a task, and its other scores."""

    task: str
    href: str
    score: str
    interval: str
    standing: str
    others: Sequence[Other]


class ScoreGroup(NamedTuple):
    """The scores of a model under one metric and conditions."""

    label: str
    scores: Sequence[ModelScore]


class Fact(NamedTuple):
    """Something known of a model; `where` names the tasks of a fact that does not hold for all."""

    label: str
    text: str
    where: str


class Model(NamedTuple):
    """A model: what it is, where its numbers come from, and all its scores."""

    id: str
    card: str
    name: str
    facts: Sequence[Fact]
    provenance: Sequence[Fact]
    capabilities: Sequence[str]
    groups: Sequence[ScoreGroup]
    reasons: Sequence[Reason]


class Page(NamedTuple):
    """Everything on the page. `capabilities` are those of each model that the catalog knows."""

    title: str
    papers: Sequence[Paper]
    models: Sequence[Model]
    tags: Sequence[str]
    capabilities: Mapping[str, Sequence[str]]
    is_brief: bool

    @property
    def size(self) -> int:
        """How many boards and summaries there are."""
        return sum(len(paper.tasks) for paper in self.papers)

    @property
    def offered(self) -> list[str]:
        """The capabilities that some model has."""
        return sorted({name for found in self.capabilities.values() for name in found})
