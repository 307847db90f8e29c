"""The parquet files of a split in a folder: the files that the library datasets finds.

Its rules are tried in turn (https://huggingface.co/docs/hub/datasets-file-names-and-splits): shards
`data/SPLIT-00000-of-00001.parquet`, folders named by a word for the split, files named so, all
files. Unlike datasets, we refuse incomplete sets of shards, and a split that occurs twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from vlbench.data.folders import is_visible
from vlbench.errors import DataError, listed

# A file's split, its shard number and the number of shards; the rest may differ for each shard.
SHARD = re.compile(r"(.+)-(\d+)-of-(\d+).*")
IN_DATA = re.compile(r"data/([^/]+)-\d{5}-of-\d{5}[^/]*")

# Words for a split; they are delimited by the ends of a name, punctuation or digits.
WORDS = {
    "train": "train|training",
    "validation": "validation|valid|dev|val",
    "test": "test|testing|eval|evaluation",
}
FINDS = {
    split: re.compile(rf"(?:^|[-._ 0-9])(?:{words})(?:[-._ 0-9]|$)")
    for split, words in WORDS.items()
}


def parquet_files(root: Path) -> list[PurePath]:
    """Return the parquet files below a folder, relative to it, without hidden files."""
    files = sorted(file for file in root.rglob("*.parquet") if file.is_file())
    return [file for file in (file.relative_to(root) for file in files) if not _is_hidden(file)]


def split_of(file: PurePath) -> str:
    """Return the split at the start of a name: `train` of `train-00000-of-00002.parquet`."""
    shard = SHARD.fullmatch(file.stem)
    return shard[1] if shard else file.stem


def files_of_split(files: Sequence[PurePath], split: str) -> list[PurePath]:
    """Return the files of a split; empty if there is no such split.

    Raises DataError, naming files, if shards are missing, if two sets of files could be the split,
    or if the split's name and the rules of datasets give different files.
    """
    read_by_datasets = _find_as_datasets(files, split)
    chosen = [file for file in files if split_of(file) == split] or read_by_datasets
    _require_one_set(chosen, split)
    if read_by_datasets and (doubtful := {*chosen} ^ {*read_by_datasets}):
        why = f"{_names(doubtful)} may or may not belong to the split {split} ({_names(chosen)})"
        raise DataError(
            f"{why}: the library datasets reads {_names(read_by_datasets)}; rename or remove it"
        )
    return chosen


def _is_hidden(file: PurePath) -> bool:
    hidden = not all(map(is_visible, file.parts))
    return hidden or any(part.startswith("__") for part in file.parent.parts)


def _find_as_datasets(files: Sequence[PurePath], split: str) -> list[PurePath]:
    """Return the files that datasets would read for a split."""
    shards = [(file, IN_DATA.fullmatch(file.as_posix())) for file in files]
    if any(shard for _, shard in shards):
        return [file for file, shard in shards if shard and shard[1] == split]
    for part in (slice(-1), slice(-1, None)):  # the folders, then the name
        by_split = {
            name: [file for file in files if any(map(word.search, file.parts[part]))]
            for name, word in FINDS.items()
        }
        if any(by_split.values()):
            return by_split.get(split, [])
    return list(files) if split == "train" else []


def _require_one_set(files: Sequence[PurePath], split: str) -> None:
    """Raise DataError for an incomplete set of shards, or several sets."""
    shards: dict[int, PurePath] = {}
    for place, file in enumerate(files):
        shard = SHARD.fullmatch(file.stem)
        other = shards.setdefault(int(shard[2]) if shard else place, file)
        twice = other if other != file else files[0]
        if other != file or _set_of(file) != _set_of(files[0]):
            why = f"the split {split} is there twice, as {_names([twice, file])}"
            raise DataError(f"{why}; keep one copy, or give its folder as `root`")
    count = _set_of(files[0])[-1] if files else 0
    absent = next((number for number in range(count) if number not in shards), None)
    if absent is not None:
        why = f"shard {absent} of the {count} of the split {split} is missing"
        raise DataError(f"{why} beside {_names(files)} (the first is shard 0); fetch it")
    if count and (last := max(shards)) >= count:
        raise DataError(
            f"{_names([shards[last]])} is beyond the {count} shards that its name declares"
        )


def _set_of(file: PurePath) -> tuple[PurePath, str, int]:
    """Return the folder, split and number of shards of a file; 0 if its name gives no number."""
    shard = SHARD.fullmatch(file.stem)
    return (file.parent, shard[1], int(shard[3])) if shard else (file.parent, "", 0)


def _names(files: Iterable[PurePath]) -> str:
    return listed(file.as_posix() for file in files)
