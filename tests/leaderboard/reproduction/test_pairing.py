import numpy as np
import pytest
from planted_boards import measured, result, score
from planted_claims import claim

from vlbench.leaderboard.reproduction.pairing import Pairing, pair

A_OVER_B = "greater: [{model: a}, {model: b}]"


@pytest.fixture
def rows(tmp_path):
    credit = np.random.default_rng(0).random((2, 400)) < [[0.8], [0.7]]
    return {("t", m): measured(tmp_path, m, c) for m, c in zip("ab", credit, strict=True)}


def paired(folder, entry, rows):
    (comparison,) = claim(folder, entry).comparisons
    return pair(comparison, rows, folder)


def test_the_interval_is_near_that_of_the_mean_of_paired_differences(tmp_path, rows):
    a, b = (np.random.default_rng(0).random((2, 400)) < [[0.8], [0.7]]).astype(float)
    centre, half = (a - b).mean(), 1.96 * (a - b).std(ddof=1) / 400**0.5
    low, high = paired(tmp_path, A_OVER_B, rows).ci95
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=0.01)


@pytest.mark.parametrize(
    "entry",
    [
        "model: a, within: [0, 1]",
        "model: a, greater: [{}, {floor: chance}]",
        "greater: [{model: [a, b]}, {model: b}]",
        "model: a, greater: [{}, {at: {shots: 1}}]",
        "model: a, greater: [{}, {task: u}]",
    ],
)
def test_other_comparisons_are_not_paired(tmp_path, rows, entry):
    assert paired(tmp_path, entry, rows) == Pairing()


def test_a_row_without_items_is_not_paired(tmp_path, rows):
    rows["t", "b"] = result("b", score())
    assert paired(tmp_path, A_OVER_B, rows) == Pairing()


def test_items_that_changed_since_their_row_was_written_are_told(tmp_path, rows):
    (tmp_path / rows["t", "a"].artifacts["items"]["file"]).write_bytes(b"other")
    found = paired(tmp_path, A_OVER_B, rows)
    assert found.ci95 is None
    assert "is not the file that its row was written with" in found.why
