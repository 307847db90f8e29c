"""`vlbench similarity`: how alike two models' vectors of the same images are."""

from __future__ import annotations

import argparse
import json

from vlbench.commands import Answer
from vlbench.commands.parser import add_extraction, add_json, options_of, positive
from vlbench.report.table import interval
from vlbench.report.texts import number, plain_table, score_name
from vlbench.results import score_row


def add_options(similarity: argparse.ArgumentParser) -> None:
    """Add the options for the models and the images."""
    similarity.add_argument("model", metavar="A")
    similarity.add_argument("companion", metavar="B")
    similarity.add_argument("source", metavar="TASK|FOLDER")
    similarity.add_argument("--split", default="test", help="of a task's data (default: test)")
    similarity.add_argument(
        "-k", type=positive, default=10, metavar="N", help="nearest neighbours (default: 10)"
    )
    similarity.add_argument(
        "--limit", type=positive, metavar="N", help="N rows of a task's split, a seeded sample"
    )
    add_extraction(similarity)
    add_json(similarity)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return debiased CKA, the correlation of distances and mutual neighbours, as a table."""
    from vlbench.api import measure_similarity
    from vlbench.engine.progress import Bar
    from vlbench.system.console import open_console

    options = options_of(arguments)
    with Bar(open_console()) as bar:
        scores = measure_similarity(
            arguments.model,
            arguments.companion,
            arguments.source,
            options,
            split=arguments.split,
            k=arguments.k,
            progress=bar,
        )
    if arguments.json:
        return Answer([json.dumps([score_row(score) for score in scores], indent=1)])
    title = f"{arguments.model} and {arguments.companion} on {arguments.source}, n {scores[0].n:,}"
    columns = ["score", "value", "95 % interval", "chance"]
    rows = []
    for score in scores:
        value, chance = (number(each, score.unit) for each in (score.value, score.chance))
        rows.append([score_name(score.metric, score.at), value, interval(score), chance])
    return Answer([plain_table(columns, rows, title, numbers=True)])
