"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from vlbench.errors import OutputError


def write_whole(file: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all, parents included.

    Raises OutputError, naming the file, where the disk or its rights do not allow it.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".part-", dir=file.parent)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
    finally:
        Path(name).unlink(missing_ok=True)
