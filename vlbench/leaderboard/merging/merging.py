"""Merging of folders of boards, with their artifacts, into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench import files
from vlbench.boards import Board, board_bytes, read_board
from vlbench.errors import DataError, OutputError, SpecError, UnknownNameError
from vlbench.leaderboard.artifacts import read_bytes
from vlbench.leaderboard.merging.swapping import held, rewritten
from vlbench.leaderboard.merging.unions import (
    Source,
    Union,
    board_name,
    grouped,
    newest_keepers,
    union,
)
from vlbench.results import Result


class Merged(NamedTuple):
    """The boards that were written, or the problems because of which nothing was."""

    written: Mapping[Path, Board]
    problems: Sequence[str]


def merge(folders: Sequence[Path], output: Path) -> Merged:
    """Join the boards of folders, and of the output, in the output, and return what was written.

    Nothing is written where rows contradict each other, or where an artifact is not the file that
    its row was written with. Raises SpecError, UnknownNameError and OutputError.
    """
    given = read_folders(folders)
    with held(output, "boards") as occupied:
        standing = read_folder(output) if output.exists() else []
        whole, providers, problems = join([*given, *standing])
        if problems:
            return Merged({}, problems)
        contents = {name: board_bytes(board) for name, board in whole.boards.items()}
        new = {
            name: content for name, content in contents.items() if not _has(output / name, content)
        }
        gone = {source.name for source in standing} - set(contents)
        keepers = newest_keepers(whole.boards.values())[0]
        wanted = {(file, keeper.sha256): keeper for file, keeper in keepers.items()}
        lacking = {place: keeper for place, keeper in wanted.items() if providers[place] != output}
        if new or gone or lacking:
            with rewritten(output, occupied=occupied) as folder:
                for name in gone:
                    (folder / name).unlink()
                for place, keeper in lacking.items():
                    content = read_bytes(providers[place], keeper.row, keeper.name)
                    _put(folder, place[0], content)
                for name, content in new.items():
                    _put(folder, name, content)
    return Merged({output / name: whole.boards[name] for name in sorted(new)}, [])


def read_folders(folders: Sequence[Path]) -> list[Source]:
    """Return the boards of folders. Raises UnknownNameError for a folder without any."""
    found = {folder: read_folder(folder) for folder in folders}
    empty = [str(folder) for folder, sources in found.items() if not sources]
    if empty:
        raise UnknownNameError(f"no board at all in {', '.join(empty)}")
    return [source for sources in found.values() for source in sources]


def read_folder(folder: Path) -> list[Source]:
    """Return the boards of a folder, archived ones too.

    Raises UnknownNameError where there is no folder, and SpecError for a malformed board, a file
    without its board's name, and an artifact outside the folder of its row's model.
    """
    if not folder.is_dir():
        raise UnknownNameError(f"{folder} is no folder")
    found = [*folder.glob("*.json"), *folder.glob("archive/*.json")]
    sources = [Source(folder, file, board) for file in sorted(found) if (board := read_board(file))]
    for source in sources:
        if not source.file.resolve().is_relative_to(folder.resolve()):
            raise SpecError(f"{source.file}: is a link out of the boards' folder")
        wanted = {board_name(source.board, archived=archived) for archived in (True, False)}
        if source.name not in wanted:
            raise SpecError(f"{source.file}: task: this board's file is {' or '.join(wanted)}")
        for i, row in enumerate(source.board.results):
            _require_own(row, f"{source.file}: rows[{i}].artifacts")
    return sources


def join(sources: Sequence[Source]) -> tuple[Union, Mapping[tuple[str, str], Path], list[str]]:
    """Return the union of boards, the folder that has each artifact, and all that is wrong.

    A folder is found by an artifact's file and sha256; of several, the last is taken.
    """
    whole = union(sources)
    twice = newest_keepers(whole.boards.values())[1]
    providers, altered = _providers(sources)
    return whole, providers, sorted({*whole.conflicts, *twice, *altered})


def _providers(sources: Sequence[Source]) -> tuple[dict[tuple[str, str], Path], list[str]]:
    """Return a folder for each artifact by file and sha256, and what is wrong with artifacts."""
    providers, problems = {}, []
    for folder, own in grouped(sources, lambda source: source.folder).items():
        keepers, disputed = newest_keepers(source.board for source in own)
        problems += [f"{folder}: {why}" for why in disputed]
        for file, keeper in keepers.items():
            try:
                read_bytes(folder, keeper.row, keeper.name)
            except DataError as error:
                problems.append(f"{folder}: {error}")
            providers[file, keeper.sha256] = folder
    return providers, problems


def _require_own(row: Result, key: str) -> None:
    """Raise SpecError where a row keeps another model's files, or keeps files without scores."""
    own = f"artifacts/{files.file_name(row.task)}/{files.safe_name(row.model)}/"
    for artifact in row.artifacts.values():
        if row.status != "ok" or not artifact["file"].startswith(own):
            raise SpecError(f"{key}: only a row with scores keeps files, and they lie in {own}")


def _has(file: Path, content: bytes) -> bool:
    return file.is_file() and file.read_bytes() == content


def _put(folder: Path, name: str, content: bytes) -> None:
    """Write a file of boards. Raises OutputError where a link leads out of their folder."""
    if not (folder / name).parent.resolve().is_relative_to(folder.resolve()):
        raise OutputError(f"cannot write {name}: a link leads out of the boards' folder")
    files.write_whole(folder / name, content)
