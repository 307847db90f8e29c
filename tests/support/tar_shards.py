"""Tar shards as webdataset packs them, and as nobody should."""

import io
import tarfile
from pathlib import Path


def pack(file: Path, members) -> Path:
    """Write a tar of (name, content) pairs, or of TarInfos without content."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file


def info(name, **values) -> tarfile.TarInfo:
    """Return a member's header with these values."""
    made = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(made, key, value)
    return made


def put_split(root: Path, shards, *, split="test", names=("cat", "dog")) -> Path:
    """Write the shards of a split, their number, and the names of the classes."""
    for number, members in enumerate(shards):
        pack(root / split / f"{number}.tar", members)
    (root / split / "nshards.txt").write_text(f"{len(shards)}\n")
    (root / "classnames.txt").write_text("".join(f"{name}\n" for name in names))
    return root
