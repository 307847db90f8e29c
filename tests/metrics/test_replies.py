import pytest

from vlbench.capabilities import Reply
from vlbench.metrics.replies import judge, letters, named_option, numbers, words

NAMED = {
    "A": ("AB", 0),
    "(B)": ("AB", 1),
    "B.": ("AB", 1),
    "The answer is B, since it is red": ("AB", 1),
    "A is the right one": ("AB", 0),
    "A man rides a horse": ("AB", None),
    "B, a man rides": ("AB", 1),
    "A or B": ("AB", None),
    "Both (A) and (B)": ("AB", None),
    "b": ("AB", None),
    "ABBA": ("AB", None),
    "": ("AB", None),
    "C": ("AB", None),
    "Output (2).": ("12", 1),
    "(12)": ("12", None),
    "Yes, there is.": (("yes", "no"), 0),
    "No.": (("yes", "no"), 1),
    "I do not know": (("yes", "no"), None),
    "yes, no doubt": (("yes", "no"), None),
    "a Dark Red car": (("red", "dark red"), 1),
    "red, or dark red": (("red", "dark red"), None),
    "C++": (("c", "c++"), 1),
}  # fmt: skip


def test_a_reply_names_an_option_if_exactly_one_label_occurs():
    assert {said: named_option(said, labels) for said, (labels, _) in NAMED.items()} == {
        said: place for said, (_, place) in NAMED.items()
    }


def test_labels_are_letters_numbers_or_the_options():
    options = ["cat", "dog"]
    found = [list(label(options)) for label in (letters, numbers, words)]
    assert found == [["A", "B"], ["1", "2"], options]


def turns(*said):
    """Return replies in the cyclic orders of as many options."""
    n = len(said)
    return [Reply(tuple((i + turn) % n for i in range(n)), one) for turn, one in enumerate(said)]


# What is said in each order, and the credit where the first option is right, and what was chosen.
TURNS = {
    "always A": (turns("A", "A", "A"), 1 / 3, -1),
    "always the first option": (turns("A", "C", "B"), 1.0, 0),
    "always the third option": (turns("C", "B", "A"), 0.0, 2),
    "right once, and then nothing": (turns("A", "none", "A or B"), 1 / 3, -1),
    "never an option": (turns("", "", ""), 0.0, -1),
}


@pytest.mark.parametrize(("replies", "credit", "chosen"), TURNS.values(), ids=[*TURNS])
def test_an_item_earns_the_mean_over_its_orders(replies, credit, chosen):
    judged = judge([replies], [["x", "y", "z"]], [[0]], letters)
    assert judged.choice.credit.tolist() == pytest.approx([credit])
    assert judged.choice.chosen.tolist() == [chosen]
    assert judged.unparsed == sum(one.said in {"", "none", "A or B"} for one in replies)


def test_of_scores_the_highest_is_chosen_and_tied_options_share():
    said = [[-1.0, -2.0], [-7.0, -7.0, -9.0], [-40.0, -20.0]]
    replies = [[Reply(tuple(range(len(one))), one)] for one in said]
    judged = judge(replies, [["a", "b"], ["a", "b", "c"], ["a", "b"]], [[0], [0], [0]], letters)
    assert judged.choice.credit.tolist() == [1.0, 0.5, 0.0]
    assert judged.choice.tied.tolist() == [False, True, False]
    assert judged.choice.chosen.tolist() == [0, -1, 1]
    assert (judged.by_place, judged.unparsed) == ([[1.0], [0.5], [0.0]], 0)


def test_an_item_may_have_several_right_options():
    replies = [[Reply((0, 1, 2), "C")], [Reply((0, 1, 2), [-1.0, -1.0, -1.0])]]
    texts = judge(replies[:1], [["a", "b", "c"]], [[0, 2]], letters)
    scores = judge(replies[1:], [["a", "b", "c"]], [[0, 2]], letters)
    assert texts.choice.credit.tolist() == [1.0]
    assert scores.choice.credit.tolist() == pytest.approx([2 / 3])


@pytest.mark.parametrize("replies", [[[]], [[Reply((0,), "A"), Reply((0,), [1.0])]]])
def test_no_reply_and_texts_among_scores_are_refused(replies):
    with pytest.raises(ValueError, match="each item must have replies"):
        judge(replies, [["a"]], [[0]], letters)
