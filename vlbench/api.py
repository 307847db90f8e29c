"""vlbench from Python: tasks, models, runs, features and boards; also available in `vlbench`.

For notebooks: the returned objects are displayed in one line or as a table.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fnmatch import fnmatch
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench import bench
from vlbench.boards.artifacts import read_items, read_table, read_tensor
from vlbench.boards.board import Board, folder_boards
from vlbench.boards.items import Card, Item, best_first, joined, row_items, unweighted, worst
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.listed_capabilities import probe_names, shipped_probes
from vlbench.catalog.missing_capabilities import lacking
from vlbench.code.identity import code_digest
from vlbench.data.records import Data
from vlbench.engine import Progress
from vlbench.engine.progress import Bar
from vlbench.errors import CannotDo, DataError, SpecError, UnknownNameError, unknown
from vlbench.metrics.scores import scored
from vlbench.probes.generalization.rdm import rdm_of_classes
from vlbench.probes.generalization.similarity import scores_of
from vlbench.probes.given_features import (
    VectorEngine,
    Vectors,
    halves_of_classes,
    labelled_vectors,
    vector_split,
)
from vlbench.report.comparing import compare_models, numbers_of
from vlbench.report.data_sets import data_names, row_of
from vlbench.report.notes import notes_of
from vlbench.report.page.thumbnails import thumbnail
from vlbench.report.page.viewer import SIDE, render_viewer
from vlbench.report.rows import lent_note
from vlbench.report.table import score_columns
from vlbench.report.texts import score_name, value
from vlbench.results import Outcome, Result, Score, matching
from vlbench.run.extraction import Features, ToEncode, encode, find_examples, of_images, of_texts
from vlbench.run.item_images import cards_of, data_of, image_at, places_of, questions_of
from vlbench.run.live_models import LiveModels
from vlbench.run.model import Model, resolve_model
from vlbench.run.options import Keywords, Options
from vlbench.run.task import PROBE_FILLED, model_parameter, require_read
from vlbench.schema import Misfit, hints, parameters, plain, read_arguments, reads
from vlbench.system.console import open_console
from vlbench.system.files import default_cache, temporary_folder, write_whole
from vlbench.system.threads import single_thread

if TYPE_CHECKING:
    import pandas as pd

LOGGER = logging.getLogger(__name__)

# Classes for which the user was told that nothing is stored.
_SAID: set[str] = set()

# Number of blocks of images for the jackknife of a similarity, as in the tasks.
BLOCKS = 20

# Probes whose rows keep a matrix of distances.
MATRICES = ("rsa", "rsa_text")

Folders = str | Path | Sequence[str | Path]
Seed: TypeAlias = Annotated[int, range(sys.maxsize)]


@reads
def list_tasks(wanted: str = "*", *, include_path: Folders = ()) -> list[str]:
    """Return the names of all tasks, of those with a tag, or of those that match a glob."""
    tasks = _catalog(include_path).tasks
    return sorted(n for n, spec in tasks.items() if wanted in spec.tags or fnmatch(n, wanted))


@reads
def list_models(wanted: str = "*", *, include_path: Folders = ()) -> list[str]:
    """Return the names of all available models, or of those that match a glob.

    Any model of timm, open_clip, transformers or torchvision also has a name, such as
    `timm:vit_small_patch14_dinov2.lvd142m`.
    """
    models = _catalog(include_path).models
    return sorted(n for n, spec in models.items() if not spec.unavailable and fnmatch(n, wanted))


@reads
def load_model(model: str, **options: Unpack[Keywords]) -> Any:
    """Return a model's loaded adapter: its methods are its capabilities.

    `model` is a name or FILE:Class. The keywords are `model_args`, `device`, `dtype`,
    `include_path`, `offline` and `trust` of `evaluate`. Raises VlbenchError for an unknown name and
    for unavailable weights.
    """
    with loaded(model, _options(options)) as (resolved, live, _):
        return live.get(resolved).adapter


@contextmanager
def loaded(model: Any, options: Options) -> Iterator[tuple[Model, LiveModels, Options]]:
    """Yield a resolved model, its live models, and complete options; free the model at the end."""
    with bench.set_up(options) as (complete, processes):
        resolved = resolve_model(load_catalog(options.include_path), model, complete)
        live = LiveModels(complete.settings(), processes)
        try:
            yield resolved, live, complete
        finally:
            live.free()


class Results(list[Result]):
    """Results of a run, with their scores as a table."""

    def frame(self) -> pd.DataFrame:
        """Return the scores as a pandas frame, one row per score."""
        return frame(self)

    def _repr_html_(self) -> str:
        """Return the primary score of each result as a table."""
        heads = ["task", "data", "model", "status", "score", "95 % interval", "n", "notes"]
        return _html(heads, map(_cells, self, _data_names(self)))


@reads
def evaluate(
    model: Any,
    tasks: str | Sequence[str],
    *,
    progress: bool | Progress | None = None,
    **options: Unpack[Keywords],
) -> Results:
    """Return a result for every task that `tasks` selects and whose data are available.

    `model` is a name, FILE:Class, or an adapter object; several models are a list, or names
    separated by commas; the same holds for tasks. The keywords are those of the command line.
    Boards are written only if `output` is given. Features are kept in the same cache as on the
    command line; `cache_dir=None` keeps nothing. Nothing is ever kept for an object whose code no
    file defines, for example from a cell of a notebook. `progress` is shown in a notebook and at a
    terminal unless it is False. No processes are started; processes of a launcher share the work.

    Raises VlbenchError if the command line would exit with 2. A task with a broken file is left out
    with a warning, unless it is named. A model that does not load gives failed results, which are
    not written to boards.
    """
    for entry in model if isinstance(model, list | tuple) else [model]:
        _say_if_not_kept(entry)
    with _progress_bar(progress) as bar:
        return Results(bench.evaluate(model, tasks, progress=bar, **_words(options)))


def frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return the scores of results as a pandas frame, one row per score.

    `data` is the name of a result's data: its folder, or the published data set. Each condition of
    a score, such as `shots`, becomes a column, named `at_<name>` if the plain name is taken. A
    result without scores has one row, with its status and its reason. `params`, if there is such a
    result, are parameters of the run that are not the task's.

    Example:
        >>> score = Score("accuracy", 0.5, 4, at={"shots": 1})
        >>> row = {"task": "digits", "version": 1, "paper": "", "model": "a", "status": "ok"}
        >>> result = Result(**row, primary={"metric": "accuracy"}, scores=[score])
        >>> frame([result])[["model", "metric", "shots", "value"]].to_numpy().tolist()
        [['a', 'accuracy', 1, 0.5]]
    """
    import pandas as pd  # noqa: PLC0415 - slow, and few ask for a frame

    if not isinstance(results, Iterable) or not all(isinstance(one, Result) for one in results):
        raise SpecError("frame: `results` must be a list of results")
    rows, names = [], _data_names(results)
    for result, data in zip(results, names, strict=True):
        head = {"task": result.task, "data": data, "model": result.model, "status": result.status}
        head |= {"reason": result.reason, "notes": " | ".join(notes_of(result))}
        head |= {"params": json.dumps(dict(result.task_params))} if result.task_params else {}
        primary = matching(result.scores, result.primary)
        for score in result.scores:
            row: dict[str, Any] = head | {"is_primary": score in primary}
            row |= score_columns(result, score)
            conditions = row.pop("at")
            rows.append(row | {f"at_{k}" if k in row else k: v for k, v in conditions.items()})
        rows += [] if result.scores else [head]
    return pd.DataFrame(rows)


@reads
def features(
    model: Any,
    source: str | Path | Sequence[Any] | None = None,
    *,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    split: str = "test",
    column: str = "image",
    layers: str | Sequence[str] = (),
    progress: bool | Progress | None = None,
    **options: Unpack[Keywords],
) -> Features:
    """Return a model's features float32 [N, D], with ids and labels.

    `source` is a task's name, whose `split` and `column` are encoded; a folder of images; or images
    (PIL images or arrays uint8 [H, W, 3]), which may have `labels`. Instead, `texts` may be given.
    `layers` are the layers of the model, by name or `all`. The model is named as in `evaluate`.
    """
    if (source is None) == (texts is None):
        raise UnknownNameError("give images, a folder or a task's name, or `texts`")
    if labels is not None and (source is None or isinstance(source, str | Path)):
        raise UnknownNameError("`labels` are for images in memory; a folder and a task have theirs")
    examples: Any = of_texts(texts) if texts is not None else source
    if not isinstance(examples, str | Path) and texts is None:
        examples = of_images(examples, labels)
    _say_if_not_kept(model)
    with _progress_bar(progress) as bar:
        return extract_features(
            model,
            examples,
            _options(options),
            split=split,
            column=column,
            layers=[layers] if isinstance(layers, str) else layers,
            progress=bar,
        )


@reads
def rdm(
    model: Any,
    task: str,
    *,
    progress: bool | Progress | None = None,
    **options: Unpack[Keywords],
) -> pd.DataFrame:
    """Return the square matrix of distances between the classes of an `rsa` task, by name."""
    import pandas as pd  # noqa: PLC0415 - slow, and few ask for a frame

    with _progress_bar(progress) as bar:
        matrix = extract_rdm(model, task, _options(options), progress=bar)
    return pd.DataFrame(matrix.distances, index=matrix.names, columns=matrix.names)


class Rdm(NamedTuple):
    """Distances float64 [C, C] between C classes, the classes' names, and their categories."""

    names: list[str]
    distances: NDArray[np.float64]
    categories: list[str]


def extract_features(
    model: Any,
    examples: ToEncode | str | Path,
    options: Options,
    *,
    split: str = "test",
    column: str = "image",
    layers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Features:
    """Return a model's features of examples, of a task's `column` in a `split`, or of a folder.

    A text is a task's name, or else a folder, whose images are found at any depth and labelled by
    the folders of their classes. `layers` are names, or only `all`. Features in the store are not
    computed again. Raises CannotDo for a model that does not encode such values, UnknownNameError
    for a text that is neither a task nor a folder, and DataAbsent.
    """
    with loaded(model, options) as (resolved, live, complete):
        source = examples
        if not isinstance(source, ToEncode):
            source = find_examples(resolved, source, split, column, complete)
        return encode(resolved, live, source, complete, layers=layers, progress=progress)


def extract_rdm(
    model: Any, source: str | Path, options: Options, *, progress: Progress | None = None
) -> Rdm:
    """Return the square matrix of distances between classes of an `rsa` task.

    `source` is the task, or else a folder of images with a folder for each class, whose matrix is
    computed as in `rsa_scenes`. Raises UnknownNameError for a task without a matrix, CannotDo with
    the reason if there is no result, and DataError for a folder with fewer than two classes or
    with an image in none.
    """
    if str(source) not in load_catalog(options.include_path).tasks:
        return _rdm_of_folder(extract_features(model, source, options, progress=progress))
    task = str(source)
    with (
        temporary_folder() as folder,
        bench.planned_run([model], [task], replace(options, output=folder)) as (planned, processes),
    ):
        probe = planned.jobs[0].task.probe
        if probe.__module__.startswith("vlbench.") and probe.__name__ not in MATRICES:
            raise UnknownNameError(
                f"rows of {task} have no matrix; rows of {' and '.join(MATRICES)} do"
            )
        (result,) = bench.run(planned, processes, progress).results
        if result.status != "ok":
            raise CannotDo(f"{result.model} on {task} {result.status}: {result.reason}")
        if "rdm" not in result.artifacts:
            raise UnknownNameError(f"{task} keeps no `rdm`")
        condensed = read_tensor(folder, result, "rdm").astype(np.float64)
        classes = read_table(folder, result, "classes", ["name", "category"])
    names, categories = ([row[key] for row in classes] for key in ("name", "category"))
    return _square(names, condensed, categories)


def _rdm_of_folder(features: Features) -> Rdm:
    """Return the matrix of distances between the classes of a folder, in standard errors."""
    labels = np.array(features.labels or [])
    names = sorted({*labels.tolist()})
    if "" in names:
        stray = features.ids[int(np.flatnonzero(labels == "")[0])]
        raise DataError(
            f"{stray} is in no folder of a class; move it into one, or out of the folder"
        )
    if len(names) < 2:
        raise DataError(
            f"a matrix needs two or more classes, a folder each; there are {len(names)}"
        )
    rows = [torch.from_numpy(np.flatnonzero(labels == name)) for name in names]
    matrix = rdm_of_classes(torch.from_numpy(features.vectors), rows, names, "scalar")
    return _square(names, matrix.numpy().astype(np.float64), [""] * len(names))


def _square(names: list[str], condensed: NDArray[np.float64], categories: list[str]) -> Rdm:
    from scipy.spatial.distance import squareform  # noqa: PLC0415 - features need none of it

    return Rdm(names, squareform(condensed), categories)


def measure_similarity(
    model: Any,
    companion: Any,
    source: str | Path,
    options: Options,
    *,
    split: str = "test",
    k: int = 10,
    progress: Progress | None = None,
) -> list[Score]:
    """Return how similar two models' vectors of the same images are, as `similarity` scores it.

    `source` is a task, whose images of a split are read, or else a folder of images. Only the first
    of several copies of an image counts. Raises what `extract_features` raises, and TooFewRows for
    fewer than 40 images.
    """
    vectors, examples = list[torch.Tensor](), None
    for subject in (model, companion):
        with loaded(subject, options) as (resolved, live, complete):
            examples = examples or find_examples(resolved, source, split, "image", complete)
            encoded = encode(resolved, live, examples, complete, progress=progress)
            _, firsts = np.unique(examples.column.examples().digests, return_index=True)
            vectors.append(torch.from_numpy(encoded.vectors[np.sort(firsts)]))
    x, y = vectors
    return scores_of(x, y, k, BLOCKS, 0)


@reads
def probe(
    name: str,
    features: Any,
    labels: Sequence[Any],
    *,
    test: Any = None,
    test_labels: Sequence[Any] | None = None,
    seed: Seed = 0,
    **params: Any,
) -> Outcome:
    """Return the outcome of a probe of image features on given features [N, D] with labels [N].

    `name` is a probe that needs only images, such as few_shot, transfer, clustering, knn or rsa;
    `params` are its parameters, as in a task's file. `test` and `test_labels` are the test set; by
    default, a half of each class, drawn with the seed. Raises CannotDo for a probe that needs more
    than features, and SpecError for parameters that it does not take.

    Example:
        >>> train, test = [[1, 0], [0, 1]], [[2, 1], [1, 2], [1, 3]]  # nearest: cat, dog, dog
        >>> given = {"test": test, "test_labels": ["cat", "dog", "cat"]}
        >>> outcome = probe("few_shot", train, ["cat", "dog"], **given, shots=[1], trials=1)
        >>> round(outcome.scores[0].value, 4)
        0.6667
    """
    function = _probe(name)
    under_test = model_parameter(function)
    if gap := lacking(Vectors, hints(function)[under_test]):
        raise CannotDo(f"{name} needs more than features: arrays have no {gap}")
    vectors, names = labelled_vectors(features, labels)
    if test is None:
        rows, other = halves_of_classes(names, seed)
        of_test, test_names = vectors[other], names[other]
        vectors, names = vectors[rows], names[rows]
    elif test_labels is None:
        raise UnknownNameError("give the labels of `test` as `test_labels`")
    else:
        of_test, test_names = labelled_vectors(test, test_labels)
        if (width := of_test.shape[1]) != vectors.shape[1]:
            raise SpecError(f"`test` has {width} features a row, and `features` {vectors.shape[1]}")
    classes = sorted({*names.tolist(), *test_names.tolist()})
    splits = {
        "train": vector_split(vectors, names, classes),
        "test": vector_split(of_test, test_names, classes),
    }
    data = Data(splits=splits, classes=classes)
    try:
        arguments = read_arguments(function, plain(params), (under_test, *PROBE_FILLED))
    except Misfit as error:
        raise SpecError(f"{name}: {error}") from None
    with single_thread():
        outcome: Outcome = scored(function(Vectors(), data, VectorEngine(), **arguments))
    return outcome


def _probe(name: str) -> Callable[..., Outcome]:
    files = shipped_probes()
    names = probe_names()
    if name not in names:
        raise unknown("probe", name, names)
    module = import_module(f"vlbench.probes.{files[name].parent.name}.{files[name].stem}")
    function: Callable[..., Outcome] = getattr(module, name)
    if (*parameters(function),)[1:3] != PROBE_FILLED:
        raise unknown("probe", name, names)
    return function


class ItemViewer(NamedTuple):
    """A viewer of items as an HTML page in UTF-8, which a notebook shows in a frame."""

    page: bytes

    @reads
    def save(self, file: str | Path) -> None:
        """Write the page, which needs no server."""
        write_whole(Path(file), self.page)

    def _repr_html_(self) -> str:
        source = escape(self.page.decode(), quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="640" style="border: 0"></iframe>'


def item_viewer(
    title: str,
    models: Sequence[str],
    examples: Sequence[Sequence[Item]],
    score: Score,
    task: str,
    catalog: Catalog,
    options: Options,
) -> bytes:
    """Return the viewer of items of a score, one item of each model per example, as HTML."""
    data = data_of(catalog, task, options)
    require_read(catalog, [task], options)
    by_item, questions = cards_of(data, score.metric), questions_of(data)
    cards = [
        by_item.get(item.id) or Card(questions.get((item.id, item.shown), ""), [(item.shown, "")])
        for item, *_ in examples
    ]
    places = places_of(task, data, [digest for card in cards for digest, _ in card.images])
    # One by one: thousands of large images do not fit in memory.
    images = {digest: thumbnail(image_at(*place), SIDE) for digest, place in places.items()}
    lower = score.lower_is_better
    return render_viewer(title, models, examples, cards, images, lower=lower)


class Boards:
    """The boards of a folder."""

    def __init__(self, folder: str | Path) -> None:
        """Read the boards. Raises UnknownNameError for a folder without boards."""
        self.folder = Path(folder)
        self.boards: dict[str, Board] = folder_boards(self.folder)
        if not self.boards:
            raise UnknownNameError(f"no boards in {self.folder}; `vlbench run` writes ./results")

    @property
    def rows(self) -> Results:
        """All rows, including rows without scores."""
        return Results(row for board in self.boards.values() for row in board.results)

    def frame(self) -> pd.DataFrame:
        """Return all scores as a pandas frame, one row per score."""
        return self.rows.frame()

    def pivot(self) -> pd.DataFrame:
        """Return the primary score of each model (rows) on each task (columns).

        If a task's board has several data sets, each has a column, `TASK: DATA`. Rows of other
        parameters than the task's are left out. Raises UnknownNameError for a model with several
        rows of the same data.
        """
        scores = frame([row for row in self.rows if row.scores and not row.task_params])
        if scores.empty:
            return scores
        primary = scores[scores["is_primary"].fillna(value=False).astype(bool)]
        labels = primary["task"] + ": " + primary["data"]
        is_split = primary.groupby("task")["data"].transform("nunique") > 1
        primary = primary.assign(task=primary["task"].where(~is_split, labels))
        for _, row in primary[primary.duplicated(["model", "task"])].iterrows():
            why = "their parameters or regions differ; `frame` lists them all"
            raise UnknownNameError(f"{row['model']} has several rows on {row['task']}: {why}")
        return primary.pivot_table(index="model", columns="task", values="value")

    @reads
    def items(self, task: str, model: str, data: str = "") -> pd.DataFrame:
        """Return the credit of each example behind a model's scores on a task.

        `data` is the name of the data of the row, if the model has several rows.
        """
        row = row_of(self._board(task).results, task, model, data)
        return read_items(self.folder, row).to_pandas()

    def _board(self, task: str) -> Board:
        if task not in self.boards:
            raise unknown("board", task, self.boards)
        return self.boards[task]

    @reads
    def view_items(
        self,
        task: str,
        model: str,
        *,
        against: str = "",
        wrong: bool = False,
        data: str = "",
        **options: Unpack[Keywords],
    ) -> ItemViewer:
        """Return a card of each item of a model's primary score, with its image, for a notebook.

        With `wrong` only the items without full credit, the worst first. With `against` the items
        that both models have, first those that `model` gets right more often. The options say
        where the data are, as in `evaluate`. Raises DataError if the data are not here.
        """
        names = [model, against] if against else [model]
        rows = [row_of(self._board(task).results, task, name, data) for name in names]
        metric, at = unweighted(rows[0]), rows[0].primary["at"]
        (score,) = matching(rows[0].scores, {"metric": metric, "at": at})
        items, *theirs = (row_items(self.folder, row, metric, at) for row in rows)
        higher = not score.lower_is_better
        selection = worst(items, higher_is_better=higher) if wrong else items
        examples: list[tuple[Item, ...]] = [(item,) for item in selection]
        if against:
            ids = {item.id for item in selection}
            pairs = best_first(joined(rows[0], rows[1], items, theirs[0]), higher_is_better=higher)
            examples = [pair for pair in pairs if pair[0].id in ids]
        title = f"{' against '.join(names)} on {task}: {score_name(metric, at)}"
        settings = _options(options)
        with bench.set_up(settings, reach_hub=settings.download) as (complete, _):
            catalog = load_catalog(complete.include_path)
            return ItemViewer(item_viewer(title, names, examples, score, task, catalog, complete))

    def __repr__(self) -> str:
        """Return the number of boards and rows."""
        return f"<{len(self.boards)} boards with {len(self.rows)} rows in {self.folder}>"

    def _repr_html_(self) -> str:
        return self.rows._repr_html_()


@reads
def load(folder: str | Path = "results") -> Boards:
    """Return the boards of a folder: rows, frame, pivot, items, and a viewer of items."""
    return Boards(folder)


@reads
def compare(a: str, b: str, task: str = "", *, output: str | Path = "results") -> pd.DataFrame:
    """Return how two models of the boards in `output` differ, on a task or on all shared tasks.

    Each task has a row: both scores, their difference with its 95 % interval, p, and p corrected
    for everything compared (Holm). The tests are paired by item. Raises UnknownNameError, with the
    reason, if nothing can be compared.
    """
    import pandas as pd  # noqa: PLC0415 - slow, and few ask for a frame

    report = compare_models(Path(output), [a, b], [task] if task else [])
    for name in report.lent:
        LOGGER.warning("%s", lent_note(name))
    if not report.compared:
        lacking_items = [f"{name} has no items of {of}" for name, of in report.lacking.items()]
        raise UnknownNameError("; ".join([*report.refused, *report.no_means, *lacking_items]))
    rows = map(numbers_of, report.compared)
    names = ["difference", "ci95_low", "ci95_high", "p", "p_holm"]
    frame = pd.DataFrame(rows)[["task", "metric", "value_a", "value_b", *names]]
    return frame.rename(columns={"value_a": a, "value_b": b})


def _catalog(include_path: Folders) -> Catalog:
    return load_catalog(Options.of(include_path=include_path).include_path)


def _words(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the command line's cache, unless they contain `cache_dir`."""
    return {"cache_dir": default_cache(), **options}


def _options(options: Mapping[str, Any]) -> Options:
    return Options.of(**_words(options))


def _progress_bar(progress: bool | Progress | None) -> Any:
    """Return a context that shows progress."""
    if not isinstance(progress, bool) and progress is not None:
        if not callable(getattr(progress, "begin", None)):
            raise SpecError(f"`progress` must be true, false or a Progress, not {progress!r:.40}")
        return nullcontext(progress)
    watched = "ipykernel" in sys.modules or (sys.stdout is not None and sys.stdout.isatty())
    shows = watched if progress is None else progress
    return Bar(open_console()) if shows else nullcontext(None)


def _say_if_not_kept(model: Any) -> None:
    """Warn once for each class that no file defines that none of its features are kept."""
    kind = type(model)
    if isinstance(model, str) or kind.__qualname__ in _SAID or code_digest(kind) is not None:
        return
    _SAID.add(kind.__qualname__)
    LOGGER.warning(
        "%s, or a base class, is not defined in a file: its features are computed anew in each "
        "call, so edits to a notebook cell take effect",
        kind.__qualname__,
    )


def _data_names(results: Sequence[Result]) -> list[str]:
    """Return the name of each result's data on its board; empty for a result without scores."""
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(result.task, []).append(result)
    names = {task: data_names(group) for task, group in rows.items()}
    return [names[result.task].get(result.comparable, "") for result in results]


def _cells(result: Result, data: str) -> list[str]:
    name = result.label if result.task_params else result.model
    score, head = result.primary_score, [result.task, data, name, result.status]
    notes = " | ".join(notes_of(result))
    if score is None:
        return [*head, result.reason, "", "", notes]
    around = " to ".join(f"{end:.3f}" for end in score.ci95 or ())
    text = value(score, lambda number, _: f"{score.metric} {number:.3f}")
    return [*head, text, around, str(score.n), notes]


def _html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
