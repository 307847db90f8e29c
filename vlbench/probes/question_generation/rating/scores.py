"""Mean ratings per system with intervals, and the agreement of the raters.

Agreement is Krippendorff's alpha for ordinal ratings (Krippendorff 2011, Computing Krippendorff's
Alpha-Reliability).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.data.coco_files import read_text
from vlbench.errors import DataAbsent, DataError, SpecError
from vlbench.metrics.intervals import Estimate, Floats, clustered_ratio, unvaried
from vlbench.probes.question_generation.rating.sheets import (
    ANSWER,
    ANSWERS,
    HUMAN,
    KEY,
    NUMBER,
    QUESTION,
    SCHEMA,
    SHEETS,
    Key,
    Sheet,
    cells_of,
    columns_of,
)
from vlbench.schema import read

# Contains one folder of filled sheets per rater.
FILLED = "filled"

# The least and the greatest rating, and the largest difference.
RANGE = (float(ANSWERS[0]), float(ANSWERS[-1]))
MOST = RANGE[1] - RANGE[0]


class Ratings(NamedTuple):
    """The key, and the answers per sheet: 1 to 5, int [raters, images, systems].

    Images are ordered by id, systems as in the key.
    """

    key: Key
    answers: dict[str, NDArray[np.int64]]


def read_ratings(folder: Path) -> Ratings:
    """Return the answers in a folder of filled sheets.

    Raises DataAbsent for an absent key or sheet and for fewer than two raters, SpecError for an
    invalid key, and DataError, naming sheet and question, for a missing or invalid answer and for
    lines that do not match the key.
    """
    key = read_key(folder / KEY)
    raters = sorted(path for path in folder.glob(f"{FILLED}/*") if path.is_dir())
    if len(raters) < 2:
        what = f"a second rater's folder of sheets ({len(raters)} in {FILLED}/)"
        where = folder / FILLED / "NAME"
        raise DataAbsent(what, "at least two raters (the paper has three)", str(where))
    return Ratings(
        key,
        {
            sheet.name: np.stack(
                [_answers(rater / f"{sheet.name}.csv", sheet, key) for rater in raters]
            )
            for sheet in SHEETS
        },
    )


def read_key(file: Path) -> Key:
    """Return the key of a folder of sheets. Raises DataAbsent, or SpecError for another file."""
    if not file.is_file():
        raise DataAbsent("the key of the sheets", "vlbench leaderboard rate --of", str(file))
    try:
        content = json.loads(read_text(file))
        key: Key = read(Key, content)
    except (ValueError, RecursionError, SpecError) as error:
        raise SpecError(f"{file}: is not a key of sheets: {error}") from error
    if key.schema != SCHEMA or set(key.sheets) != {sheet.name for sheet in SHEETS}:
        raise SpecError(
            f"{file}: is not a key of schema {SCHEMA}, the only schema that this vlbench reads"
        )
    for name, lines in key.sheets.items():
        pairs = sorted((line.image, line.system) for line in lines)
        images = sorted({line.image for line in lines})
        whole = [(image, system) for image in images for system in sorted(key.systems)]
        numbered = {line.number for line in lines} == set(range(1, len(lines) + 1))
        if HUMAN not in key.systems or not pairs or pairs != whole or not numbered:
            raise SpecError(f"{file}: {name} does not have one question per image and system")
    return key


def _answers(file: Path, sheet: Sheet, key: Key) -> NDArray[np.int64]:
    """Return the answers on a sheet, int [images, systems]."""
    import pandas as pd  # noqa: PLC0415 - only who reads sheets waits

    where = f"{FILLED}/{file.parent.name}/{file.name}"
    if not file.is_file():
        raise DataAbsent(f"the sheet {where}", f"rater {file.parent.name}", str(file))
    try:
        table = pd.read_csv(StringIO(read_text(file, where)), dtype=str, keep_default_na=False)
    except ValueError as error:
        raise DataError(f"{where} cannot be read as CSV: {error!s:.200}") from error
    if [*table.columns] != columns_of(sheet):
        names = ", ".join(columns_of(sheet))
        raise DataError(f"{where}: the columns are not {names}; save it as CSV with commas")
    rows = table[(table != "").any(axis=1)].set_index(NUMBER, drop=False)
    lines = key.sheets[sheet.name]
    if sorted(rows.index) != sorted(str(line.number) for line in lines):
        raise DataError(f"{where}: must list each question from 1 to {len(lines)} once")
    images = {name: i for i, name in enumerate(sorted({line.image for line in lines}))}
    ratings = np.zeros((len(images), len(key.systems)), np.int64)
    for line in lines:
        row = rows.loc[str(line.number)]
        if row[QUESTION] != cells_of(sheet, line)[-1]:
            what = f"{row[QUESTION]!r:.60} is not the question of the key"
            raise DataError(f"{where}: question {line.number}, {what}")
        if (answer := str(row[ANSWER]).strip()) not in ANSWERS:
            what = f"the answer is {answer!r:.20}; answer from 1 to 5"
            raise DataError(f"{where}: question {line.number}: {what}")
        ratings[images[line.image], key.systems.index(line.system)] = int(answer)
    return ratings


class MeanRating(NamedTuple):
    """The mean rating of a system's questions on a sheet, and its difference from human questions.

    Intervals come from a jackknife over images with fixed raters; the difference is paired by
    image, and None for human questions.
    """

    sheet: str
    system: str
    mean: Estimate
    difference_from_human: Estimate | None


def mean_ratings(ratings: Ratings) -> list[MeanRating]:
    """Return the mean rating of each system on each sheet."""
    systems = list(ratings.key.systems)
    means = []
    for sheet, answers in ratings.answers.items():
        raters, images, _ = answers.shape
        sums, each = answers.sum(0).astype(np.float64), np.full(images, float(raters))
        human = sums[:, systems.index(HUMAN)]
        for system, totals in zip(systems, sums.T, strict=True):
            less = None if system == HUMAN else _estimate(totals - human, each, -MOST, MOST)
            means.append(MeanRating(sheet, system, _estimate(totals, each, *RANGE), less))
    return means


def _estimate(sums: Floats, each: Floats, least: float, greatest: float) -> Estimate:
    """Return a mean rating, or a difference of two, from sums over the raters per image."""
    estimate = clustered_ratio(sums, each)
    if estimate.stderr:
        low, high = estimate.ci95
        return estimate._replace(ci95=(max(low, least), min(high, greatest)))
    return unvaried(estimate.value, len(each), least, greatest)


def agreement(answers: NDArray[np.int64]) -> float | None:
    """Return the ordinal alpha of answers [raters, ...]: 1 is full agreement, 0 is chance.

    None if all answers are equal: alpha is undefined without variation.
    """
    units = answers.reshape(len(answers), -1).T
    scale = np.array([int(answer) for answer in ANSWERS])
    return ordinal_alpha((units[:, :, None] == scale).sum(1))


def ordinal_alpha(counts: NDArray[np.int64]) -> float | None:
    """Return Krippendorff's alpha from the number of raters per unit and (ordered) value.

    `counts` is [units, values]; units with fewer than two ratings are left out. Alpha is 1 - (n -
    1) sum(o_ck d_ck) / sum(n_c n_k d_ck): o_ck counts the pairs of ratings of a unit, divided by
    its number of ratings minus 1; n_c is the sum of row c, n is the sum over all rows, and d_ck is
    the square of n_c / 2 + n_k / 2 + all n between c and k. None if all ratings are equal.
    """
    counts = counts[counts.sum(1) > 1]
    weighted = counts / (counts.sum(1, keepdims=True) - 1)
    coincidences = weighted.T @ counts - np.diag(weighted.sum(0))
    totals = coincidences.sum(0)
    ranks = totals.cumsum() - totals / 2
    distances = (ranks[:, None] - ranks) ** 2
    expected = totals @ distances @ totals
    if expected == 0:
        return None
    return float(1 - (totals.sum() - 1) * (coincidences * distances).sum() / expected)


def as_json(ratings: Ratings) -> Mapping[str, Any]:
    """Return all ratings' statistics as plain values for JSON."""
    raters, images, _ = next(iter(ratings.answers.values())).shape
    key = ratings.key
    return {
        "task": key.task,
        "model": key.model,
        "questions": key.questions,
        "raters": raters,
        "images": images,
        "agreement": {name: agreement(answers) for name, answers in ratings.answers.items()},
        "means": [
            {
                "sheet": rating.sheet,
                "system": rating.system,
                **_plain(rating.mean),
                "difference_from_human": rating.difference_from_human
                and _plain(rating.difference_from_human),
            }
            for rating in mean_ratings(ratings)
        ],
    }


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "stderr": estimate.stderr, "ci95": list(estimate.ci95)}
