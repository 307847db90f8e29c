import numpy as np
import pytest
from judged import fill_all, filled, sheets

from vlbench.leaderboard.judgement.reading import read_judgements
from vlbench.leaderboard.judgement.scores import agreement, as_json, ordinal_alpha, ratings_of


@pytest.mark.parametrize(
    ("answers", "alpha"),
    [
        ([[1, 2, 5], [1, 2, 5]], 1.0),
        # Coincidences 11, 22: 2 each, 12 and 21: 1 each. 1 - (6 - 1) * 1 / (3 * 3).
        ([[1, 2, 1], [1, 2, 2]], 4 / 9),
        # Ranks put 1 and 3 as far apart as 5 answers, squared: 1 - 2 * 25 / (600 / 7).
        ([[1, 2, 3, 1], [1, 2, 3, 3]], 5 / 12),
    ],
)
def test_agreement_is_as_worked_out_by_hand(answers, alpha):
    assert agreement(np.array(answers)) == pytest.approx(alpha)


def test_agreement_is_krippendorffs_where_ratings_are_missing():
    # Krippendorff's four observers and twelve units; 0 is missing. Alpha is .815 (Krippendorff
    # 2011, section D).
    rated = ["1101", "2232", "3333", "3333", "2222", "1234"]
    rated += ["4444", "1121", "2222", "0555", "0011", "0030"]
    counts = np.array([[unit.count(value) for value in "12345"] for unit in rated])
    assert ordinal_alpha(counts) == pytest.approx(0.815, abs=5e-4)


def test_agreement_on_two_values_is_krippendorffs():
    # Two observers and ten units of two values; alpha is .095 (Krippendorff 2011, section A).
    meg, owen = [1, 2, 1, 1, 1, 1, 1, 1, 2, 1], [2, 2, 2, 1, 1, 2, 1, 1, 1, 1]
    assert agreement(np.array([meg, owen])) == pytest.approx(0.095, abs=5e-4)


def test_agreement_ignores_values_that_nobody_gives():
    # Values 1 and 5 are neighbours where 2, 3 and 4 are never given: again 4 / 9.
    assert agreement(np.array([[1, 5, 1], [1, 5, 5]])) == pytest.approx(4 / 9)


def test_answers_by_chance_do_not_agree():
    answers = np.random.default_rng(0).integers(1, 6, (3, 50, 4))
    assert agreement(answers) == pytest.approx(0, abs=0.1)


def test_people_who_always_say_the_same_have_no_agreement():
    assert agreement(np.full((3, 4, 4), 5)) is None


def test_a_mean_has_an_interval_and_stands_beside_peoples(tmp_path):
    folder = fill_all(sheets(tmp_path, count=20))

    def answer(cells):
        is_human, image = (
            cells["question"].startswith("who"),
            int(cells["question"][:-1].split()[-1]),
        )
        return str(5 if is_human else 2 + 2 * (image % 2))

    filled(folder, "readability", answer)
    found = {(one.sheet, one.system): one for one in ratings_of(read_judgements(folder))}
    assert len(found) == 12
    first = found["readability", "1"]
    assert first.mean.value == pytest.approx(3)
    # Of 20 images half have a 2 and half a 4: a standard error of 1 / sqrt(20).
    assert first.mean.stderr == pytest.approx(20**-0.5, rel=0.1)
    assert first.mean.ci95 == pytest.approx((3 - 1.96 * 20**-0.5, 3 + 1.96 * 20**-0.5), abs=0.1)
    assert first.difference_from_human.value == pytest.approx(-2)
    assert first.difference_from_human.ci95[1] < 0
    assert found["readability", "human"].mean.ci95 == (5, 5)
    assert found["readability", "human"].difference_from_human is None
    assert found["image_relevance", "2"].difference_from_human.value == 0


def test_all_that_people_said_is_plain_values(tmp_path):
    content = as_json(read_judgements(fill_all(sheets(tmp_path))))
    assert (content["raters"], content["images"], content["model"]) == (3, 4, "m")
    assert content["agreement"] == dict.fromkeys(
        ["readability", "caption_relevance", "image_relevance"]
    )
    assert content["questions"].startswith("sha256:")
    assert len(content["means"]) == 12
