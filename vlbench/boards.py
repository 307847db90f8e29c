"""Boards on disk: one JSON file a task, written whole, under a lock."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vlbench.errors import IdentityClash, OutputError, SpecError
from vlbench.files import write_whole
from vlbench.results import Result

SCHEMA = 1


def read_board(file: Path) -> dict[str, Any] | None:
    """Return a board, or None where there is none. Raises SpecError for what is no board."""
    try:
        board = json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise SpecError(f"{file}: is no board: {error}") from error
    parts: dict[str, Any] = board if isinstance(board, dict) else {}
    if parts.get("schema") != SCHEMA or not _is_whole(parts):
        raise SpecError(f"{file}: is no board of schema {SCHEMA}; this vlbench reads no other")
    return parts


def _is_whole(board: Mapping[str, Any]) -> bool:
    """Return whether a file has what is read of a board."""
    rows, primary = board.get("rows"), board.get("primary")
    wanted = {"model", "status", "comparable", "scores", "counts"}
    good = isinstance(rows, list) and all(isinstance(r, dict) and wanted <= r.keys() for r in rows)
    return (
        good
        and isinstance(board.get("version"), int)
        and isinstance(primary, dict)
        and {"metric", "at"} <= primary.keys()
    )


def kept_row(output: Path | None, task: str, model: str, request: str) -> dict[str, Any] | None:
    """Return the ok row that already answers a request, if there is one; none does an empty one."""
    rows = _rows(output, task)
    same = [r for r in rows if r["status"] == "ok" and r["model"] == model]
    return next((row for row in same if request and row["request"] == request), None)


def refuse_clash(output: Path, result: Result) -> None:
    """Raise IdentityClash where an ok row of this identity has other weights or adapter source."""
    for row in _rows(output, result.task):
        standing = row["status"] == "ok" and _identity(row) == _identity(result.row())
        for part in ("weights", "adapter"):
            if standing and row["provenance"][part] != result.provenance[part]:
                raise IdentityClash(
                    f"{output / result.task}.json: '{result.model}' stands there with other "
                    f"{part}; give this one a --name of its own, or --overwrite"
                )


def write_result(output: Path, result: Result) -> None:
    """Put a result on its task's board. Raises OutputError where it cannot be written.

    A row takes the place of the row of its identity; a failed or skipped one never that of an
    ok row. Rows of an older version of the task go to the archive.
    """
    file = output / f"{result.task}.json"
    with _locked(output):
        board = read_board(file)
        new = _head(result) | {"rows": [result.row()]}
        if board and board["version"] > result.version:
            _archive(output, new)
            return
        if board and board["version"] < result.version:
            _archive(output, board)
            board = None
        _write(file, new | {"rows": _merged(board["rows"] if board else [], result.row())})


def save_artifacts(
    output: Path, task: str, model: str, artifacts: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return where each artifact was saved, relative to the boards, and its sha256."""
    saved = {}
    for name, artifact in artifacts.items():
        suffix, content = _content(artifact)
        relative = Path("artifacts") / task / _file_name(model) / f"{_file_name(name)}{suffix}"
        write_whole(output / relative, content)
        if isinstance(artifact, Path):
            artifact.unlink()
        checksum = "sha256:" + hashlib.sha256(content).hexdigest()
        saved[name] = {"file": relative.as_posix(), "sha256": checksum}
    return saved


def require_writable(output: Path) -> None:
    """Raise OutputError where boards cannot be written, before anything is computed for them."""
    with _locked(output):
        write_whole(output / ".writable", b"")
        (output / ".writable").unlink()


def _rows(output: Path | None, task: str) -> list[dict[str, Any]]:
    board = read_board(output / f"{task}.json") if output else None
    rows: list[dict[str, Any]] = board["rows"] if board else []
    return rows


def _identity(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model"], row["comparable"]


def _merged(rows: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with the new one among them, by model and comparable."""
    mine = [row for row in rows if row["model"] == new["model"]]
    others = [row for row in rows if row["model"] != new["model"]]
    ok = [row for row in mine if row["status"] == "ok" and _identity(row) != _identity(new)]
    same = [row for row in mine if row["status"] == "ok" and _identity(row) == _identity(new)]
    keep = [*ok, new] if new["status"] == "ok" else [*ok, *same] or [new]
    return sorted([*others, *keep], key=_identity)


def _head(result: Result) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "task": result.task,
        "version": result.version,
        "paper": result.paper,
        "primary": result.primary,
    }


def _archive(output: Path, board: Mapping[str, Any]) -> None:
    """Move a board's rows to the archive of its version, beside those already there."""
    file = output / "archive" / f"{board['task']}.v{board['version']}.json"
    rows = (read_board(file) or {"rows": []})["rows"]
    for row in board["rows"]:
        rows = _merged(rows, row)
    _write(file, {**board, "rows": rows})


def _write(file: Path, board: Mapping[str, Any]) -> None:
    text = json.dumps(board, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(file, (text + "\n").encode())


def _file_name(name: str) -> str:
    """Return a name that is safe as a file's; one that had to change gets a digest of its own."""
    safe = re.sub(r"[^\w.=,\[\]-]", "_", name).lstrip(".")
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _content(artifact: Any) -> tuple[str, bytes]:
    """Return an artifact's file suffix and bytes: a tensor, a table, or a file to move."""
    if isinstance(artifact, Path):
        return artifact.suffix, artifact.read_bytes()
    if hasattr(artifact, "detach"):
        from safetensors.torch import save  # noqa: PLC0415 - reading boards must not import torch

        return ".safetensors", save({"data": artifact.detach().cpu().contiguous()})
    import pyarrow as pa  # noqa: PLC0415 - only a run that has tables needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    pq.write_table(artifact, sink)
    return ".parquet", sink.getvalue().to_pybytes()


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Hold the lock of a folder of boards."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = (output / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"cannot write boards to {output}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
