"""The site's catalogue: tasks, models, capabilities, data sets and metrics, as pages in Markdown.

All of it comes from YAML, signatures, docstrings and the shipped boards.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain, groupby
from textwrap import dedent
from typing import Any

from chances import levels
from papers import BOARDS, table
from systems import tasks_by_family

from vlbench import capabilities
from vlbench.boards.board import Board, folder_boards
from vlbench.capabilities import capabilities_in, methods
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.docstrings import split_args
from vlbench.catalog.library_names import library_model
from vlbench.catalog.listed_capabilities import REQUIRED, arguments_of, needs_of
from vlbench.catalog.specs import TaskSpec
from vlbench.commands.ls import list_things
from vlbench.commands.show import FILLED
from vlbench.report.texts import number
from vlbench.results import Result, Score
from vlbench.run.task import Task

TASK_HEADS = ("task", "title", "primary score", "chance", "floors", "version", "paper")
MODEL_HEADS = (
    "model",
    "parameters",
    "weights, licence",
    "GFLOP",
    "training data",
    "released",
    "about",
)
# Models of adapters that are not in models.yaml.
BY_ADDRESS = ("openai:NAME@http://localhost:8000/v1", "recorded:.")
DATA_HEADS = ("data set", "GB to fetch", "images", "licence", "who can have it")


ABOUT_METRICS = """Unit, range and direction are those of rows on shipped boards. Formulas and
sources are in the notes of the probes, to which the links lead."""

ABOUT_LEVELS = """Chance and floors are those of the primary score. If a board is shipped, its rows
have them. If not, chance is that of the probe, and floors are named: a run computes them."""


def pages(catalog: Catalog) -> dict[str, str]:
    """Return the text of each page of the catalogue by its name."""
    families = tasks_by_family(catalog)
    tasks = {
        f"tasks_{family.replace(' ', '_')}": "\n".join(_family(family, own))
        for family, own in families.items()
    }
    every = [task for own in families.values() for task in own]
    return tasks | {
        "groups": "\n".join(_groups(catalog)),
        "models": "\n".join(_models(catalog)),
        "capabilities": "\n".join(_capabilities(every)),
        "data_sets": "\n".join(_data_sets(every)),
        "metrics": "\n".join(_metrics(every)),
    }


@cache
def boards() -> Mapping[str, Board]:
    """Return the shipped boards by task."""
    return folder_boards(BOARDS)


def anchored(kind: str, name: str) -> str:
    """Return a name in code, which links to it may lead to."""
    return f"[`{name}`]{{#{anchor(kind, name)}}}"


def anchor(kind: str, name: str) -> str:
    """Return the anchor of a thing of a kind."""
    return f"{kind}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"


def cell(value: object) -> str:
    """Return a text for a cell of a table, with all characters that Markdown interprets escaped."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", str(value)) or "-"


def prose(docstring: str | None) -> str:
    """Return a docstring without `Args:` as Markdown: only text in backquotes is marked up.

    An `Example:` at the end of a docstring becomes a block of code.
    """
    text, _, example = split_args(docstring)[0].partition("\n\nExample:\n")
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([<>*_\[\]$])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts) + (f"\n\n```pycon\n{dedent(example).rstrip()}\n```" if example else "")


def arguments(params: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the table of parameters of a function in YAML, or of an adapter in `--model-args`."""
    rows = [
        [f"`{key}`", *(one.replace("|", r"\|") for one in (f"`{kind}`", prose(texts.get(key))))]
        for key, kind in params.items()
    ]
    yield from (*table(("key", "type and default", "meaning"), rows), "") if rows else ()


def _name_of(function: Any) -> str:
    return f"{function.__module__}:{function.__name__}"


def _family(family: str, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the lines of a family's page: its modules, their probes, and the tasks of each."""
    yield f"# Tasks: {family}\n\n{ABOUT_LEVELS}\n"
    inside = f".probes.{family.replace(' ', '_')}."
    for module, rows in _by_module("probes", inside):
        yield f"## {module.rpartition('.')[2].replace('_', ' ').capitalize()}\n"
        yield f"{prose(import_module(module).__doc__)}\n"
        for row in rows:
            own = [task for task in tasks if _name_of(task.probe) == row["name"]]
            bare = row["name"].partition(":")[2]
            yield f"({anchor('probe', bare)})=\n### `{bare}`\n\n{prose(row['docstring'])}\n"
            needs = dict.fromkeys(f"`{needs_of(task.spec)}`" for task in own)
            yield f"Asks for: {' or '.join(needs)}.\n" if own else "No shipped task has it.\n"
            yield from arguments(row["params"], split_args(row["docstring"])[1])
            yield from (*table(TASK_HEADS, [_task(task.spec) for task in own]), "") if own else ()


def _by_module(kind: str, inside: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the shipped modules of probes or loaders, with the functions of each."""
    rows = [row for row in list_things(kind, []) if inside in row["name"]]
    for module, own in groupby(rows, lambda row: row["name"].partition(":")[0]):
        yield module, list(own)


def _task(spec: TaskSpec) -> list[str]:
    """Return the line of a task; chance and floors come from its shipped board, or its probe."""
    at = "".join(f", {key} {value}" for key, value in spec.primary_score["at"].items())
    scores = _primary_scores(spec.name)
    chance, floors = (_chance(scores), _floors(scores)) if scores else levels(spec)
    return [
        anchored("task", spec.name),
        cell(spec.title or spec.description),
        f"`{spec.primary['metric']}`{cell(at) if at else ''}",
        cell(chance),
        cell(floors),
        str(spec.version),
        cell(spec.paper),
    ]


def _rows(task: str) -> Sequence[Result]:
    """Return the rows of a task's shipped board; empty if it has no board."""
    return boards()[task].results if task in boards() else ()


def _primary_scores(task: str) -> list[Score]:
    return [row.primary_score for row in _rows(task) if row.primary_score]


def _chance(scores: Sequence[Score]) -> str:
    """Return chance on the board, or why it has none."""
    known = [score.chance for score in scores if score.chance is not None]
    why = dict.fromkeys(score.no_chance for score in scores if score.no_chance)
    return _span(known, scores[0].unit) if known else "; ".join(why)


def _floors(scores: Sequence[Score]) -> str:
    """Return each floor of the board; floors differ for models that read other splits."""
    values: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        for name, value in score.floors.items():
            values[name].append(value)
    spans = [f"{name} {_span(own, scores[0].unit)}" for name, own in values.items()]
    return "; ".join(spans)


def _span(values: Iterable[float], unit: str) -> str:
    """Return the value that rows share, or the smallest and the largest."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(number(v, unit) for v in (ordered[0], ordered[-1])))


def _groups(catalog: Catalog) -> Iterator[str]:
    """Yield the page of groups and tags."""
    yield "# Groups and tags\n\n`--tasks NAME` runs the tasks of a group or a tag.\n\n## Groups\n"
    groups = [spec for spec in catalog.tasks.values() if spec.group]
    yield from table(
        ("group", "title", "tasks"),
        [
            [
                anchored("task", one.name),
                cell(one.title or one.description),
                links("task", one.group),
            ]
            for one in groups
        ],
    )
    yield "\n## Tags\n"
    tagged = defaultdict(list)
    for name, spec in sorted(catalog.tasks.items()):
        for tag in spec.tags:
            tagged[tag].append(name)
    rows = [[f"`{tag}`", links("task", names)] for tag, names in sorted(tagged.items())]
    yield from table(("tag", "tasks"), rows)


def links(kind: str, names: Iterable[str]) -> str:
    """Return links to things of a kind, which are `anchored` on some page."""
    return ", ".join(f"[`{name}`](#{anchor(kind, name)})" for name in names) or "none"


def _models(catalog: Catalog) -> Iterator[str]:
    yield "# Models\n\nWhat each can do is under [capabilities](capabilities.md).\n"
    rows = list_things("models", [])
    for title, own in (
        ("Available", [r for r in rows if not r["about"].startswith("unavailable")]),
        ("Not to be had", [r for r in rows if r["about"].startswith("unavailable")]),
    ):
        yield f"## {title}\n"
        yield from table(
            MODEL_HEADS, [_model(row, catalog.models[row["name"]].weights) for row in own]
        )
        yield ""
    yield from _adapters(catalog)


def _adapters(catalog: Catalog) -> Iterator[str]:
    """Yield the arguments of the adapter of each model."""
    yield "## Adapters\n\nWhat `--model-args` and the `params` of models.yaml give each.\n"
    named = [spec for name in BY_ADDRESS if (spec := library_model(name, {}))]
    specs = {spec.adapter: spec for spec in [*catalog.models.values(), *named]}
    for adapter, spec in sorted(specs.items()):
        kinds, texts = dict[str, str](), dict[str, str]()
        for key, one in arguments_of(spec).items():
            default = one["default"]
            kinds[key] = one["type"]
            kinds[key] += "" if default == REQUIRED else f" = {default or repr(default)}"
            texts[key] = one.get("about", "")
        kinds = {key: kind for key, kind in kinds.items() if key not in FILLED}
        if kinds:
            yield f"### `{adapter}`\n"
            yield from arguments(kinds, texts)


def _model(row: Mapping[str, Any], weights: str) -> list[str]:
    count, cost = row["parameters"], row["cost"]
    return [
        anchored("model", row["name"]),
        f"{count / 1e6:,.1f} million" if count else "-",
        cell(weights or (cost["licence"] if cost else "not recorded")),
        f"{cost['flops'] / 1e9:.3g}, {cost['image']} pixels" if cost else "-",
        cell(", ".join(row["training_data"])),
        row["released"] or "-",
        cell(row["about"].partition(";")[0]),
    ]


def _capabilities(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the page of capabilities: methods, models that have them, probes that need them."""
    yield "# Capabilities\n\nA model can do what it has the methods for.\n"
    models = list_things("models", [])
    asked = [(_name_of(task.probe).partition(":")[2], needs_of(task.spec) or "") for task in tasks]
    for capability in capabilities_in(capabilities):
        name = capability.__name__
        yield f"## {name}\n\n{prose(capability.__doc__)}\n"
        for method in methods(capability):
            said = " ".join(prose(getattr(capability, method).__doc__).split())
            yield f"- `{method}`: {said}"
        able = [row["name"] for row in models if name in (row["capabilities"] or ())]
        asking = sorted({probe for probe, needs in asked if name in needs})
        yield f"\nModels: {links('model', able)}.\n"
        yield f"Probes that ask for it: {links('probe', asking)}.\n"


def _data_sets(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the page of loaders, with the facts recorded about their data sets."""
    yield "# Data sets\n\nHow to lay out their files is under [data](../data.md).\n"
    for module, rows in _by_module("data"):
        yield f"## `{module}`\n\n{prose(import_module(module).__doc__)}\n"
        known = vars(import_module(module)).items()
        homes = [prose(value) for key, value in known if key.endswith("HOME")]
        yield f"Where to get them: {'; '.join(homes)}.\n" if homes else ""
        for row in rows:
            name, bare = row["name"], row["name"].partition(":")[2]
            yield f"### `{bare}`\n\n{prose(row['docstring'])}\n"
            if one := data_sets().get(name):
                facts = [one.name, f"{one.gigabytes:g}", f"{one.images:,}", one.licence, one.access]
                yield from (*table(DATA_HEADS, [[cell(fact) for fact in facts]]), "")
                yield f"```bibtex\n{one.bibtex}```\n"
            yield from arguments(row["params"], split_args(row["docstring"])[1])
            own = [task.spec.name for task in tasks if task.spec.data["loader"] == name]
            yield f"Tasks: {links('task', own)}.\n"


def _metrics(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the page of metrics, described by rows on shipped boards and by docstrings."""
    yield f"# Metrics\n\n{ABOUT_METRICS}\n"
    scores: dict[str, list[Score]] = defaultdict(list)
    probes: dict[str, dict[str, Task]] = defaultdict(dict)
    for task in tasks:
        bare = _name_of(task.probe).partition(":")[2]
        probes[task.spec.primary["metric"]][bare] = task
        for score in chain(*(row.scores for row in _rows(task.spec.name))):
            scores[score.metric].append(score)
            probes[score.metric][bare] = task
    for name, own in sorted(probes.items()):
        facts = dict.fromkeys(map(_facts, scores[name]))
        yield f"## `{name}`\n\n{'; or '.join(facts) or 'No shipped board has it'}.\n"
        for probe, task in own.items():
            said = " ".join(_sentences(name, task)) or "see there."
            yield f"- {links('probe', [probe])}: {said}"
        yield ""


def _facts(score: Score) -> str:
    """Return a metric's unit, range and direction."""
    low, high = ("no limit" if limit is None else f"{limit:g}" for limit in score.limits)
    better = "higher" if score.higher_is_better else "lower"
    return f"{score.unit}, {low} to {high}, {better} is better"


def _sentences(metric: str, task: Task) -> Iterator[str]:
    """Yield the sentences on a metric in the docstrings of a task's probe and its module."""
    for docstring in (sys.modules[task.probe.__module__].__doc__, task.probe.__doc__):
        for sentence in re.split(
            r"(?<=\.)(?<!al\.)\s+(?=[A-Z`])", " ".join(split_args(docstring)[0].split())
        ):
            # The name of a metric may also be an ordinary word, such as `recall`.
            name = metric if "_" in metric else f"`{metric}`"
            if re.search(rf"(?<!\w){name}(?!\w)", sentence):
                yield prose(sentence)
