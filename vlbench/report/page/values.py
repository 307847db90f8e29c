"""What the page shows, as plain values: the templates compute nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.errors import printed
from vlbench.files import safe_name
from vlbench.report.pivot import Pivot
from vlbench.report.reproduction import Grid
from vlbench.report.texts import condition, number, score_name

NO_SCORE = "-"

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def task_id(name: str, *, summary: bool) -> str:
    """Return the id of a board or a summary."""
    return f"{'group' if summary else 'task'}-{safe_name(name)}"


def model_id(name: str) -> str:
    """Return the id of a model."""
    return f"model-{safe_name(name)}"


def row_id(task: str, model: str, comparable: str = "") -> str:
    """Return the id of a row, which stays the same whatever other rows the page has.

    `comparable` is given for a model with several rows.
    """
    more = "." + safe_name(comparable.removeprefix("sha256:"))[:8] if comparable else ""
    return f"row-{safe_name(task)}.{safe_name(model)}{more}"


def conditions(at: Mapping[str, Any]) -> str:
    """Return the conditions of a score in words."""
    return printed(", ".join(f"{key} {condition(value)}" for key, value in at.items()))


def metric_label(metric: str, at: Mapping[str, Any], unit: str = "fraction") -> str:
    """Return a metric with its conditions and unit."""
    label = score_name(metric, at)
    return printed(f"{label}, %" if unit == "fraction" else label)


def figure_of(value: float, unit: str = "fraction") -> str:
    """Return a number without its unit."""
    return number(value, unit).removesuffix(" %")


def arxiv_link(paper: str) -> str:
    """Return the address of a paper on arXiv; empty where it is none."""
    match = ARXIV.search(paper)
    return f"https://arxiv.org/abs/{match[1]}" if match else ""


class Row(NamedTuple):
    """A model's scores on a task. `bar` holds the classes that draw the primary score."""

    id: str
    model: str
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


class Figure(NamedTuple):
    """A picture as the address of its own content, and what is told of it in its place."""

    source: str
    alt: str


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


class ModelRow(NamedTuple):
    """What a row of a task's board says of its model.

    `facts` are labels and texts; `score` stands under `label`, and is None for a row without any.
    """

    model: str
    task: str
    status: str
    reason: str
    facts: Sequence[tuple[str, str]]
    libraries: Sequence[str]
    label: str
    score: ModelScore | None


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
    """Everything on the page. `capabilities` are those of each model that the catalog knows.

    What `build` made of the boards in `outdated` is left out.
    """

    title: str
    papers: Sequence[Paper]
    models: Sequence[Model]
    tags: Sequence[str]
    capabilities: Mapping[str, Sequence[str]]
    is_brief: bool
    outdated: Sequence[str] = ()
    overview: Sequence[Pivot] = ()
    findings: Sequence[Grid] = ()

    @property
    def size(self) -> int:
        """How many boards and summaries there are."""
        return sum(len(paper.tasks) for paper in self.papers)

    @property
    def offered(self) -> list[str]:
        """The capabilities that some model has."""
        return sorted({name for found in self.capabilities.values() for name in found})
