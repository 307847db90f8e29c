import pytest

from vlbench.capabilities import NoAnswer, Reply
from vlbench.metrics.replies import (
    MOST_KEPT,
    judge,
    letters,
    numbers,
    place_of,
    reply_table,
    words,
)


def test_labels_are_letters_numbers_or_the_options():
    found = [list(label(["cat", "dog"])) for label in (letters, numbers, words)]
    assert found == [["A", "B"], ["1", "2"], ["cat", "dog"]]


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


def test_replies_without_an_option_are_counted_by_reason_each_with_an_example():
    said = ["A", "I see.", "", "A or B", NoAnswer("refused", "not allowed"), "Hm."]
    judged = judge([[Reply((0, 1), one)] for one in said], [["x", "y"]] * 6, [[0]] * 6, letters)
    assert judged.choice.credit.tolist() == [1, 0, 0, 0, 0, 0]
    assert judged.told == (
        "5 of 6 name no single option: no option 2 (such as 'I see.'), empty 1, "
        "several options 1 (such as 'A or B'), refused 1 (such as 'not allowed')"
    )
    assert (judged.unparsed, judged.may_pass) == (5, 0)


@pytest.mark.parametrize(
    ("answer", "place"), [("B", 1), ("(b)", 1), ("b.", 1), (" DOG", 1), ("cafe\u0301", 2)]
)
def test_a_right_answer_is_a_text_or_a_letter(answer, place):
    assert place_of(["cat", "dog", "caf\u00e9"], answer) == place


def test_a_table_has_each_reply_with_why_it_is_unread_and_the_two_ends_of_a_long_one():
    replies = [turns("B", "x" * 5000), [Reply((0, 1), NoAnswer("refused", "no."))]]
    options, right = [["cat", "dog"], ["red", "blue"]], [[1], [0]]
    judged = judge(replies, options, right, letters)
    lines = reply_table("ab", [7, 9], options, right, replies, judged, "letters").to_pylist()
    assert [(one["item"], one["order"], one["target"]) for one in lines] == [
        (7, "0 1", "dog"), (7, "1 0", "dog"), (9, "0 1", "red"),
    ]  # fmt: skip
    assert [one["unread"] for one in lines] == ["", "no option", "refused"]
    assert [one["reply"][:3] for one in lines] == ["B", "xxx", "no."]
    assert [one["characters"] for one in lines] == [1, 5000, 3]
    assert lines[1]["reply"].count("x") == MOST_KEPT
    assert "[... 1,000 characters ...]" in lines[1]["reply"]
