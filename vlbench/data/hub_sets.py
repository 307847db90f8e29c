"""Data sets on the Hugging Face hub, at pinned revisions, for loaders without original files.

The library datasets stores them as memory-mapped Arrow tables. Rows, pixels and classes equal the
original files', so columns have the same keys.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL.Image import Image

from vlbench.data.images import (
    DecodedImages,
    decode_image,
    image_column,
    image_size,
    labelled,
    pixels_digest,
    require_whole,
)
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Column, Data, Split
from vlbench.errors import DataAbsent, DataError
from vlbench.system import hub
from vlbench.system.digests import file_digests

# The first bytes of lossy formats; images of any other format are compared by their pixels.
LOSSY = (b"\xff\xd8\xff", b"GIF8", b"RIFF")
# The name of a table's stored digests; change the number if `encoded_digest` changes.
HOW = "images of a table, 1"
# A class name that the hub's CIFAR-100 misspells.
MISSPELT = {"cra": "crab"}


def streamed_images(
    source: Sequence[tuple[bytes, str]], digests: Sequence[str] | None = None
) -> Column:
    """Return images from a source of (encoded bytes, name), decoded on each access.

    `digests` are the results of `encoded_digest` if they are known; otherwise each image is read
    once to compute them. DataError names a file that is not an image.
    """
    if digests is None:
        digests = [encoded_digest(*source[i]) for i in range(len(source))]
    return image_column(DecodedImages(source, _decode, _size), digests)


def encoded_digest(encoded: bytes, name: str) -> str:
    """Return the digest of an image's pixels if its format is lossless, else of its bytes.

    Raises DataError, with its name, for an incomplete or invalid image.
    """
    if not encoded.startswith(LOSSY):
        return pixels_digest(decode_image(encoded, name))
    require_whole(encoded, name)
    return hashlib.sha256(encoded).hexdigest()


def _decode(pair: tuple[bytes, str]) -> Image:
    return decode_image(*pair)


def _size(pair: tuple[bytes, str]) -> tuple[int, int]:
    encoded, name = pair
    return image_size(BytesIO(encoded), name)


class HubSet(NamedTuple):
    """A data set's place on the hub; `configuration` is None if there is only one."""

    repository: str
    revision: str
    configuration: str | None = None
    image: str = "image"
    label: str = "label"

    def __str__(self) -> str:
        return f"{self.repository}, revision {self.revision}"


CIFAR10 = HubSet("uoft-cs/cifar10", "0b2714987fa478483af9968de7c934580d0bb9a2", image="img")
CIFAR100 = HubSet(
    "uoft-cs/cifar100",
    "aadb3af77e9048adbea6b47c21a81e47dd092ae5",
    image="img",
    label="fine_label",
)
MNIST = HubSet("ylecun/mnist", "77f3279092a1c1579b2250db8eafed0ad422088c")
FASHION_MNIST = HubSet("zalando-datasets/fashion_mnist", "531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2")
# The digit zero has label 0 here and label 10 in the original files. The split "extra" is unused.
SVHN = HubSet("ufldl-stanford/svhn", "f9e1717d73324ebbc1ece84267ccd80d0aca0690", "cropped_digits")


def from_hub(
    source: HubSet,
    absent: DataAbsent,
    download: bool,
    *,
    expected: Mapping[str, int],
    classes: Sequence[str] = (),
) -> Data:
    """Return the splits named in `expected`, downloaded once; `classes` default to the hub's names.

    Raises `absent` if `download` is False, and with the reason if the hub is unreachable and the
    revision is not cached. Raises DataError if the download fails or is damaged.
    """
    if not download:
        raise absent
    tables = open_tables(source, absent)
    # The names are spelled as by the loaders of the original files.
    names = classes or [
        MISSPELT.get(name, name).replace("_", " ")
        for name in tables["train"].features[source.label].names
    ]
    splits = {name: _split(tables[name], source, name, len(names)) for name in expected}
    return Data(splits=splits, classes=names, expected=expected, class_order=LISTED)


def open_tables(source: HubSet, absent: DataAbsent) -> Any:
    """Return the hub's tables by split. Raises as `from_hub` does."""
    is_offline = hub.settle()
    if not is_offline:
        begin_reading()
    # Both libraries determine on import whether they are offline; `settle` has set this.
    import datasets  # noqa: PLC0415 - see above
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - see above

    # The HTTP library below huggingface_hub depends on its version: catch the base of its error.
    failures = (*HfHubHTTPError.__bases__, datasets.exceptions.DatasetsError)
    tables: Any = {}
    try:
        with hub.checked_downloads(DataError):
            tables = datasets.load_dataset(
                source.repository, source.configuration, revision=source.revision
            )
    except DataError:
        for folder in {file.parent for file in _arrow_files(tables)}:
            shutil.rmtree(folder)  # made from damaged files
        raise
    except (OSError, ValueError, RuntimeError, *failures) as error:
        if is_offline or isinstance(error, ConnectionError):
            raise _unreachable(source, absent, "the hub cannot be reached") from error
        why = f"cannot be downloaded from the hub ({hub.why_failed(error)})"
        raise DataError(f"{source}, {why}; or put a copy at {absent.where_to_put}") from error
    # Offline, the library returns the revision that it cached last.
    others = {path.parent.name for path in _arrow_files(tables)} - {source.revision}
    if others:
        why = f"the hub cannot be reached, and the cache has only {', '.join(sorted(others))}"
        raise _unreachable(source, absent, why)
    begin_reading()
    return tables


def _arrow_files(tables: Mapping[str, Any]) -> list[Path]:
    """Return the files that the library made from the download."""
    return [Path(file["filename"]) for table in tables.values() for file in table.cache_files]


def _unreachable(source: HubSet, absent: DataAbsent, why: str) -> DataAbsent:
    return DataAbsent(f"{absent.what} ({source}: {why})", absent.where_to_get, absent.where_to_put)


@dataclass(frozen=True, eq=False)
class Cells(Sequence[Any]):
    """The encoded images of a table's column, each with its name, read on each access."""

    table: Any
    column: str
    where: Callable[[int], str]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.table)

    def __getitem__(self, row: Any) -> Any:
        """Return the bytes of a row's image, and its name. Raises DataError if there is none."""
        name = self.where(row)
        encoded = (self.table[row][self.column] or {}).get("bytes")
        if not encoded:
            raise DataError(f"{name}: the table contains no image, only references")
        return bytes(encoded), name


def row_name(files: Sequence[tuple[str, int]], row: int) -> str:
    """Return a row's name in errors; `files` lists the names of its files and their lengths."""
    for name, count in files:
        if row < count:
            return f"{name}, row {row}"
        row -= count
    raise IndexError(row)


def cell_images(table: Any, column: str, where: Callable[[int], str]) -> Column:
    """Return the images of a table's column; `where` names its rows in errors.

    Their digests are stored and reused as long as the table's files do not change.
    """
    from datasets import Image  # noqa: PLC0415 - see open_tables

    # Select the column once: selecting it for each image costs ten times the decoding.
    cells = table.cast_column(column, Image(decode=False)).select_columns([column])
    source = Cells(cells, column, where)

    def digests(_: Path) -> str:
        return json.dumps([encoded_digest(*source[row]) for row in range(len(source))])

    files = [Path(file["filename"]) for file in table.cache_files]
    if not files:  # a table in memory
        return streamed_images(source)
    how = json.dumps([HOW, column, len(table), *file_digests(files, "bytes")])
    (text,) = file_digests(files[:1], how, digests)
    return streamed_images(source, json.loads(text))


def _split(table: Any, source: HubSet, name: str, classes: int) -> Split:
    where = f"{source.repository}, {name}"
    labels = table[source.label][:]
    images = cell_images(table, source.image, partial(row_name, [(where, len(labels))]))
    return labelled(images, labels, classes=classes, where=where)
