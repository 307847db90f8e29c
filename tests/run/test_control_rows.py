"""What knows nothing lies on no shipped board above chance, nor above the best model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from planted_boards import board, measured, score, write
from scipy.stats import norm

from vlbench.boards.board import read_board
from vlbench.metrics.paired import holm
from vlbench.report.comparing import compare_models
from vlbench.report.rows import comparable_sets, ranked

LEADERBOARDS = Path(__file__).resolve().parents[2] / "leaderboards"
BOARDS = {file.stem: read_board(file) for file in sorted(LEADERBOARDS.glob("*.json"))}

# The seeds of the noise were fixed before any board had a row of it.
CONTROLS = ("constant", "random-scores", "random-scores-1", "random-scores-2")

# A row of these is of nine trainings or more, and takes half an hour: one seed of the noise.
COSTLY = ("question_generation_scenes", "caption_patterns_scenes", "caption_cross_scenes")
LEVEL = 0.01

# Values that differ by less are equal but for the order of their sums.
ROUNDING = 1e-7


class Lead(NamedTuple):
    """A control on a board, what it leads, and how likely a lead as large is by chance."""

    control: str
    task: str
    over: str
    p: float


def p_above(one, other, error):
    """Return the one-sided p of a score's lead over a number, with a standard error."""
    lead = (one.value - other) * (1 if one.higher_is_better else -1)
    if lead <= ROUNDING:
        return 1.0
    return float(norm.sf(lead / error)) if error else 0.0


def standard_error(one):
    """Return the standard error of a score, by its interval where it says none."""
    if one.stderr is not None or one.ci95 is None:
        return one.stderr or 0.0
    low, high = one.ci95
    return (high - low) / 2 / norm.ppf(0.975)


def leads_over_chance(made):
    """Yield the leads of controls over the chance level of the primary score, if it has one."""
    for row in made.results:
        own = row.primary_score
        if row.model in CONTROLS and own and own.chance is not None:
            p = p_above(own, own.chance, standard_error(own))
            yield Lead(row.model, made.task, "chance", p)


def leads_over_the_best(made, output):
    """Yield the leads of controls over the best model that a fair comparison has beside them."""
    for rows in comparable_sets(made.results).values():
        scored = [(row.model, one) for row, one in ranked(rows, made.primary) if one]
        models = [pair for pair in scored if pair[0] not in CONTROLS]
        for name, own in scored:
            if name in CONTROLS and models:
                best, other = models[0]
                error = math.hypot(standard_error(own), standard_error(other))
                p = p_above(own, other.value, error)
                if p < 1:
                    # By the items, where the score is a mean of some.
                    pairs = compare_models(output, [name, best], [made.task]).compared
                    p = min((pair.comparison.p / 2 for pair in pairs), default=p)
                yield Lead(name, made.task, best, p)


def significant(leads):
    """Return the leads that stand after Holm's rule over all of them."""
    adjusted = holm([lead.p for lead in leads])
    return [lead for lead, p in zip(leads, adjusted, strict=True) if p < LEVEL]


def test_every_shipped_board_has_rows_of_the_controls():
    for task, made in BOARDS.items():
        if all(row.is_recorded for row in made.results):
            continue  # nobody asked a control without images
        here = {row.model for row in made.results if row.status == "ok"}
        assert set(CONTROLS[:2] if task in COSTLY else CONTROLS) <= here, task


def test_no_control_lies_above_chance():
    leads = [lead for made in BOARDS.values() for lead in leads_over_chance(made)]
    assert leads
    assert significant(leads) == []


def test_no_control_lies_above_the_best_model():
    leads = [lead for made in BOARDS.values() for lead in leads_over_the_best(made, LEADERBOARDS)]
    assert leads
    assert significant(leads) == []


def test_a_lead_over_chance_is_counted_in_standard_errors():
    lower = score(0.48, higher_is_better=False)
    assert p_above(score(0.52), 0.5, 0.01) == pytest.approx(0.02275, abs=1e-5)
    assert p_above(score(0.48), 0.5, 0.01) == 1
    assert p_above(lower, 0.5, 0.01) == pytest.approx(0.02275, abs=1e-5)
    assert p_above(score(0.6), 0.5, 0.0) == 0
    assert standard_error(score(ci95=(0.4, 0.6))) == pytest.approx(0.0510, abs=1e-4)


def test_a_lead_is_judged_among_all_of_them():
    leads = [Lead("constant", f"t{i}", "chance", p) for i, p in enumerate([0.006, 0.5, 1e-5])]
    assert [lead.task for lead in significant(leads)] == ["t2"]
    assert [lead.task for lead in significant(leads[:1])] == ["t0"]


def test_a_control_above_the_models_and_above_chance_is_seen(tmp_path):
    right = {"constant": 90, "a": 60, "b": 70, "random-scores": 50}
    rows = [measured(tmp_path, name, [1] * n + [0] * (100 - n)) for name, n in right.items()]
    about = {"chance": 0.5, "stderr": 0.05}
    rows = [replace(row, scores=[replace(one, **about) for one in row.scores]) for row in rows]
    made = board(*rows)
    write(tmp_path, made)
    assert [lead.control for lead in significant(list(leads_over_chance(made)))] == ["constant"]
    over = list(leads_over_the_best(made, tmp_path))
    assert [(lead.control, lead.over) for lead in over] == [
        ("constant", "b"),
        ("random-scores", "b"),
    ]
    assert [lead.control for lead in significant(over)] == ["constant"]
