"""Merging of folders of boards, with their artifacts, into one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vlbench.boards.artifacts import read_bytes
from vlbench.boards.board import Board, board_bytes, read_board
from vlbench.boards.promised import score_changes, within_promise
from vlbench.errors import DataError, OutputError, SpecError, UnknownNameError, counted
from vlbench.results import Result
from vlbench.system import files

# Equal rows may differ in these keys: the same scores from another installation are no
# contradiction, and a folder with the same content may have another name.
OF_THE_INSTALLATION = ("vlbench", "libraries", "data_name")

RAISE = "raise the version in one of the files"
WAY_OUT = "keep one of the rows, or run one again under another --name"

One = TypeVar("One")


class Source(NamedTuple):
    """A board, its file, and the folder that contains its artifacts."""

    folder: Path
    file: Path
    board: Board

    @property
    def name(self) -> str:
        """The file, relative to the folder."""
        return self.file.relative_to(self.folder).as_posix()


class Union(NamedTuple):
    """Boards by file, relative to their folder, and contradictions between the merged rows.

    `notes` are about rows of which one run of several is kept.
    """

    boards: Mapping[str, Board]
    conflicts: Sequence[str]
    notes: Sequence[str] = ()


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
    """Return the union of boards: for each task the newest version, and archives of older versions.

    Of equal rows, and of rows of one model that differ within what is promised, the first to finish
    is kept. A row without scores is kept only if its model has no other row.
    """
    groups = grouped(sources, lambda source: (source.board.task, source.board.version))
    newest = dict(sorted(groups))
    boards, conflicts, notes = {}, list[str](), list[str]()
    for (task, version), group in sorted(groups.items()):
        board, contradictions, remarks = _join_boards(sorted(group, key=lambda source: source.file))
        boards[board_name(board, archived=version < newest[task])] = board
        conflicts += contradictions
        notes += remarks
    return Union(boards, conflicts, notes)


def keepers_of(boards: Iterable[Board]) -> dict[str, list[Keeper]]:
    """Return the rows that keep each artifact's file, rows of the newest version last."""
    keepers = [
        Keeper(board.version, row, name)
        for board in sorted(boards, key=lambda board: (board.task, board.version))
        for row in board.results
        for name in row.artifacts
    ]
    return grouped(keepers, lambda keeper: keeper.row.artifacts[keeper.name]["file"])


def newest_keepers(boards: Iterable[Board]) -> tuple[dict[str, Keeper], list[str]]:
    """Return the row that keeps each artifact's file, and the files that rows dispute.

    Artifacts of a newer version of a task replace those of an older version.
    """
    keepers = keepers_of(boards)
    disputed = [
        f"{new.row.task} (version {new.version}): two rows of '{new.row.model}' have different "
        f"files at {file}; {WAY_OUT}"
        for file, group in keepers.items()
        for old, new in pairwise(group)
        if old.version == new.version and old.sha256 != new.sha256
    ]
    return {file: group[-1] for file, group in keepers.items()}, disputed


def computed(row: Result) -> dict[str, Any]:
    """Return what must be equal in two rows of the same identity."""
    provenance = {k: v for k, v in row.provenance.items() if k not in OF_THE_INSTALLATION}
    return {k: v for k, v in vars(row).items() if k != "run"} | {"provenance": provenance}


def board_name(board: Board, *, archived: bool) -> str:
    """Return a board's file, relative to the folder of boards."""
    return f"archive/{board.task}.v{board.version}.json" if archived else f"{board.task}.json"


def _join_boards(group: Sequence[Source]) -> tuple[Board, list[str], list[str]]:
    """Return the union of boards of one task and version, their contradictions, and notes."""
    board = min((source.board for source in group), key=lambda one: _text([one.paper, one.primary]))
    heads = [(s.file, {"paper": s.board.paper, "primary": s.board.primary}) for s in group]
    conflicts = _contradictions(f"{board.task} (version {board.version})", heads, RAISE)
    results, notes = [], list[str]()
    rows = [(source.file, row) for source in group for row in source.board.results]
    for model, pairs in sorted(grouped(rows, lambda pair: pair[1].model).items()):
        ok = [pair for pair in pairs if pair[1].status == "ok"]
        scored = grouped(ok, lambda pair: pair[1].comparable)
        for _, same in sorted(scored.items()):
            if note := _described_runs(model, same):
                notes.append(note)
                continue
            facts = [(file, computed(row)) for file, row in same]
            conflicts += _contradictions(f"'{model}'", facts, WAY_OUT)
        results += [_first(same) for _, same in sorted(scored.items())] or [_first(pairs)]
    return replace(board, results=results), conflicts, notes


def _described_runs(model: str, rows: Sequence[tuple[Path, Result]]) -> str:
    """Return a note on rows that differ within what is promised; empty for other rows."""
    kept = _first(rows)
    others = [row for _, row in rows if computed(row) != computed(kept)]
    if not others or not all(within_promise(kept, row) for row in others):
        return ""
    most = max(
        (change for row in others for change in score_changes(kept, row)),
        key=lambda change: abs(change.difference),
    )
    return (
        f"{kept.task}: {counted(len(rows), 'run')} of '{model}' differ within what is promised, by "
        f"{abs(most.difference):.2g} at most ({most.score.metric}); the first to finish is kept"
    )


def _contradictions(
    what: str, facts: Sequence[tuple[Path, Mapping[str, Any]]], way_out: str
) -> list[str]:
    """Return how later files contradict the first about a task or a model."""
    file, first = facts[0]
    differing = [(other, [key for key in first if first[key] != x[key]]) for other, x in facts]
    return [
        f"{file} and {other} contradict each other in the {', '.join(keys)} of {what}; {way_out}"
        for other, keys in differing
        if keys
    ]


def _first(rows: Sequence[tuple[Path, Result]]) -> Result:
    """Return the row that was finished first; if several were, the row with the smallest JSON."""
    ends = [str(row.run.get("finished", "")) for _, row in rows]
    first = [row for end, (_, row) in zip(ends, rows, strict=True) if end == min(ends)]
    return first[0] if len(first) == 1 else min(first, key=lambda row: _text(row.row()))


def _text(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def grouped(things: Iterable[One], key: Callable[[One], Any]) -> dict[Any, list[One]]:
    """Return things by their key; keys in the order of their first thing."""
    groups = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return groups


class Merged(NamedTuple):
    """The boards that were written, or the problems because of which nothing was written.

    `notes` are about rows of which one run of several is kept.
    """

    written: Mapping[Path, Board]
    problems: Sequence[str]
    notes: Sequence[str] = ()


def merge(folders: Sequence[Path], output: Path) -> Merged:
    """Join the boards of folders and of the output, write them to the output, and return them.

    Nothing is written if rows contradict each other, or if an artifact is not the file that was
    written with its row. If the process is killed, no file is half-written and no row is lost:
    repeating the merge completes it. Raises SpecError, UnknownNameError and OutputError.
    """
    sources = read_folders(folders)
    if not output.exists() and (problems := join(sources)[2]):
        return Merged({}, problems)  # the folder is not created
    with files.locked(output, "boards"):
        standing = read_folder(output)
        whole, providers, problems = join([*sources, *standing])
        if problems:
            return Merged({}, problems)
        _sweep(output)
        for (file, sha256), keeper in _newest_by_digest(whole.boards.values()).items():
            if providers[file, sha256] != output:
                _put(output, file, read_bytes(providers[file, sha256], keeper.row, keeper.name))
        contents = {name: board_bytes(board) for name, board in whole.boards.items()}
        old = {name: (output / name).read_bytes() for name in contents if (output / name).is_file()}
        new = [name for name, content in contents.items() if old.get(name) != content]
        # The archive comes first: it takes the rows that a newer board replaces.
        for name in sorted(new, key=lambda name: "/" not in name):
            _put(output, name, contents[name])
        for name in {source.name for source in standing} - set(contents):
            (output / name).unlink()
    written = {output / name: whole.boards[name] for name in sorted(new)}
    return Merged(written, [], whole.notes)


def _sweep(folder: Path) -> None:
    """Remove the half-written boards and artifacts of killed writers; the lock is held."""
    for where in ("", "archive/", "artifacts/**/"):
        for part in folder.glob(f"{where}{files.PART}*"):
            part.unlink(missing_ok=True)


def _newest_by_digest(boards: Iterable[Board]) -> dict[tuple[str, str], Keeper]:
    """Return the newest keeper of each artifact, by the artifact's file and sha256."""
    return {(file, keeper.sha256): keeper for file, keeper in newest_keepers(boards)[0].items()}


def read_folders(folders: Sequence[Path]) -> list[Source]:
    """Return the boards of folders. Raises UnknownNameError for a folder without boards."""
    contents = {folder: read_folder(folder) for folder in folders}
    empty = [str(folder) for folder, sources in contents.items() if not sources]
    if empty:
        raise UnknownNameError(f"no boards in {', '.join(empty)}")
    return [source for sources in contents.values() for source in sources]


def read_folder(folder: Path) -> list[Source]:
    """Return the boards of a folder, including archived boards.

    Raises UnknownNameError if there is no folder, and SpecError for a malformed board, a file that
    does not have its board's name, and an artifact outside the folder of its row's model.
    """
    if not folder.is_dir():
        raise UnknownNameError(f"{folder} is not a folder")
    files = [*folder.glob("*.json"), *folder.glob("archive/*.json")]
    sources = [Source(folder, file, board) for file in sorted(files) if (board := read_board(file))]
    for source in sources:
        if not source.file.resolve().is_relative_to(folder.resolve()):
            raise SpecError(f"{source.file}: is a link out of the boards' folder")
        names = {board_name(source.board, archived=archived) for archived in (True, False)}
        if source.name not in names:
            raise SpecError(f"{source.file}: task: this board's file is {' or '.join(names)}")
        for i, row in enumerate(source.board.results):
            _require_own(row, f"{source.file}: rows[{i}].artifacts")
    return sources


def join(sources: Sequence[Source]) -> tuple[Union, Mapping[tuple[str, str], Path], list[str]]:
    """Return the union of boards, the folder that has each artifact, and all problems.

    Folders are given by an artifact's file and sha256; if several folders have it, the last is
    used.
    """
    whole = union(sources)
    twice = newest_keepers(whole.boards.values())[1]
    providers, altered = _providers(sources)
    return whole, providers, sorted({*whole.conflicts, *twice, *altered})


def _providers(sources: Sequence[Source]) -> tuple[dict[tuple[str, str], Path], list[str]]:
    """Return a folder for each artifact by file and sha256, and the problems of artifacts.

    A file may belong to another row, if a killed merge put it there before the row's board.
    """
    providers, problems, absent = {}, [], {}
    everyone = keepers_of(source.board for source in sources)
    for folder, group in grouped(sources, lambda source: source.folder).items():
        keepers, disputed = newest_keepers(source.board for source in group)
        problems += [f"{folder}: {why}" for why in disputed]
        for file, keeper in keepers.items():
            try:
                read_bytes(folder, keeper.row, keeper.name)
                digest = keeper.sha256
            except DataError as error:
                why = f"{folder}: {error}"
                digest = next((x.sha256 for x in everyone[file] if _is_in(folder, x)), "")
                absent[file, keeper.sha256] = why
                problems += [] if digest else [why]
            providers[file, digest] = folder
    places = _newest_by_digest(source.board for source in sources)
    problems += [absent[place] for place in places if place in absent and place not in providers]
    return providers, problems


def _is_in(folder: Path, keeper: Keeper) -> bool:
    """Return whether a folder has the file that a row keeps, with the row's checksum."""
    try:
        read_bytes(folder, keeper.row, keeper.name)
    except DataError:
        return False
    return True


def _require_own(row: Result, key: str) -> None:
    """Raise SpecError if a row keeps another model's files, or files without scores."""
    home = f"artifacts/{files.file_name(row.task)}/{files.safe_name(row.model)}/"
    for artifact in row.artifacts.values():
        if row.status != "ok" or not artifact["file"].startswith(home):
            raise SpecError(f"{key}: only a row with scores has files, and they must be in {home}")


def _put(folder: Path, name: str, content: bytes) -> None:
    """Write a file of boards. Raises OutputError if a link leads out of their folder."""
    if not (folder / name).parent.resolve().is_relative_to(folder.resolve()):
        raise OutputError(f"cannot write {name}: a link leads out of the boards' folder")
    files.write_whole(folder / name, content)


def new_rows(board: Board, old: Mapping[str, Board]) -> list[Result]:
    """Return the rows of a board that are not among `old` rows of its task and version."""
    rows = same_rows(board, old)
    models, identities = {row.model for row in rows}, {identity(row) for row in rows}
    return [
        row
        for row in board.results
        if identity(row) not in identities and (row.status == "ok" or row.model not in models)
    ]


def same_rows(board: Board, boards: Mapping[str, Board]) -> list[Result]:
    """Return the rows of other boards with a board's task and version."""
    same = [b for b in boards.values() if (b.task, b.version) == (board.task, board.version)]
    return [row for other in same for row in other.results]


def identity(row: Result) -> tuple[str, str, bool]:
    """Return the key that must be unique among the rows of a board."""
    return row.model, row.comparable, row.status == "ok"
