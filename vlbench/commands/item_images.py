"""Images of items, found in a task's data by their content."""

from __future__ import annotations

from collections.abc import Sequence

from PIL.Image import Image

from vlbench.catalog.catalog import load_catalog
from vlbench.data.records import Data, Split
from vlbench.errors import DataError, unknown
from vlbench.planning.options import Options
from vlbench.planning.tasks import resolve_task

# The columns that items are identified by.
IDENTIFYING = ("image", "picture", "named")


def images_of(task: str, digests: Sequence[str], options: Options) -> dict[str, Image]:
    """Return the image of each digest, from the data that a task reads here.

    Raises UnknownNameError for a task that is not there, and DataError where the data are absent or
    others than those of the items.
    """
    catalog = load_catalog(options.include_path)
    if task not in catalog.tasks:
        raise unknown("task", task, catalog.tasks)
    found = resolve_task(catalog, task, True, options)
    data: Data = found.loader(**found.loader_arguments)
    images: dict[str, Image] = {}
    for split in data.splits.values():
        for name in set(IDENTIFYING) & set(split.columns):
            places = {digest: i for i, digest in enumerate(split[name].examples().digests)}
            here = {d: places[d] for d in digests if d in places and d not in images}
            images |= {digest: _image(split, i) for digest, i in here.items()}
    absent = [digest for digest in digests if digest not in images]
    if absent:
        raise DataError(
            f"{task}: {len(absent)} of {len(digests)} items are not among the images of the data "
            "here: the row was made with other data, or its items are no images"
        )
    return images


def _image(split: Split, i: int) -> Image:
    """Return the image of an example. Raises DataError where it has none."""
    image = split["image"][i] if "image" in split.columns else split["picture"][i].image
    if image is None:
        raise DataError("the data here have regions without their images; fetch the images, too")
    return image  # type: ignore[no-any-return]
