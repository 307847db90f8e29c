"""Sets on the Hugging Face hub, at pinned revisions: for loaders whose original files are absent.

The library datasets keeps them as Arrow tables and maps those into memory. Rows, pixels and classes
are those of the original files, so that columns have the same keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image

from vlbench import hub
from vlbench.data.images import Lazy, decode_image, encoded_images, labelled
from vlbench.data.records import Column, Data, Split
from vlbench.errors import DataAbsent, DataError


class HubSet(NamedTuple):
    """Where the hub has a set; `configuration` is None where there is but one."""

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
# Here a zero has the label 0, in the original files 10; its split "extra" comes along, unused.
SVHN = HubSet("ufldl-stanford/svhn", "f9e1717d73324ebbc1ece84267ccd80d0aca0690", "cropped_digits")

# A class that the hub's CIFAR-100 misspells.
MISSPELT = {"cra": "crab"}


def from_hub(
    source: HubSet, absent: DataAbsent, *, expected: Mapping[str, int], classes: Sequence[str] = ()
) -> Data:
    """Return the splits that `expected` counts, fetched once; `classes` or else the hub's names.

    Raises DataAbsent, as `absent` but with the reason, where the revision is neither in reach nor
    cached, and DataError where the hub has it and it cannot be had.
    """
    tables = _tables(source, absent)
    names = classes or _class_names(tables["train"].features[source.label].names)
    splits = {name: _split(tables[name], source, name, len(names)) for name in expected}
    return Data(splits=splits, classes=names, expected=expected)


def _tables(source: HubSet, absent: DataAbsent) -> Any:
    """Return the hub's tables by split."""
    is_offline = hub.settle()
    # They read whether the hub is in reach when they are imported.
    import datasets  # noqa: PLC0415 - see above
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - see above

    # The library of the hub changes what it sends requests with: its own error derives from theirs.
    failures = (*HfHubHTTPError.__bases__, datasets.exceptions.DatasetsError)
    try:
        tables = datasets.load_dataset(
            source.repository, source.configuration, revision=source.revision
        )
    except (OSError, ValueError, RuntimeError, *failures) as error:
        if is_offline or isinstance(error, ConnectionError):
            raise _unreached(source, absent, "the hub cannot be reached") from error
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{source}, cannot be had from the hub ({why})") from error
    # Out of reach of the hub, the library takes whichever revision it cached last.
    files = [Path(file["filename"]) for table in tables.values() for file in table.cache_files]
    others = {path.parent.name for path in files} - {source.revision}
    if others:
        why = f"the hub cannot be reached, and cached is {', '.join(sorted(others))}"
        raise _unreached(source, absent, why)
    return tables


def _unreached(source: HubSet, absent: DataAbsent, why: str) -> DataAbsent:
    return DataAbsent(f"{absent.what} ({source}: {why})", absent.where_to_get, absent.where_to_put)


def _split(table: Any, source: HubSet, name: str, classes: int) -> Split:
    where = f"{source.repository}, {name}"
    return labelled(
        _images(table, source.image, where), table[source.label][:], classes=classes, where=where
    )


def _images(table: Any, column: str, where: str) -> Column:
    """Return the images, read and decoded when asked for: of all bytes only the key is kept."""
    from datasets import Image  # noqa: PLC0415 - see _tables

    # One column on its own: picked anew for each image, it costs ten times the decoding.
    cells = table.cast_column(column, Image(decode=False)).select_columns([column])
    blobs = [cell["bytes"] for cell in cells[:][column]]
    known = encoded_images(blobs, [f"{where}, row {row}.png" for row in range(len(blobs))])
    return replace(known, stored=Lazy(range(len(blobs)), partial(_decode, cells, column, where)))


def _decode(cells: Any, column: str, where: str, row: int) -> PIL.Image.Image:
    return decode_image(cells[row][column]["bytes"], f"{where}, row {row}")


def _class_names(names: Sequence[str]) -> list[str]:
    """Return the names as the original files' loaders show them."""
    return [MISSPELT.get(name, name).replace("_", " ") for name in names]
