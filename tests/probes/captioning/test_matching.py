import numpy as np
import pytest
from caption_world import Likes, captioned, constant, nouns_of_the_image, things

from vlbench.asking.pair_scores import PairScorer
from vlbench.engine import Engine
from vlbench.metrics.intervals import unvaried
from vlbench.metrics.items import Examples
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.caption_sets import Subjects, references_of
from vlbench.probes.captioning.matching import matching_part, measured_preference, preference

EXAMPLES = Examples(["a", "b"], ["1", "2"])


def test_a_preference_has_chance_one_half_and_says_what_was_chosen():
    chosen = preference(np.array([[2.0, 1.0]]), np.array([[1.0, 1.0], [3.0, 0.0]]))
    measured = measured_preference("prefers", {}, chosen, EXAMPLES, ("mine", "yours"))
    score = measured.score
    assert (score.value, score.chance, score.draws, score.n) == (0.625, 0.5, [0.75, 0.5], 2)
    rows = measured.items.to_pylist()
    assert [row["prediction"] for row in rows] == ["mine", None, "yours", "mine"]
    assert {row["target"] for row in rows} == {"mine"}


def test_the_higher_score_is_preferred_and_ties_and_a_saturated_head_share():
    found = preference(np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 2.0, 4.0], [1.0, 1.0, 1.0]]))
    assert found.credit.tolist() == [[1.0, 0.5, 0.0], [0.5, 1.0, 1.0]]
    assert found.chosen.tolist() == [[0, -1, 1], [-1, 0, 0]]
    assert found.tied.sum() == 2
    assert preference(np.array([[0.9999999]]), np.array([[1.0]])).tied.sum() == 1


def test_nan_is_no_win():
    with pytest.raises(ValueError, match="not finite"):
        preference(np.array([[np.nan]]), np.array([[0.0]]))


DATA = captioned()
ROWS = DATA.splits["test"]
TEXT = TextScorer(DATA.splits["train"]["captions"])


def matched(rule, *favourites):
    """Return the part where the captions before name one thing, favourites are as given."""
    n = len(ROWS)
    before = [f"a {things(i)[0]}" for i in range(n)]
    told = [[one(i) for i in range(n)] for one in favourites]
    subjects = Subjects(ROWS, references_of(ROWS), before, told, before_last=told)
    scorer = PairScorer(Likes(rule), ROWS, Engine.for_tests())
    found, scores = matching_part(scorer, subjects, TEXT, seed=0)
    values = {(score.metric, *score.at.values()): score for score in found.scores}
    return found, values, scores


def everything(number):
    return "a {} a {}".format(*things(number))


def test_a_model_that_cannot_be_led_astray_prefers_the_reference():
    _, values, _ = matched(nouns_of_the_image, "there is a image".format)
    assert values["prefers_reference",].value == 1.0
    assert values["match_score", "favourites"].value == 0.0
    assert values["match_score", "ce"].value == 0.5
    assert values["match_score", "reference"].value == 1.0
    assert values["match_score", "reference_of_another_image"].value < 0.5
    assert values["match_score_gain",].value == -0.5


def test_under_a_constant_model_every_share_is_at_chance_and_nothing_changes():
    found, values, _ = matched(constant, lambda i: f"a {things(i)[0]}")
    score = values["prefers_reference",]
    assert score.value == score.chance == score.floors["another_image"] == 0.5
    of_none = unvaried(0.0, len(ROWS), -1.0, 1.0).ci95
    assert values["prefers_reference_gain_from_image",].ci95 == of_none
    assert values["prefers_reference_tied",].value == 1.0
    assert values["match_score_gain",].value == 0.0
    assert values["match_score_gain",].ci95 == (0.0, 0.0)
    n = len(ROWS)
    assert f"prefers_reference: the scores are tied in {n} of {n} choices" in found.notes[0]
    assert found.counts == {"ties": len(ROWS), "choices": len(ROWS), "collapsed_runs": 0}


def test_what_is_preferred_for_another_image_too_is_no_matter_of_the_image():
    # Likes short captions, of whatever image.
    _, values, _ = matched(lambda _, words: -len(words), everything)
    assert values["prefers_reference",].value == 0.0
    assert values["prefers_reference",].floors["another_image"] == 0.0
    assert values["prefers_reference_gain_from_image",].value == 0.0


def test_each_seed_is_a_draw_and_the_gain_from_the_image_is_paired_by_image_over_the_seeds():
    _, values, scores = matched(nouns_of_the_image, "there is a image".format, everything)
    own, gain = values["prefers_reference",], values["prefers_reference_gain_from_image",]
    assert (own.value, own.draws, own.n) == (0.75, [1.0, 0.5], len(ROWS))
    assert scores["favourites"].shape == (2, len(ROWS))
    assert gain.value == pytest.approx(own.value - own.floors["another_image"])
    assert (gain.chance, gain.range, gain.n) == (0.0, (-1.0, 1.0), len(ROWS))
    assert np.mean(gain.draws) == pytest.approx(gain.value)
    assert gain.ci95[0] < gain.value < gain.ci95[1]


def test_a_trigram_model_tells_blind_what_is_not_said_by_people():
    _, values, _ = matched(constant, lambda _: "a a a a a")
    assert values["prefers_reference",].floors["text_only"] == 1.0
    _, values, _ = matched(constant, lambda i: f"a {things(i)[0]} and a {things(i)[1]}")
    assert values["prefers_reference",].floors["text_only"] == 0.5
