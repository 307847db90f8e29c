"""The images of items, by their digests, from the data that a task reads on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PIL.Image import Image

from vlbench.boards.items import Card
from vlbench.catalog.catalog import Catalog
from vlbench.data.records import Data, Split, examples_of_items, image_names, image_suffixes
from vlbench.errors import DataError, unknown
from vlbench.metrics.items import DIGITS
from vlbench.run.options import Options
from vlbench.run.task import resolve_task

# The names of the columns that items are identified by. Twins have an `image_2`, too.
IDENTIFYING = re.compile(r"image(_\d+)?|picture(_\d+)?|named")


def images_of(
    catalog: Catalog, task: str, digests: Sequence[str], options: Options
) -> dict[str, Image]:
    """Return the image of each digest, from the data that a task reads here.

    Raises UnknownNameError for a task that is not there, and DataError where the data are absent or
    others than those of the items.
    """
    places = places_of(task, data_of(catalog, task, options), digests)
    return {digest: image_at(*place) for digest, place in places.items()}


def data_of(catalog: Catalog, task: str, options: Options) -> Data:
    """Return the data that a task reads here. Raises UnknownNameError for an unknown task."""
    if task not in catalog.tasks:
        raise unknown("task", task, catalog.tasks)
    resolved = resolve_task(catalog, task, True, options)
    data: Data = resolved.loader(**resolved.loader_arguments)
    return data


def places_of(task: str, data: Data, digests: Sequence[str]) -> dict[str, tuple[Split, str, int]]:
    """Return the split, column and row of the image of each digest."""
    images: dict[str, tuple[Split, str, int]] = {}
    for split in data.splits.values():
        for name in filter(IDENTIFYING.fullmatch, split.columns):
            places = {digest: i for i, digest in enumerate(split[name].examples().digests)}
            present = [d for d in digests if d[:DIGITS] in places and d not in images]
            images |= {digest: (split, name, places[digest[:DIGITS]]) for digest in present}
    absent = [digest for digest in digests if digest not in images]
    if absent:
        raise DataError(
            f"{task}: {len(absent)} of {len(digests)} items are not among the images of the data "
            "here: either the row was made with other data, or its items are not images, which "
            "--show cannot draw"
        )
    return images


def questions_of(data: Data) -> dict[tuple[str, str], str]:
    """Return the question of each item of questions, by its id and the digest of its image."""
    questions: dict[tuple[str, str], str] = {}
    for split in data.splits.values():
        if {"image", "question"} <= {*split.columns}:
            own = examples_of_items(split, "question", [()] * len(split))
            questions |= zip(zip(own.ids, own.images, strict=True), split["question"], strict=True)
    return questions


def cards_of(data: Data, metric: str) -> dict[str, Card]:
    """Return the card of each item of twins, or of a choice among images, by its id.

    Twins have their captions below their images. A choice among images has its caption as the text,
    and the names that predictions use below the images. A choice among texts is about one image, so
    that it has no card.
    """
    cards: dict[str, Card] = {}
    if metric.startswith("text_accuracy"):
        return cards
    for split in data.splits.values():
        suffixes = image_suffixes(split)
        if "caption" not in split.columns or len(suffixes) == 1:
            continue
        ids = examples_of_items(split, "caption", [()] * len(split)).ids
        columns = [split[f"image{suffix}"].examples().digests for suffix in suffixes]
        captions = [split[name] for name in ("caption", "caption_2") if name in split.columns]
        for name, names, digests, texts in zip(
            ids,
            image_names(split),
            zip(*columns, strict=True),
            zip(*captions, strict=True),
            strict=True,
        ):
            if len(texts) == 1:
                cards[name] = Card(texts[0], [*zip(digests, names, strict=True)])
            elif metric.startswith("image_accuracy"):
                for side, text in enumerate(texts, 1):
                    cards[f"{name}/{side}"] = Card(text, [*zip(digests, names, strict=True)])
            else:
                cards[name] = Card("", [*zip(digests, texts, strict=True)])
    return cards


def image_at(split: Split, name: str, i: int) -> Image:
    """Return the image of an example by a column. Raises DataError where it has none."""
    _, _, suffix = name.partition("_")
    of_image, of_picture = (f"{kind}_{suffix}".rstrip("_") for kind in ("image", "picture"))
    image = split[of_image][i] if of_image in split.columns else split[of_picture][i].image
    if image is None:
        raise DataError("the data here have regions but no images; fetch the images")
    return image  # type: ignore[no-any-return]
