from collections import Counter

from vlbench.data.scenes import pair_questions
from vlbench.data.scenes.pair_questions import pair_question
from vlbench.data.scenes.pairs import count_pairs, pair

PAIRS = [(both, pair_question(both)) for both in (pair(0, "test", i) for i in range(700))]
ASKED = [(both, asked) for both, asked in PAIRS if asked]


def test_sides_have_different_answers():
    assert Counter(asked.category for _, asked in ASKED) == dict.fromkeys(
        ("colour", "place", "number", "presence", "object"), 100
    )
    for _, asked in ASKED:
        assert {*asked.right} == {*asked.options}


def test_answers_are_true_of_the_captions():
    for both, asked in ASKED:
        for side, right in zip(both.sides, asked.right, strict=True):
            nouns = [thing.noun for thing in side.scene.things]
            if asked.category == "colour":
                assert f"{right} {nouns[0]}" in side.caption
            elif asked.category == "place":
                first, second = asked.text.split()[2], asked.text.split()[-2]
                told = f"{first} to the {right} of", f"{second} to the {opposite(right)} of"
                assert any(one in side.caption for one in told)
            elif asked.category == "number":
                assert f"{right} " in side.caption
            elif asked.category == "presence":
                assert (asked.text.split()[-2] in nouns) == (right == "yes")
            else:
                assert nouns[0] == right


def opposite(place):
    return {"left": "right", "right": "left"}[place]


def test_the_loader_has_both_sides_with_their_images(tmp_path):
    test = pair_questions(cache_dir=tmp_path).splits["test"]
    assert len(test) == 5 * 2 * 250
    assert len({*test["cluster"]}) == 5 * 250 < count_pairs("test")
    asked = pair_question(pair(0, "test", int(test["cluster"][0])))
    assert [test["right_answers"][i] for i in (0, 1)] == [[one] for one in asked.right]
    assert test["picture"][0].image.tobytes() != test["picture"][1].image.tobytes()
