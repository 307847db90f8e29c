"""`vlbench rdm`: write a model's matrix of distances between classes, square and with names."""

from __future__ import annotations

import argparse

from vlbench.commands import Answer
from vlbench.commands.parser import add_extraction, add_file, options_of
from vlbench.system.files import write_whole


def add_options(rdm: argparse.ArgumentParser) -> None:
    """Add the options for the model, the task and the file."""
    rdm.add_argument("model", metavar="MODEL")
    rdm.add_argument(
        "source",
        metavar="TASK|FOLDER",
        help="a task of rsa or rsa_text, such as rsa_scenes; images with one folder per class",
    )
    add_file(rdm, ".csv", ".npz")
    add_extraction(rdm)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the file, and return its size in words."""
    from vlbench.api import extract_rdm
    from vlbench.engine.progress import Bar
    from vlbench.system.console import open_console

    with Bar(open_console()) as bar:
        rdm = extract_rdm(arguments.model, arguments.source, options_of(arguments), progress=bar)
    if arguments.file.suffix == ".csv":
        import csv
        from io import StringIO

        text = StringIO()
        rows = zip(rdm.names, rdm.distances.tolist(), strict=True)
        csv.writer(text).writerows([["", *rdm.names], *([name, *row] for name, row in rows)])
        content = text.getvalue().encode()
    else:
        from io import BytesIO

        import numpy as np

        packed = BytesIO()
        np.savez(packed, names=rdm.names, distances=rdm.distances, categories=rdm.categories)
        content = packed.getvalue()
    write_whole(arguments.file, content)
    n = len(rdm.names)
    return Answer([f"{n} x {n} distances in {arguments.file}"])
