"""Extraction of features for other analyses: from a task, a folder, images or texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from vlbench.capabilities import ImageEncoder, TextEncoder, has
from vlbench.catalog.catalog import load_catalog
from vlbench.data.folders import visible_files
from vlbench.data.images import (
    SUFFIXES,
    DecodedImages,
    file_images,
    image_column,
    pixels_digest,
)
from vlbench.data.names import label_names, normal_form
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine, NoProgress, Progress
from vlbench.engine.layers import IMAGES, TEXTS, Layers, layers_of
from vlbench.engine.store import Store
from vlbench.errors import CannotDo, DataError, UnknownNameError, counted, unknown
from vlbench.run.datasets import DataSets
from vlbench.run.live_models import LiveModels
from vlbench.run.model import Model
from vlbench.run.options import Options
from vlbench.run.task import require_read, resolve_task
from vlbench.schema import plain

# The encoder of a column's values, by the kind of the column.
ENCODERS = {"image": (ImageEncoder, IMAGES), "text": (TextEncoder, TEXTS)}


class Features(NamedTuple):
    """Vectors float32 [N, D] of N examples, the id of each, and the name of its class, if any.

    `layers` has the vectors of each requested layer, in order of depth; `vectors` are then those of
    the last layer.
    """

    ids: list[str]
    vectors: NDArray[np.float32]
    labels: list[str] | None = None
    layers: Mapping[str, NDArray[np.float32]] = MappingProxyType({})

    def __repr__(self) -> str:
        """Return a text with the numbers of examples, dimensions, classes and layers."""
        n, width = self.vectors.shape
        classes = f", {len(set(self.labels))} classes" if self.labels else ""
        layers = f", {len(self.layers)} layers" if self.layers else ""
        return f"<features of {n} examples, {width} numbers each{classes}{layers}>"


class ToEncode(NamedTuple):
    """A column to encode, and the name of each example's class, if there are classes."""

    column: Column
    labels: list[str] | None = None


def encode(
    model: Model,
    live: LiveModels,
    source: ToEncode,
    options: Options,
    *,
    layers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Features:
    """Return a model's features of examples; `layers` are names, or only `all`.

    Features in the store are not computed again. Raises CannotDo for a model that does not encode
    such values.
    """
    if source.column.kind not in ENCODERS:
        raise CannotDo(
            f"a column of {source.column.kind}s has no features; name a column of images"
        )
    capability, tower = ENCODERS[source.column.kind]
    if not has(model.adapter, capability, model.spec.without):
        raise CannotDo(
            f"{model.name} does not implement {capability.__name__}: it has no {tower.encode}"
        )
    adapter = live.get(model).adapter
    assert options.cache_dir
    engine = Engine(
        options.settings(),
        store=Store(options.cache_dir / "features"),
        identities=live.identities(),
        progress=progress or NoProgress(),
    )
    method, by_layer = getattr(adapter, tower.encode), dict[str, NDArray[np.float32]]()
    if layers:
        names = layers_of(adapter, model.name, layers, tower)
        held = Layers(adapter, engine, names, tower)
        for name in names:
            by_layer[name] = held.engine_at(name).features(method, source.column).numpy()
    last = next(reversed(by_layer.values()), None)
    vectors = engine.features(method, source.column).numpy() if last is None else last
    return Features(list(source.column.ids), vectors, source.labels, by_layer)


def of_images(images: Sequence[Any], labels: Sequence[str] | None = None) -> ToEncode:
    """Return images in memory, PIL images or arrays uint8 [H, W, 3], as examples.

    Raises DataError for anything else, and for another number of labels.
    """
    if not isinstance(images, Iterable):
        raise DataError(f"the images are {images!r:.40}, not a list of images")
    stored = [_as_image(image, place).convert("RGB") for place, image in enumerate(images)]
    if not stored:
        raise DataError("the list of images is empty")
    names = None if labels is None else plain(labels)
    if names is not None and not (isinstance(names, list) and len(names) == len(stored)):
        raise DataError(f"{counted(len(stored), 'image')} need a list of as many labels")
    decoded = DecodedImages(stored, _as_it_is)
    column = image_column(decoded, [pixels_digest(image) for image in stored])
    return ToEncode(column, None if names is None else label_names(names))


def of_texts(texts: Sequence[str]) -> ToEncode:
    """Return texts as examples. Raises DataError if there are none."""
    if not len(texts):  # an array has no truth
        raise DataError("the list of texts is empty")
    return ToEncode(value_column(texts, "text"))


def of_folder(root: Path) -> ToEncode:
    """Return the images of a folder, at any depth, with their classes as `image_folder` has them.

    A class is a folder in the root, or in its folders if `train` or `test` is one and has folders.
    The label of an image outside the folders of classes is empty.
    """
    names = [name for name in visible_files(root).names if name.lower().endswith(SUFFIXES)]
    if not names:
        raise DataError(f"{root.name} has no images ({', '.join(SUFFIXES)})")
    parents = [PurePath(name).parts[:-1] for name in names]
    depth = int(any(of[0] in {"train", "test"} for of in parents if len(of) > 1))
    folders = [normal_form((*of[depth:], "")[0]) for of in parents]
    return ToEncode(file_images(root, names), folders if any(folders) else None)


def _as_image(value: Any, place: int) -> PIL.Image.Image:
    if isinstance(value, PIL.Image.Image):
        return value
    if isinstance(value, str | PurePath):
        raise DataError(
            f"image {place}, {str(value)!r:.40}, is a path; open it with PIL.Image.open, or give "
            "the folder of the images"
        )
    try:
        return PIL.Image.fromarray(np.asarray(value))
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        what = "is neither a PIL image nor an array uint8 [H, W, 3]"
        raise DataError(f"image {place}, {value!r:.40}, {what}") from error


def _as_it_is(image: PIL.Image.Image) -> PIL.Image.Image:
    return image


def find_examples(
    model: Model, source: str | Path, split: str, column: str, options: Options
) -> ToEncode:
    """Return a task's column in a split, or the images of a folder if no task has its name."""
    catalog = load_catalog(options.include_path)
    require_read(catalog, [*{str(source)} & {*catalog.tasks}], options)
    if str(source) not in catalog.tasks:
        if not Path(source).is_dir():
            if Path(source).is_file():
                raise UnknownNameError(f"{source} is a file; name a folder of images, or a task")
            raise unknown("task or folder", str(source), catalog.tasks)
        chosen = (split, column, options.limit)
        if chosen != ("test", "image", None):
            raise UnknownNameError(
                f"split, column and limit choose rows of a task, and {source} is a folder; "
                "name the folder of the images that you want"
            )
        return of_folder(Path(source))
    task = resolve_task(catalog, str(source), named=True, options=options)
    arguments = dict(task.loader_arguments)
    if "wanted_splits" in arguments:
        arguments["wanted_splits"] = [split]
    data = DataSets(options.limit).load(replace(task, loader_arguments=arguments), model)
    if split not in data.splits:
        raise unknown("split", split, data.splits)
    rows: Split = data.splits[split]
    labels = None
    if "label" in rows.columns and data.classes:
        labels = [data.classes[label] for label in rows["label"]]
    return ToEncode(rows[column], labels)
