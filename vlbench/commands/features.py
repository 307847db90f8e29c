"""`vlbench features`: write a model's features of images or texts."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from vlbench.commands import Answer
from vlbench.commands.parser import add_extraction, add_file, options_of, positive
from vlbench.system.files import write_whole

if TYPE_CHECKING:  # imports torch
    from vlbench.run.extraction import Features


def add_options(features: argparse.ArgumentParser) -> None:
    """Add the options for the model, its input, and the file."""
    features.add_argument("model", metavar="MODEL")
    features.add_argument("source", metavar="TASK|FOLDER")
    add_file(features, ".npz", ".parquet", ".safetensors")
    features.add_argument("--split", default="test", help="of a task's data (default: test)")
    features.add_argument(
        "--column", default="image", help="of a task's data, such as caption (default: image)"
    )
    features.add_argument(
        "--layers", metavar="all|NAME[,...]", help="layers of the model (default: its output)"
    )
    features.add_argument(
        "--limit", type=positive, metavar="N", help="N rows of a task's split, a seeded sample"
    )
    add_extraction(features)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the file, and return its content in words."""
    from vlbench.api import extract_features
    from vlbench.engine.progress import Bar
    from vlbench.system.console import open_console

    with Bar(open_console()) as bar:
        features = extract_features(
            arguments.model,
            arguments.source,
            options_of(arguments),
            split=arguments.split,
            column=arguments.column,
            layers=arguments.layers.split(",") if arguments.layers else (),
            progress=bar,
        )
    write_whole(arguments.file, content_of(features, arguments.file.suffix))
    widths = " + ".join(str(array.shape[1]) for array in arrays_of(features).values())
    held = ", ".join(["ids", *arrays_of(features), *(["labels"] if features.labels else [])])
    return Answer([f"{len(features.ids)} x {widths} numbers in {arguments.file} ({held})"])


def arrays_of(features: Features) -> dict[str, Any]:
    """Return the arrays of features by their names in a file: the layers, or `vectors`."""
    return dict(features.layers) or {"vectors": features.vectors}


def content_of(features: Features, suffix: str) -> bytes:
    """Return features as the content of a file: `ids`, `vectors`, and `labels` if there are any.

    Several layers are stored under their names instead of `vectors`. A safetensors file contains
    only tensors, so ids and labels are JSON texts in its metadata.
    """
    texts = {"ids": features.ids} | ({"labels": features.labels} if features.labels else {})
    if suffix == ".safetensors":
        from safetensors.numpy import save

        metadata = {name: json.dumps(values) for name, values in texts.items()}
        return save(arrays_of(features), metadata)
    from io import BytesIO

    content = BytesIO()
    if suffix == ".npz":
        import numpy as np

        arrays: dict[str, Any] = {name: np.array(values) for name, values in texts.items()}
        np.savez(content, **arrays_of(features), **arrays)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        columns = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
            for name, array in arrays_of(features).items()
        }
        parquet.write_table(pa.table({**texts, **columns}), content)
    return content.getvalue()
