"""The union of boards: the same, whatever order and folders their rows come in.

A row is known by task, version, model and `comparable`. What was computed is the same in equal
rows; the `run` that computed it and the versions of libraries may differ.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vlbench.boards import Board
from vlbench.results import Result

# What equal rows may differ in: two installations that find the same scores are no contradiction.
OF_THE_INSTALLATION = ("vlbench", "libraries")

RAISE = "raise the version in one of them"
WAY_OUT = "keep one of them, or run one again under a --name of its own"

One = TypeVar("One")


class Source(NamedTuple):
    """A board, its file, and the folder that its artifacts lie in."""

    folder: Path
    file: Path
    board: Board

    @property
    def name(self) -> str:
        """The file, relative to the folder."""
        return self.file.relative_to(self.folder).as_posix()


class Union(NamedTuple):
    """Boards by file, relative to their folder, and the contradictions found in making them."""

    boards: Mapping[str, Board]
    conflicts: Sequence[str]


class Keeper(NamedTuple):
    """A row that keeps a file as its artifact `name`, and the version of the row's board."""

    version: int
    row: Result
    name: str

    @property
    def sha256(self) -> str:
        """The checksum that the file must have."""
        return self.row.artifacts[self.name]["sha256"]


def union(sources: Sequence[Source]) -> Union:
    """Return the union of boards: for each task the newest version, and the older ones' archives.

    Of equal rows the one that was finished first stands. A row without scores stands only where its
    model has no other.
    """
    groups = grouped(sources, lambda source: (source.board.task, source.board.version))
    newest = dict(sorted(groups))
    boards, conflicts = {}, []
    for (task, version), group in sorted(groups.items()):
        board, found = _joined(sorted(group, key=lambda source: source.file))
        boards[board_name(board, archived=version < newest[task])] = board
        conflicts += found
    return Union(boards, conflicts)


def newest_keepers(boards: Iterable[Board]) -> tuple[dict[str, Keeper], list[str]]:
    """Return for each artifact's file the row that keeps it, and files that rows dispute.

    A newer version of a task takes the places of an older one's artifacts.
    """
    keepers: dict[str, Keeper] = {}
    disputed = []
    for board in sorted(boards, key=lambda board: (board.task, board.version)):
        for row in board.results:
            for name, artifact in row.artifacts.items():
                new = Keeper(board.version, row, name)
                old = keepers.get(artifact["file"], new)
                if old.version == new.version and old.sha256 != new.sha256:
                    why = f"two rows of '{row.model}' keep different files as {artifact['file']}"
                    disputed.append(f"{board.task} (version {board.version}): {why}; {WAY_OUT}")
                keepers[artifact["file"]] = new
    return keepers, disputed


def computed(row: Result) -> dict[str, Any]:
    """Return what must be the same in two rows of one identity."""
    known = {k: v for k, v in row.provenance.items() if k not in OF_THE_INSTALLATION}
    return {k: v for k, v in vars(row).items() if k != "run"} | {"provenance": known}


def board_name(board: Board, *, archived: bool) -> str:
    """Return a board's file, relative to the folder of boards."""
    return f"archive/{board.task}.v{board.version}.json" if archived else f"{board.task}.json"


def _joined(group: Sequence[Source]) -> tuple[Board, list[str]]:
    """Return the union of boards of one task and version, and where they contradict each other."""
    board = min((source.board for source in group), key=lambda one: _text([one.paper, one.primary]))
    heads = [(s.file, {"paper": s.board.paper, "primary": s.board.primary}) for s in group]
    conflicts = _contradictions(f"{board.task} (version {board.version})", heads, RAISE)
    results = []
    rows = [(source.file, row) for source in group for row in source.board.results]
    for model, mine in sorted(grouped(rows, lambda pair: pair[1].model).items()):
        scored = grouped([pair for pair in mine if pair[1].status == "ok"], _comparable)
        for _, same in sorted(scored.items()):
            found = [(file, computed(row)) for file, row in same]
            conflicts += _contradictions(f"'{model}'", found, WAY_OUT)
        results += [_first(same) for _, same in sorted(scored.items())] or [_first(mine)]
    return replace(board, results=results), conflicts


def _contradictions(
    what: str, found: Sequence[tuple[Path, Mapping[str, Any]]], way_out: str
) -> list[str]:
    """Return in what later files contradict the first about a task or a model."""
    file, first = found[0]
    differing = [(other, [key for key in first if first[key] != x[key]]) for other, x in found]
    return [
        f"{file} and {other} contradict each other in the {', '.join(keys)} of {what}; {way_out}"
        for other, keys in differing
        if keys
    ]


def _first(rows: Sequence[tuple[Path, Result]]) -> Result:
    """Return the row that was finished first; of several, the one with the smallest JSON."""
    ends = [str(row.run.get("finished", "")) for _, row in rows]
    first = [row for end, (_, row) in zip(ends, rows, strict=True) if end == min(ends)]
    return first[0] if len(first) == 1 else min(first, key=lambda row: _text(row.row()))


def _comparable(pair: tuple[Path, Result]) -> str:
    return pair[1].comparable


def _text(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def grouped(things: Iterable[One], key: Callable[[One], Any]) -> dict[Any, list[One]]:
    """Return things by their key, in the order of each key's first."""
    groups = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return groups
