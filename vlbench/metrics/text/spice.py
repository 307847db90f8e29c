"""SPICE 1.0 (Anderson et al. 2016), where the parser that it needs has been fetched."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vlbench.errors import DataAbsent, DataError
from vlbench.metrics.statistics import Floats
from vlbench.metrics.text.java import jar, run_java

# What SPICE parses captions with, and pycocoevalcap does not bring along.
PARSER = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


def find_spice(folder: Path | None) -> list[Path]:
    """Return the parser's jars in or below a folder, $VLBENCH_DATA/spice where it is None.

    Raises DataAbsent where one is not there.
    """
    folder = folder or Path(os.environ.get("VLBENCH_DATA", "data")) / "spice"
    found = [next(iter(sorted(folder.rglob(name))), None) for name in PARSER]
    if None in found:
        names = " and ".join(PARSER)
        what = f"the parser of SPICE ({names})"
        get = "stanford-corenlp-full-2015-12-09.zip of the Stanford NLP Group"
        raise DataAbsent(what, get, str(folder))
    return [file for file in found if file]


def spice(pairs: Sequence[tuple[str, Sequence[str]]], *, jars: Sequence[Path]) -> Floats:
    """Return the F of SPICE [N, 1] of captions, each with its references.

    Raises DataError where SPICE fails or leaves out a caption.
    """
    asked = [
        {"image_id": i, "test": caption, "refs": list(references)}
        for i, (caption, references) in enumerate(pairs)
    ]
    classes = os.pathsep.join([jar("spice/spice-1.0.jar"), jar("spice/lib/*"), *map(str, jars)])
    with tempfile.TemporaryDirectory() as folder:
        given, said = Path(folder, "captions.json"), Path(folder, "scores.json")
        given.write_text(json.dumps(asked), "utf-8")
        words = ["-Xmx8G", "-cp", classes, "edu.anu.spice.SpiceScorer", str(given)]
        run_java("SPICE", [*words, "-out", str(said), "-silent"], texts=len(asked))
        rows = json.loads(said.read_text("utf-8"))
    scores = {row["image_id"]: float(row["scores"]["All"]["f"]) for row in rows}
    found = [scores.get(i, math.nan) for i in range(len(asked))]
    if not all(map(math.isfinite, found)):
        finite = sum(map(math.isfinite, found))
        raise DataError(f"SPICE scored {finite} of {len(asked)} captions")
    return np.array(found, np.float64)[:, None]
