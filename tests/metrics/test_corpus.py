import numpy as np
import pytest

from vlbench.metrics.corpus import CORPORA

# Three captions with two references each, counted and scored by pycocoevalcap 1.2, whose second
# has no 4-gram and whose first is as near to a reference of 10 words as to one of 8.
COUNTED = np.array(
    [
        [9, 7, 4, 3, 9, 8, 7, 6, 9, 8],
        [3, 2, 0, 0, 3, 2, 1, 0, 3, 5],
        [7, 6, 3, 1, 9, 8, 7, 6, 9, 9],
    ]
)
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
    assert CORPORA["bleu_1"].formula(np.array([2, 0, 0, 0, 7, 6, 5, 4, 7, 7.0])) == pytest.approx(
        2 / 7
    )


def test_each_statistic_of_a_score_is_named():
    assert {len(corpus.statistics) for corpus in CORPORA.values()} == {10}
