"""Boards: a JSON file per task, read through one schema check and written under a lock."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from glob import escape
from pathlib import Path
from typing import Any

from vlbench.errors import IdentityClash, SpecError
from vlbench.results import Artifact, At, Result, SavedArtifact, artifact_bytes
from vlbench.schema import Key, Misfit, misfit, read, read_arguments
from vlbench.system import files

LOGGER = logging.getLogger(__name__)

SCHEMA = 1

# The keys that every row has, including rows of summaries.
ALWAYS = ("comparable", "scores", "counts")
_dumped = partial(json.dumps, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, kw_only=True)
class Board:
    """The results of models on one version of a task, or (a summary) on a group of tasks."""

    task: str
    version: int
    paper: str
    primary: Mapping[str, Any]
    results: Sequence[Result]


@dataclass(frozen=True)
class _Head:
    """The keys of a board's file except `rows`.

    A summary has the `versions` of its tasks, and the digests of their `boards` when it was built.
    """

    schema: int
    task: str
    version: int
    primary: _Primary
    paper: str = ""
    versions: Mapping[str, int] = field(default_factory=dict)
    boards: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Primary:
    metric: str
    at: At


def read_board(file: Path, *, is_rebuilt: bool = False) -> Board | None:
    """Return a board or a summary; None if there is no file.

    Keys missing in the rows of a summary get the defaults of `Result`. A summary that has not been
    built since its boards changed is logged, unless it `is_rebuilt` next. Raises SpecError, naming
    the file and the key, for everything else that does not fit the schema.
    """
    try:
        content = json.loads(files.read_text(file, files.MOST_BOARD))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", error)
        raise SpecError(f"{file} is not a board: {why}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise SpecError(
            f"{file} is not a board of schema {SCHEMA}, the only schema that this vlbench reads"
        )
    try:
        board = _board(content)
    except Misfit as error:
        raise SpecError("\n".join(error.lines(lambda *_: str(file)))) from error
    output = file.parent.parent
    changed = [
        task
        for task, digest in ({} if is_rebuilt else content.get("boards", {})).items()
        if board_digest(board_file(output, task)) != digest
    ]
    if changed:
        _warn_once(
            file, f"{board.task} is out of date: {', '.join(changed)} changed after it was built"
        )
    return board


@cache
def _warn_once(file: Path, problem: str) -> None:
    """Log that a summary is out of date, once, even if a command reads it several times."""
    del file
    LOGGER.warning("%s; run vlbench leaderboard build", problem)


def board_digest(file: Path) -> str:
    """Return the sha256 of the file of a board or summary; "" if there is no file.

    Raises SpecError for a file that is too large or cannot be read.
    """
    try:
        return hashlib.sha256(files.read_bytes(file, files.MOST_BOARD)).hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}") from error


def folder_boards(output: Path) -> dict[str, Board]:
    """Return the boards of a folder, without its summaries, by the names of their files."""
    boards = {file.stem: read_board(file) for file in sorted(output.glob("*.json"))}
    return {name: board for name, board in boards.items() if board}


def board_file(output: Path, task: str) -> Path:
    """Return the file of a task's board. Raises SpecError for a name that no file can have."""
    return output / f"{files.file_name(task)}.json"


def board_bytes(board: Board) -> bytes:
    """Return the content of a board's file: a line for each key, and for each score.

    Raises ValueError for NaN and infinite numbers.
    """
    head = {"task": board.task, "version": board.version, "paper": board.paper}
    text = _dumped({"schema": SCHEMA, **head, "primary": board.primary, "rows": []}, indent=1)
    rows = ",".join(f"\n  {_row_text(result)}" for result in board.results)
    return (text.removesuffix("]\n}") + f"{rows}\n ]\n}}\n").encode()


def _row_text(result: Result) -> str:
    """Return the text of a row with a line for each score, whose numbers change together."""
    row = result.row()
    scores = ",".join(f"\n    {_dumped(score)}" for score in row["scores"])
    text = _dumped(row | {"scores": []}, indent=1).replace("\n", "\n  ")
    # Inside a JSON string a quotation mark follows a backslash, so this matches only the key.
    return text.replace('"scores": []', f'"scores": [{scores}\n   ]', 1) if scores else text


def refuse_clash(output: Path, result: Result) -> None:
    """Raise IdentityClash if an ok row of this identity has other weights or adapter source."""
    board = read_board(board_file(output, result.task))
    for row in board.results if board else []:
        standing = row.status == "ok" and _identity(row) == _identity(result)
        for part in ("weights", "adapter"):
            if standing and row.provenance.get(part) != result.provenance.get(part):
                raise IdentityClash(
                    f"{board_file(output, result.task)}: '{result.model}' is already on it with "
                    f"other {part}; pass another --name, or --overwrite"
                )


def write_result(
    output: Path,
    result: Result,
    artifacts: Mapping[str, Artifact] | None = None,
    *,
    overwrite: bool = False,
) -> Result:
    """Add a result to its task's board, save its artifacts, and return it with their files.

    It replaces the row of the same identity, but a failed or skipped result never replaces an ok
    row. A board that already contains the same is not written. Rows of an older version of the task
    move to the archive. Raises OutputError if the board cannot be written, and IdentityClash as
    `refuse_clash` does, unless `overwrite` is set.
    """
    file = board_file(output, result.task)
    with files.locked(output, "boards"):
        if result.status == "ok" and not overwrite:
            # Checked again: another run may have written the board since the first check.
            refuse_clash(output, result)
        board = read_board(file)
        if board and _says(board, result):
            return result
        kept = _kept_files(output, board, result)
        saved = save_artifacts(output, result.task, result.model, artifacts or {}, kept)
        result = replace(result, artifacts={**result.artifacts, **saved})
        head = {key: getattr(result, key) for key in ("task", "version", "paper", "primary")}
        new = Board(**head, results=[result])
        if board and board.version > result.version:
            _archive(output, result.task, new)
            return result
        if board and board.version < result.version:
            _archive(output, result.task, board)
            board = None
        whole = replace(new, results=_merged(board.results if board else [], result))
        files.write_whole(file, board_bytes(whole))
        return result


def save_artifacts(
    output: Path,
    task: str,
    model: str,
    artifacts: Mapping[str, Artifact],
    taken: Collection[str] = (),
) -> dict[str, SavedArtifact]:
    """Save artifacts, and return the file of each, relative to the boards, and its sha256.

    If another row has `taken` the name of a file, the sha256 is added to the name.
    """
    saved: dict[str, SavedArtifact] = {}
    folder = Path("artifacts") / files.file_name(task) / files.safe_name(model)
    for name, artifact in artifacts.items():
        suffix, content = artifact_bytes(artifact)
        checksum = hashlib.sha256(content).hexdigest()
        relative = folder / f"{files.safe_name(name)}{suffix}"
        if relative.as_posix() in taken:
            relative = folder / f"{files.safe_name(name)}-{checksum[:12]}{suffix}"
        files.write_whole(output / relative, content)
        if isinstance(artifact, Path):
            artifact.unlink()
        saved[name] = {"file": relative.as_posix(), "sha256": f"sha256:{checksum}"}
    return saved


def require_writable(output: Path) -> None:
    """Raise OutputError if boards cannot be written; called before anything is computed."""
    with files.locked(output, "boards"):
        files.write_whole(output / ".writable", b"")
        (output / ".writable").unlink()


def _board(content: Mapping[str, Any]) -> Board:
    """Return the board that a file's JSON describes. Raises Misfit."""
    whole = {key: value for key, value in content.items() if key != "rows"}
    read(_Head, whole)
    if not files.is_file_name(whole["task"]):
        raise misfit("a name without separators", whole["task"], "task")
    head = {key: whole.get(key, "") for key in ("task", "version", "paper", "primary")}
    rows = content.get("rows")
    if not isinstance(rows, list):
        raise misfit("a list", rows, "rows")
    return Board(**head, results=[_result(row, head, ("rows", i)) for i, row in enumerate(rows)])


def _result(row: Any, head: Mapping[str, Any], key: Key) -> Result:
    """Return a row as a result. `head` has what all rows share, `key` is the row's place."""
    try:
        if not isinstance(row, dict):
            raise misfit("a mapping", row)
        result = Result(**head, **read_arguments(Result, row, head, ALWAYS))
        if result.status not in {"ok", "skipped", "failed"}:
            raise misfit("ok, skipped or failed", result.status, "status")
        for name, artifact in result.artifacts.items():
            if not all(map(files.is_file_name, artifact["file"].split("/"))):
                kind = "a path below the board's folder"
                raise misfit(kind, artifact["file"], "artifacts", name, "file")
        for name in ("weights", "adapter", "title"):
            if not isinstance(text := result.provenance.get(name, ""), str):
                raise misfit("a text", text, "provenance", name)
    except Misfit as error:
        raise error.below(*key) from None
    return result


def _says(board: Board, result: Result) -> bool:
    """Return whether a failed or skipped result would leave a board unchanged."""
    heads = [(head.task, head.version, head.paper, head.primary) for head in (board, result)]
    if result.status == "ok" or heads[0] != heads[1]:
        return False
    rows = [row for row in board.results if row.model == result.model]
    left = [row for row in rows if row.status == "ok"] or [result]
    return [json.dumps(row.row()) for row in rows] == [json.dumps(row.row()) for row in left]


def _kept_files(output: Path, board: Board | None, new: Result) -> set[str]:
    """Return the files of the rows that a new row does not replace, including archived rows."""
    boards = [board, *map(read_board, output.glob(f"archive/{escape(new.task)}.v*.json"))]
    rows = [(other.version, row) for other in boards if other for row in other.results]
    key = (new.version, _identity(new))
    stay = [row for version, row in rows if (version, _identity(row)) != key]
    return {artifact["file"] for row in stay for artifact in row.artifacts.values()}


def _identity(row: Result) -> tuple[str, str]:
    return row.model, row.comparable


def _merged(rows: Sequence[Result], new: Result) -> list[Result]:
    """Return the rows with the new row added or replacing another row, sorted by identity."""
    others = [row for row in rows if row.model != new.model]
    results = [row for row in rows if row.model == new.model and row.status == "ok"]
    other_sets = [row for row in results if _identity(row) != _identity(new)]
    keep = [*other_sets, new] if new.status == "ok" else results or [new]
    return sorted([*others, *keep], key=_identity)


def _archive(output: Path, task: str, board: Board) -> None:
    """Add a board's rows to the archive of its version."""
    file = output / "archive" / f"{task}.v{board.version}.json"
    archived = read_board(file)
    rows = list(archived.results) if archived else []
    for result in board.results:
        rows = _merged(rows, result)
    files.write_whole(file, board_bytes(replace(board, results=rows)))
