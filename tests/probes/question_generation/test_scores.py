import numpy as np
import pytest

from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.items import Examples
from vlbench.probes.question_generation.measures import Measured, System
from vlbench.probes.question_generation.scores import (
    estimate,
    gain,
    items_of,
    metric_items,
    scores_of,
)


def measured(step="2", floor="", **statistics):
    return Measured(
        System(step, floor, []), {k: np.array(v)[..., None] for k, v in statistics.items()}
    )


def test_a_gain_is_paired_by_image_and_seed():
    one = measured(cider=[[3.0, 5.0, 1.0], [2.0, 4.0, 0.0]])
    other = measured(floor="another_image", cider=[[1.0, 3.0, -1.0], [0.0, 2.0, -2.0]])
    score = gain(one, other)
    assert (score.value, score.chance, score.draws) == (2.0, 0.0, [2.0, 2.0])
    assert score.ci95 == (2.0, 2.0)


def test_floors_of_all_steps_and_of_one_stand_beside_its_score():
    systems = [
        measured("", "most_frequent_question", cider=[[0.5, 0.7]]),
        measured("1", cider=[[1.0, 2.0]]),
        measured("2", cider=[[2.0, 4.0]]),
        measured("2", "another_image", cider=[[1.0, 1.0]]),
    ]
    found = {(s.metric, s.at["step"]): s for s in scores_of(systems)}
    assert found["cider", "1"].floors == {"most_frequent_question": pytest.approx(0.6)}
    assert found["cider", "2"].floors == {
        "most_frequent_question": pytest.approx(0.6),
        "another_image": 1.0,
    }
    assert found["cider_gain_from_image", "2"].value == 2.0
    assert ("cider_gain_from_image", "1") not in found


def test_the_error_over_seeds_adds_that_of_seeds_and_that_of_images():
    rng = np.random.default_rng(0)
    images, seeds = rng.normal(2, 1, 400), np.array([-0.3, 0.0, 0.3])
    statistics = (images + seeds[:, None])[..., None]
    found = estimate("cider", statistics)
    expected = np.sqrt(0.09 / 3 + images.var(ddof=1) / 400)
    assert found.value == pytest.approx(images.mean())
    assert found.stderr == pytest.approx(expected, rel=0.05)
    # Nearly all the variance is that of three seeds: t with about two degrees of freedom.
    assert (found.ci95[1] - found.value) / found.stderr == pytest.approx(3.6, abs=0.7)


def test_shares_of_one_seed_have_wilson_s_interval():
    found = estimate("noun_accuracy", np.array([[1.0] * 9 + [0.0]])[..., None])
    assert found.value == pytest.approx(0.9)
    assert found.ci95 == pytest.approx((0.596, 0.982), abs=0.001)


def test_corpus_scores_of_seeds_are_of_their_questions_together():
    statistics = np.abs(np.random.default_rng(1).normal(5, 1, (2, 6, 10)))
    statistics[..., 4:8] += statistics[..., :4]
    found = estimate("bleu_2", statistics)
    together = statistics.sum((0, 1))
    assert found.value == pytest.approx(float(CORPORA["bleu_2"].formula(together)))
    examples = Examples(list("abcdef"), ["x"] * 6)
    table = metric_items(examples, "bleu_2", {"step": "2"}, statistics)
    assert np.allclose(np.array(table["statistics"].to_pylist()).sum(0), together)
    assert table["trial"].null_count == 6


def test_people_have_scores_without_floors():
    systems = [
        measured("", "most_frequent_question", cider=[[0.5]]),
        measured("people", cider=[[2.0, 1.0]]),
    ]
    (score,) = scores_of(systems)
    assert (score.at, score.value, score.floors) == ({"step": "people"}, 1.5, {})


def test_items_of_floors_and_people_are_left_out():
    systems = [measured("2", cider=[[1.0]]), measured("2", "another_image", cider=[[1.0]])]
    systems.append(measured("people", cider=[[1.0]]))
    assert len(items_of(Examples(["a"], ["x"]), systems)) == 1
