"""Tests of the model and the task of this source; pytest runs them."""

from pathlib import Path

import vlbench

SOURCE = Path(__file__).resolve().parents[1]


def test_the_mean_colour_tells_shapes_apart_that_have_a_colour_each() -> None:
    (result,) = vlbench.evaluate("mean-colour", "few_shot_mine", include_path=SOURCE)
    assert result.status == "ok", result.reason
    accuracy = {one.at["shots"]: one.value for one in result.scores if one.metric == "accuracy"}
    assert accuracy == {1: 1.0, 2: 1.0}
