"""Features and matrices out, for an analysis of one's own: of a task, a folder, images, texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from vlbench.bench import run, set_up
from vlbench.boards.artifacts import read_table, read_tensor
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
from vlbench.data.names import normal_form
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine, NoProgress, Progress
from vlbench.engine.layers import IMAGES, TEXTS, Layers, layers_of
from vlbench.engine.store import Store
from vlbench.errors import CannotDo, DataError, UnknownNameError, unknown
from vlbench.files import temporary_folder
from vlbench.run.datasets import DataSets
from vlbench.run.live_models import LiveModels
from vlbench.run.model import Model, resolve_model
from vlbench.run.options import Options
from vlbench.run.plan import agree, plan
from vlbench.run.task import resolve_task

# What encodes the values of a column, by its kind.
ENCODERS = {"image": (ImageEncoder, IMAGES), "text": (TextEncoder, TEXTS)}


# The probes that keep a matrix of distances.
MATRICES = ("rsa", "rsa_text")


class Features(NamedTuple):
    """Vectors float32 [N, D] of N examples, the id of each, and the name of its class, if any.

    `layers` has the vectors of each layer that was asked for, in order of depth; `vectors` are then
    those of the last of them.
    """

    ids: list[str]
    vectors: NDArray[np.float32]
    labels: list[str] | None = None
    layers: Mapping[str, NDArray[np.float32]] = MappingProxyType({})

    def __repr__(self) -> str:
        """Return the number of examples, of dimensions, of classes and of layers."""
        n, width = self.vectors.shape
        classes = f", {len(set(self.labels))} classes" if self.labels else ""
        layers = f", {len(self.layers)} layers" if self.layers else ""
        return f"<features of {n} examples, {width} numbers each{classes}{layers}>"


class Rdm(NamedTuple):
    """Distances float64 [C, C] between C classes, their names, and the category of each."""

    names: list[str]
    distances: NDArray[np.float64]
    categories: list[str]


class Examples(NamedTuple):
    """A column to encode, and the name of each example's class, if there are classes."""

    column: Column
    labels: list[str] | None = None


@contextmanager
def loaded(model: Any, options: Options) -> Iterator[tuple[Model, LiveModels, Options]]:
    """Yield a model resolved, what holds it live, and complete options; it is freed at the end."""
    with set_up(options) as (complete, processes):
        resolved = resolve_model(load_catalog(options.include_path), model, complete)
        live = LiveModels(complete.settings(), processes)
        try:
            yield resolved, live, complete
        finally:
            live.free()


def extract_features(
    model: Any,
    examples: Examples | str | Path,
    options: Options,
    *,
    split: str = "test",
    column: str = "image",
    layers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Features:
    """Return a model's features of examples, of a task's `column` in a `split`, or of a folder.

    A text is a task's name, or else a folder, whose images are found at any depth, and whose labels
    are the names of the folders that they lie in. `layers` are names, or `all` alone. What the
    store has is not computed again. Raises CannotDo for a model that does not encode such values,
    UnknownNameError for what is neither a task nor a folder, and DataAbsent.
    """
    with loaded(model, options) as (resolved, live, complete):
        source = examples
        if not isinstance(source, Examples):
            source = _find(resolved, source, split, column, complete)
        if source.column.kind not in ENCODERS:
            raise CannotDo(f"a column of {source.column.kind}s has no features; name one of images")
        capability, tower = ENCODERS[source.column.kind]
        if not has(resolved.adapter, capability, resolved.spec.without):
            raise CannotDo(f"{resolved.name} is no {capability.__name__}: it has no {tower.encode}")
        adapter = live.get(resolved).adapter
        assert complete.cache_dir
        engine = Engine(
            complete.settings(),
            store=Store(complete.cache_dir / "features"),
            identities=live.identities(),
            progress=progress or NoProgress(),
        )
        encode, by_layer = getattr(adapter, tower.encode), dict[str, NDArray[np.float32]]()
        if layers:
            names = layers_of(adapter, resolved.name, layers, tower)
            held = Layers(adapter, engine, names, tower)
            for name in names:
                by_layer[name] = held.engine_at(name).features(encode, source.column).numpy()
        last = next(reversed(by_layer.values()), None)
        vectors = engine.features(encode, source.column).numpy() if last is None else last
    return Features(list(source.column.examples().ids), vectors, source.labels, by_layer)


def extract_rdm(
    model: Any, task: str, options: Options, *, progress: Progress | None = None
) -> Rdm:
    """Return the square matrix of distances between classes that a task of `rsa` makes.

    Raises UnknownNameError for a task that makes none, and CannotDo with the reason why there is no
    result.
    """
    with temporary_folder() as folder, set_up(replace(options, output=folder)) as (complete, all_):
        planned = agree(plan([model], [task], complete), all_)
        probe = planned.jobs[0].task.probe
        if probe.__module__.startswith("vlbench.") and probe.__name__ not in MATRICES:
            raise UnknownNameError(f"{task} makes no matrix; tasks of {' and '.join(MATRICES)} do")
        (result,) = run(planned, all_, progress).results
        if result.status != "ok":
            raise CannotDo(f"{result.model} on {task} {result.status}: {result.reason}")
        if "rdm" not in result.artifacts:
            raise UnknownNameError(f"{task} keeps no `rdm`")
        condensed = read_tensor(folder, result, "rdm").astype(np.float64)
        classes = read_table(folder, result, "classes", ["name", "category"])
    names, categories = ([row[key] for row in classes] for key in ("name", "category"))
    from scipy.spatial.distance import squareform  # noqa: PLC0415 - features need none of it

    return Rdm(names, squareform(condensed), categories)


def of_images(images: Sequence[Any], labels: Sequence[str] | None = None) -> Examples:
    """Return images in memory, PIL images or arrays uint8 [H, W, 3], as examples."""
    pictures = [
        one if isinstance(one, PIL.Image.Image) else PIL.Image.fromarray(np.asarray(one))
        for one in images
    ]
    stored = [one.convert("RGB") for one in pictures]
    decoded = DecodedImages(stored, _as_it_is)
    column = image_column(decoded, [pixels_digest(one) for one in stored])
    return Examples(column, None if labels is None else list(map(str, labels)))


def of_texts(texts: Sequence[str]) -> Examples:
    """Return texts as examples."""
    return Examples(value_column(texts, "text"))


def of_folder(root: Path) -> Examples:
    """Return the images of a folder, at any depth; their labels are the folders they lie in."""
    names = [name for name in visible_files(root).names if name.lower().endswith(SUFFIXES)]
    if not names:
        raise DataError(f"{root.name} has no images ({', '.join(SUFFIXES)})")
    folders = [normal_form(PurePath(name).parent.name) for name in names]
    return Examples(file_images(root, names), folders if any(folders) else None)


def _as_it_is(image: PIL.Image.Image) -> PIL.Image.Image:
    return image


def _find(model: Model, source: str | Path, split: str, column: str, options: Options) -> Examples:
    catalog = load_catalog(options.include_path)
    if str(source) not in catalog.tasks:
        if not Path(source).is_dir():
            raise unknown("task or folder", str(source), catalog.tasks)
        return of_folder(Path(source))
    task = resolve_task(catalog, str(source), named=True, options=options)
    arguments = dict(task.loader_arguments)
    if "wanted_splits" in arguments:
        arguments["wanted_splits"] = [split]
    data = DataSets(options.limit).load(replace(task, loader_arguments=arguments), model)
    rows: Split = data.splits[split]
    labels = None
    if "label" in rows.columns and data.classes:
        labels = [data.classes[label] for label in rows["label"]]
    return Examples(rows[column], labels)
