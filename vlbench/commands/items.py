"""`vlbench items`: list a model's answer to each example of a task, and the right answer.

With `--against`, only the examples that the model gets right more often than another model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlbench.boards.items import Item, best_first, joined, row_items, unweighted, worst
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.library_names import row_name
from vlbench.commands import Answer
from vlbench.commands.parser import (
    add_data,
    add_data_name,
    add_images,
    add_json,
    add_output,
    add_params,
    add_trust,
    set_up_for_data,
    task_params,
)
from vlbench.errors import UnknownNameError, counted, printed, unknown
from vlbench.report.data_sets import named_row
from vlbench.report.rows import folder_of, lent_note
from vlbench.report.texts import plain_table, score_name
from vlbench.results import Result, Score, matching
from vlbench.system.files import safe_name, write_whole

# The most characters of a reply in the table.
MOST_SHOWN = 80

# The note on a row of vlbench 1.0 with a recording: items had no texts.
NUMBERS_ONLY = (
    "{}: an older version made this row; its predictions are numbers of options, 1 for the right "
    "text, and none if the replies to an item differ; run it again to have the texts"
)


def add_options(items: argparse.ArgumentParser) -> None:
    """Add the options for the row, the score, and the selection of items."""
    items.add_argument("task", metavar="TASK")
    items.add_argument("model", type=row_name, metavar="MODEL")
    items.add_argument("--metric", help="the score's name (default: the task's primary score)")
    items.add_argument("--at", type=_conditions, metavar="K=V,...", help="the score's conditions")
    items.add_argument(
        "--wrong", action="store_true", help="items without full credit, worst first"
    )
    items.add_argument(
        "--against",
        type=row_name,
        metavar="OTHER",
        help="items that MODEL gets right more often than OTHER",
    )
    items.add_argument(
        "--show",
        action="store_true",
        help="write a viewer of the items with their images, one HTML file",
    )
    add_params(items)
    add_data_name(items)
    add_json(items)
    add_data(items)
    add_images(items)
    add_trust(items)
    add_output(items)


def _conditions(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in text.split(",") if word]
    if not all(equals for _, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"wants K=V,..., not '{text:.40}'")
    return {key: value for key, _, value in pairs}


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the items of a row as a table or JSON; with `show`, write a viewer."""
    notes: list[str] = []
    folder, row = _row(arguments, arguments.model, notes)
    metric = arguments.metric or unweighted(row)
    at = _at(row, metric, arguments.at)
    score, items = _items(folder, row, metric, at)
    if arguments.against:
        return _beside_another(row, score, items, arguments, notes)
    if row.is_recorded and not any(item.target for item in items):
        notes.append(NUMBERS_ONLY.format(row.model))
    wrong = worst(items, higher_is_better=not score.lower_is_better)
    selected = wrong if arguments.wrong else items
    title = printed(
        f"{_title(row, score)}, {len(wrong):,} of {len(items):,} items wrong or partly wrong"
    )
    if arguments.json:
        return Answer([json.dumps([item.plain for item in selected], indent=1)], notes)
    if arguments.show:
        line = _write_viewer(title, [row.model], [[item] for item in selected], score, arguments)
        return Answer([title, line], notes)
    columns = ["item", "credit", "prediction", "target"]
    rows = [[item.id, f"{item.credit:.3g}", _prediction(item), item.target] for item in selected]
    if any(item.replies for item in selected):
        columns.append("reply")
        rows = [[*row, _reply(item)] for row, item in zip(rows, selected, strict=True)]
    return Answer([title, plain_table(columns, rows)], notes)


def _row(arguments: argparse.Namespace, model: str, notes: list[str]) -> tuple[Path, Result]:
    """Return a model's row and its folder of boards; add a note if that is not the output.

    Raises UnknownNameError if there is no such row.
    """
    folder = folder_of(arguments.output, model, arguments.task)
    notes += [lent_note(model)] if folder != arguments.output else []
    return folder, named_row(
        folder, arguments.task, model, arguments.data, task_params(arguments.param)
    )


def _items(
    folder: Path, row: Result, metric: str, at: Mapping[str, Any]
) -> tuple[Score, list[Item]]:
    """Return a score of a row and its items. Raises UnknownNameError if the score has no items."""
    items = row_items(folder, row, metric, at)
    (score,) = matching(row.scores, {"metric": metric, "at": at})
    return score, items


def _beside_another(
    row: Result,
    score: Score,
    items: Sequence[Item],
    arguments: argparse.Namespace,
    notes: list[str],
) -> Answer:
    """Return the items that a model gets right more often than another, the clearest first."""
    other = arguments.against
    folder, rival = _row(arguments, other, notes)
    _, theirs = _items(folder, rival, score.metric, score.at)
    higher = not score.lower_is_better
    ranked = best_first(joined(row, rival, items, theirs), higher_is_better=higher)
    left = {i.id for i in (worst(items, higher_is_better=higher) if arguments.wrong else items)}
    ranked = [pair for pair in ranked if pair[0].id in left]
    pairs = [(a, b) for a, b in ranked if a.credit != b.credit and (a.credit > b.credit) == higher]
    without = " without full credit" if arguments.wrong else ""
    of = f"{len(pairs):,} of {counted(len(ranked), 'item')}{without}"
    better = "higher" if score.higher_is_better is None else "better"
    title = printed(f"{_title(row, score)}: {better} than {other} at {of}")
    if arguments.json:
        lines = [{row.model: a.plain, other: b.plain} for a, b in pairs]
        return Answer([json.dumps(lines, indent=1)], notes)
    if arguments.show:
        line = _write_viewer(title, [row.model, other], ranked, score, arguments)
        return Answer([title, line], notes)
    columns = ["item", "credit", "other's", row.model, other, "target"]
    cells = [
        [a.id, f"{a.credit:.3g}", f"{b.credit:.3g}", _prediction(a), _prediction(b), a.target]
        for a, b in pairs
    ]
    return Answer([title, plain_table(columns, cells)], notes)


def _at(row: Result, metric: str, words: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the requested conditions; by default those of the primary score, or else the first."""
    choices = [dict(score.at) for score in row.scores if score.metric == metric]
    if not choices:
        raise unknown("score", metric, {score.metric for score in row.scores})
    if words is None:
        primary = dict(row.primary["at"])
        return primary if primary in choices else choices[0]
    same = [at for at in choices if {k: str(v) for k, v in at.items()} == words]
    if not same:
        conditions = "; ".join(",".join(f"{k}={v}" for k, v in at.items()) for at in choices)
        raise UnknownNameError(f"{metric} has no such conditions; give one of {conditions}")
    return same[0]


def _title(row: Result, score: Score) -> str:
    lower = ", lower is better" if score.lower_is_better else ""
    return f"{row.model} on {row.task}: {score_name(score.metric, score.at)}{lower}"


def _prediction(item: Item) -> str:
    if item.target and not item.prediction:
        return "no single answer"
    often = f" ({item.said} of {item.trials})" if item.trials > 1 and item.said else ""
    return f"{item.prediction}{often}"


def _reply(item: Item) -> str:
    """Return the start of a reply, an unread one if there is any, and why it is unread."""
    unread = [reply for reply in item.replies if reply.unread]
    for reply in (unread or item.replies)[:1]:
        text = " ".join(reply.reply.split())
        start = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
        return f"{start} ({reply.unread})" if reply.unread else start
    return ""


def _write_viewer(
    title: str,
    models: Sequence[str],
    examples: Sequence[Sequence[Item]],
    score: Score,
    arguments: argparse.Namespace,
) -> str:
    """Write the items of models for each example with its image; return a message."""
    if not examples:
        return "there is nothing to show"
    from vlbench.api import item_viewer

    task, catalog = arguments.task, load_catalog(arguments.include_path)
    with set_up_for_data(arguments) as options:
        page = item_viewer(title, models, examples, score, task, catalog, options)
    file = Path(f"{task}-{'-against-'.join(map(safe_name, models))}.html")
    write_whole(file, page)
    size = f"{len(page) / 1e6:.1f} MB"
    return f"wrote {file}: {counted(len(examples), 'item')}, {size}; open it in a browser"
