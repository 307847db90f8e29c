import numpy as np
import pytest

from vlbench.metrics.corpus import CORPORA

# Three captions with two references each, counted and scored by pycocoevalcap 1.2, whose second
# has no 4-gram and whose first is as near to a reference of 10 words as to one of 8.
FIRST, SECOND = [9, 7, 4, 3, 9, 8, 7, 6, 9, 8], [3, 2, 0, 0, 3, 2, 1, 0, 3, 5]
COUNTED = np.array([FIRST, SECOND, [7, 6, 3, 1, 9, 8, 7, 6, 9, 9]])
SCORED = [0.8626877209576516, 0.8279342339121732, 0.6731408147296473, 0.5579932648993909]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_is_that_of_coco_caption(n):
    assert CORPORA[f"bleu_{n}"].formula(COUNTED.sum(0)) == pytest.approx(SCORED[n - 1], rel=1e-12)


def test_short_captions_are_punished_and_long_ones_are_not():
    # 4 of 4 words right, of a reference of 8: exp(1 - 8 / 4)
    short, long = [4, 3, 2, 1, 4, 3, 2, 1, 4, 8], [4, 3, 2, 1, 4, 3, 2, 1, 4, 2]
    found = CORPORA["bleu_1"].formula(np.array([short, long]))
    assert found == pytest.approx([np.exp(-1), 1])


def test_the_example_of_the_paper_has_two_of_seven_words_right():
    found = CORPORA["bleu_1"].formula(np.array([2, 0, 0, 0, 7, 6, 5, 4, 7, 7.0]))
    assert found == pytest.approx(2 / 7)


# Sums over 150 real captions as METEOR's jar says them, with matches of every kind; and its score.
METEOR = [1489, 1535, 636, 718, 297, 297, 372, 372, 5, 5, 0, 0, 16, 17, 1, 0, 21, 24, 16, 9]
METEOR += [424, 728, 724]
METEOR_SCORED = 0.19782099253991667


def test_meteor_is_that_of_its_jar():
    found = CORPORA["meteor"].formula(np.array(METEOR, float))
    assert found == pytest.approx(METEOR_SCORED, rel=1e-12)


def test_meteor_by_hand():
    # 4 words of 5, 2 and 3 of them function words, all 4 matched in 2 pieces: P = 1, R = 8 / 9,
    # their mean 1 / (0.15 / P + 0.85 / R), the penalty 0.6 (2 / 4)^0.2.
    sums = np.array([4, 5, 2, 3, 2, 2, 2, 2, *[0] * 12, 2, 4, 4.0])
    wanted = (1 - 0.6 * 0.5**0.2) / (0.15 + 0.85 * 9 / 8)
    assert CORPORA["meteor"].formula(sums) == pytest.approx(wanted)


@pytest.mark.parametrize("lengths", [(0, 0), (0, 3), (3, 3)])
def test_nothing_matched_has_no_meteor(lengths):
    assert CORPORA["meteor"].formula(np.array([*lengths, *[0] * 21], float)) == 0


def test_a_fair_coin_has_a_perplexity_of_two():
    sums = np.array([[8 * np.log10(0.5), 8, 3], [np.log10(0.5), 1, 0]])
    assert CORPORA["perplexity"].formula(sums) == pytest.approx([2, 2])


@pytest.mark.parametrize(("name", "size"), [("bleu_1", 10), ("meteor", 23), ("perplexity", 3)])
def test_each_statistic_of_a_score_is_named(name, size):
    assert len(CORPORA[name].statistics) == len(set(CORPORA[name].statistics)) == size
