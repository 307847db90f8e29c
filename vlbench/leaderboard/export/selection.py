"""Which rows of boards are exported, in sets of comparable rows, and why the others are not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards import Board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import ModelSpec
from vlbench.data import hub_sets
from vlbench.data.hub_sets import HubSet
from vlbench.leaderboard.comparison.leaders import BEST, read_leaders, standing
from vlbench.leaderboard.rows import (
    Published,
    comparable_sets,
    published,
    ranked,
    ties_mark,
    unpublished,
)
from vlbench.leaderboard.tables import floor_text, interval, number, one_line, score_name
from vlbench.results import Result, Score, matching


class LeftOut(NamedTuple):
    """A row that is not exported, and why."""

    row: Result
    why: str


class Entry(NamedTuple):
    """One row that is exported.

    `primary` is the score that stands for the task, None where the row lacks it; `published` has
    what a paper gives for each score, or None; `standing` is that against the leader, or empty.
    """

    row: Result
    primary: Score | None
    published: Sequence[Published | None]
    standing: str

    @property
    def reference(self) -> Published | None:
        """What a paper gives for the primary score."""
        pairs = zip(self.row.scores, self.published, strict=True)
        return next((given for score, given in pairs if score is self.primary), None)


class Part(NamedTuple):
    """Rows of one board that may be compared with each other, best first; `title` names the set."""

    board: Board
    title: str
    entries: Sequence[Entry]


class Selection(NamedTuple):
    """The names of the boards, the sets of rows that are exported, and the rows that are not."""

    tasks: Sequence[str]
    parts: Sequence[Part]
    left_out: Sequence[LeftOut]


def select(output: Path, boards: Sequence[Board], catalog: Catalog) -> Selection:
    """Return the publishable rows of boards as sets of comparable rows, and the other rows."""
    rows = [row for board in boards for row in board.results]
    reasons = [LeftOut(row, unpublished(row)) for row in rows]
    parts = [part for board in boards for part in _parts(output, board, catalog)]
    names = [board.task for board in boards]
    return Selection(names, parts, [one for one in reasons if one.why])


def listed(left_out: Sequence[LeftOut]) -> list[str]:
    """Return a line for each task and reason, with the models that are left out for it."""
    models: dict[str, list[str]] = {}
    for row, why in left_out:
        models.setdefault(f"{row.task}: left out ({why})", []).append(row.model)
    return [one_line(f"{line}: {', '.join(names)}") for line, names in models.items()]


def _parts(output: Path, board: Board, catalog: Catalog) -> list[Part]:
    sets = comparable_sets([row for row in board.results if not unpublished(row)])
    title = f"{board.task} (version {board.version})"
    parts, leaders = [], read_leaders(output, board.task)
    for i, (key, rows) in enumerate(sets.items()):
        apart = f", not comparable with the others: set {i + 1}" if len(sets) > 1 else ""
        # Equal ones by name.
        found = ranked(sorted(rows, key=lambda row: row.model), board.primary)
        known = leaders.get(key)
        entries = [_entry(row, catalog, standing(row.model, known)) for row, _ in found]
        parts.append(Part(board, title + apart, entries))
    return parts


def _entry(row: Result, catalog: Catalog, standing: str) -> Entry:
    spec = catalog.tasks.get(row.task)
    found = matching(row.scores, row.primary)
    given = [published(spec, row.model, score) if spec else None for score in row.scores]
    return Entry(row, found[0] if found else None, given, standing)


# "OpenAI's RN50, from timm/resnet50_clip.openai on the hub; MIT"
ON_THE_HUB = re.compile(r"(?:^|\s)([^\W_][\w.-]*/[^\W_][\w.-]*) on the hub\b", re.ASCII)

# The loaders whose rows equal those of a data set on the hub, wherever they read them.
HUB_DATA: Mapping[str, HubSet] = {
    "vlbench.data.cifar:cifar10": hub_sets.CIFAR10,
    "vlbench.data.cifar:cifar100": hub_sets.CIFAR100,
    "vlbench.data.mnist:mnist": hub_sets.MNIST,
    "vlbench.data.mnist:fashion_mnist": hub_sets.FASHION_MNIST,
    "vlbench.data.svhn:svhn": hub_sets.SVHN,
}


def model_id(name: str, models: Mapping[str, ModelSpec]) -> str:
    """Return the id of a row's model: `organisation/name`, which is also a path of two folders."""
    spec = models.get(name)
    found = ON_THE_HUB.search(spec.weights) if spec else None
    if found:
        return found[1]
    shipped = spec is not None and spec.source == shipped_source()
    return f"{'vlbench' if shipped else 'local'}/{_plain(name)}"


def loader_of(row: Result) -> str:
    """Return the name of the loader that read a row's data; `unknown` where the row lacks it."""
    return next(iter(str(row.provenance.get("data", "")).split()), "unknown")


def hub_set(row: Result) -> HubSet | None:
    """Return the data set of a row on the hub; None where it has none."""
    return HUB_DATA.get(loader_of(row))


def _plain(name: str) -> str:
    """Return a name in the letters of ids; a changed one ends in a digest of the original."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# What stands below a table with a model in bold.
BOLD = "Bold: told apart from every other model at 5 % (paired tests, Holm)."


def heads(part: Part) -> list[str]:
    """Return the heads of the columns; the second is the primary score of the board."""
    others = ("95 % interval", "n", "chance", "highest floor", "published", "against the leader")
    primary = part.board.primary
    return ["model", score_name(primary["metric"], primary["at"]), *others]


def higher_is_better(part: Part) -> bool | None:
    """Return which direction of the primary score is better; None where no row has it."""
    scores = [entry.primary for entry in part.entries if entry.primary]
    return scores[0].higher_is_better if scores else None


def cells(entry: Entry) -> list[str]:
    """Return the cells of a row, a dash for what is not known."""
    score = entry.primary
    if score is None:
        return [one_line(entry.row.model), *["-"] * 7]
    return [
        one_line(entry.row.model),
        number(score.value, score.unit) + ties_mark(entry.row),
        interval(score),
        str(score.n),
        number(score.chance, score.unit),
        one_line(floor_text(score)),
        one_line(_published(entry)),
        entry.standing or "-",
    ]


def is_best(entry: Entry) -> bool:
    """Return whether the model is told apart from every other one of its set."""
    return entry.standing == BEST


def _published(entry: Entry) -> str:
    """Return a paper's number, where it stands, and how many standard errors ours lies above it."""
    given, score = entry.reference, entry.primary
    if given is None or score is None:
        return "-"
    off = "" if given.in_stderr is None else f" (ours {given.in_stderr:+.1f} SE)"
    return f"{number(given.value, score.unit)}, {given.where}{off}"
