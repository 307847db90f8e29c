import pytest
import torch

from vlbench.data.records import Split, value_column
from vlbench.probes.captioning.matched_foils import match_foils, seen_in_training


class ByNumber:
    """Scores a text by the number that it is."""

    def __call__(self, texts):
        return torch.tensor([float(text) for text in texts], dtype=torch.float64)


@pytest.mark.parametrize(
    ("texts", "candidates", "chosen"),
    [
        # The nearest on either side, one above and one below, such that the differences are least.
        (["0", "0"], [["3", "1", "-2"], ["2", "-1", "-4"]], ["1", "-1"]),
        (["0", "0"], [["1", "-3"], ["1", "-2"]], ["1", "-2"]),
        # A side without a candidate cannot be taken.
        (["0", "0"], [["-5"], ["-3", "-1"]], ["-5", "-1"]),
        (["0", "0"], [["5"], ["4", "9"]], ["5", "4"]),
        (["0", "0"], [["0", "1"], ["-1", "2"]], ["0", "-1"]),
        (["7"], [["9"]], ["9"]),
    ],
)
def test_foils_are_as_probable_as_their_texts_half_more_and_half_less(texts, candidates, chosen):
    assert match_foils(ByNumber(), texts, candidates) == chosen


def test_texts_that_stand_in_training_are_counted_but_for_case_and_marks():
    rows = Split({"captions": value_column([["A dog .", "Two dogs"], ["A cat"]])})
    assert seen_in_training(rows, ["a dog", "A CAT .", "a hat", "two", "A dog."]) == 3
