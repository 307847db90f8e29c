import re

import numpy as np
import pytest
import torch
from foil_fakes import (
    BLIND_TO,
    NUMBER_IN_PRESENCE,
    Always,
    Noise,
    ReadsAlone,
    Sees,
    column,
    foil_rows,
    twin_rows,
)

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.data.scenes.pairs import CATEGORIES
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows
from vlbench.probes.matching.choice import QUESTION, choice

FOILS, TWINS = foil_rows(), twin_rows()
CHANCE = dict.fromkeys(["text_accuracy", "image_accuracy"], 1 / 2)
CHANCE |= {"text_score": 1 / 4, "image_score": 1 / 4, "group_score": 1 / 6}


def run(model, data, **params):
    return choice(model, data, Engine.for_tests(), **params)


def values(outcome, metric, *conditions):
    """Return the values of a metric by one condition; of no condition under its own name."""
    found = [s for s in outcome.scores if s.metric == metric and set(s.at) == {*conditions}]
    return {"".join(map(str, s.at.values())): s.value for s in found}


@pytest.mark.parametrize("blind_to", BLIND_TO)
def test_a_scorer_fails_at_the_foils_of_what_it_does_not_see_and_at_no_other(blind_to):
    found = values(run(Sees(blind_to), FOILS), "text_accuracy", "category")
    assert found == {c: 0.5 if c in BLIND_TO[blind_to] else 1.0 for c in CATEGORIES}


@pytest.mark.parametrize("blind_to", BLIND_TO)
@pytest.mark.parametrize("metric", CHANCE)
def test_a_scorer_fails_at_the_twins_of_what_it_does_not_see_and_at_no_other(blind_to, metric):
    found = values(run(Sees(blind_to), TWINS), metric, "category")
    failed = dict.fromkeys(BLIND_TO[blind_to], CHANCE[metric])
    if blind_to == "number":
        failed["presence"] = NUMBER_IN_PRESENCE.get(metric, 1.0)
    assert found == pytest.approx(dict.fromkeys(CATEGORIES, 1.0) | failed)


@pytest.mark.parametrize("model", [ReadsAlone(), Always()])
@pytest.mark.parametrize("data", [FOILS, TWINS], ids=["foils", "twins"])
def test_whoever_does_not_look_is_right_in_one_half_of_every_category(model, data):
    outcome = run(model, data)
    assert values(outcome, "text_accuracy") == {"": 0.5}
    assert values(outcome, "text_accuracy", "category") == dict.fromkeys(CATEGORIES, 0.5)


def test_a_constant_scores_chance_on_all_that_twins_are_asked_and_texts_alone_pair_none():
    alone = run(ReadsAlone(), TWINS)
    assert values(alone, "text_score")[""] == values(alone, "group_score")[""] == 0.0
    assert values(alone, "image_score") == pytest.approx({"": 0.25})
    outcome = run(Always(), TWINS)
    for metric, chance in CHANCE.items():
        assert values(outcome, metric) == pytest.approx({"": chance})
        chances = [s.chance for s in outcome.scores if s.metric == metric]
        assert chances == pytest.approx([chance] * len(chances))


@pytest.mark.parametrize("data", [FOILS, TWINS], ids=["foils", "twins"])
def test_intervals_of_random_scores_hold_chance(data):
    for seed in range(5):
        scores = [s for s in run(Noise(seed), data).scores if not s.at]
        held = [s.ci95[0] <= s.chance <= s.ci95[1] for s in scores if "fails" not in s.metric]
        assert sum(held) >= len(held) - 1


def test_blind_floors_are_one_half_and_a_bag_that_sees_fails_where_order_counts():
    params = {"floors": {"seeing_bag": "words"}, "language_model": ["read"]}
    read = Split({"captions": value_column([["a dog above a cat .", "there are two dogs ."]])})
    data = Data(splits={**FOILS.splits, "read": read})
    scores = run(Sees(), data, **params).scores
    (score,) = [s for s in scores if s.metric == "text_accuracy" and not s.at]
    blind = ("longest_text", "shortest_text", "trigram")
    assert {name: score.floors[name] for name in blind} == dict.fromkeys(blind, 0.5)
    unseen = len(BLIND_TO["order"]) / len(CATEGORIES)
    assert score.floors["seeing_bag"] == pytest.approx(1 - unseen / 2)
    assert score.floors["another_image"] == 0.5


def rows(**columns):
    """Return items of images 0, 1, ..."""
    count = len(columns["caption"])
    images = column(list(range(count)), "image")
    made = {"image": images, "picture": images, "caption": value_column(columns["caption"], "text")}
    rest = {name: value_column(values) for name, values in columns.items() if name != "caption"}
    return Data(splits={"test": Split(made | rest)})


class Likes:
    """Scores the texts that it likes 1, the others 0."""

    def __init__(self, *texts):
        self.texts = texts

    def score_pairs(self, pictures, texts):
        assert len(pictures) == len(texts)
        return torch.tensor([float(text in self.texts) for text in texts])


def test_foils_may_be_several_and_not_as_many_for_each_image():
    data = rows(caption=["a", "b"], foils=[["c"], ["d", "e", "f"]])
    (score, *_) = run(Likes("a"), data).scores
    assert score.value == pytest.approx((1 + 1 / 4) / 2)
    assert score.chance == pytest.approx((1 / 2 + 1 / 4) / 2)


def test_foils_that_are_equal_but_for_blanks_and_unicode_are_one_and_counted():
    data = rows(caption=["a", "b"], foils=[["é", "e\u0301", " é "], ["c", "C"]])
    outcome = run(Likes(), data)
    assert outcome.scores[0].value == outcome.scores[0].chance == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert outcome.counts["repeated_foils"] == 2


def test_the_mean_over_categories_weighs_them_alike_and_so_do_its_items():
    data = rows(caption=list("abcd"), foils=[["x"]] * 4, category=["p", "p", "p", "q"])
    outcome = run(Likes("a", "b"), data)
    assert values(outcome, "text_accuracy_macro") == {"": pytest.approx((2.5 / 3 + 0.5) / 2)}
    items = outcome.items.to_pylist()
    credit = [one["credit"] for one in items if one["metric"] == "text_accuracy_macro"]
    assert np.mean(credit) == pytest.approx((2.5 / 3 + 0.5) / 2)


def answers_of(outcome, metric):
    """Return what was said and what was right, by the id of an item."""
    items = [x for x in outcome.items.to_pylist() if (x["metric"], x["at"]) == (metric, "{}")]
    return {x["id"].split("/", 1)[1]: (x["prediction"], x["target"]) for x in items}


def test_items_say_which_text_was_chosen_unless_several_were_tied():
    data = rows(caption=["a", "b", "c"], foils=[["x"], ["y", "z"], ["x"]], category=["p", "p", "q"])
    outcome = run(Likes("a", "z"), data)
    answers = {"0": ("a", "a"), "1": ("z", "b"), "2": (None, "c")}
    assert answers_of(outcome, "text_accuracy") == answers
    assert answers_of(outcome, "text_accuracy_macro") == answers


def test_items_say_which_of_several_images_was_chosen():
    class LikesOdd:
        def score_pairs(self, pictures, texts):
            return torch.tensor([float(picture.image % 2) for picture in pictures])

    names = {"": ["a.png", "b.png"], "_2": ["c.png", "d.png"]}
    shown = {"": [0, 1], "_2": [3, 2]}
    pictures = {
        f"{what}{end}": Column(f"shown{end}", "picture", shown[end], range(2), names[end])
        for what in ("image", "picture")
        for end in names
    }
    columns = pictures | {"caption": value_column(["one", "two"])}
    outcome = run(LikesOdd(), Data(splits={"test": Split(columns)}))
    said = answers_of(outcome, "image_accuracy")
    assert said == {"0": ("c.png", "a.png"), "1": ("b.png", "b.png")}
    second = columns | {"caption_2": value_column(["three", "four"])}
    twins = run(LikesOdd(), Data(splits={"test": Split(second)}))
    assert answers_of(twins, "image_accuracy") == {
        "0/1": ("c.png", "a.png"),
        "0/2": ("c.png", "c.png"),
        "1/1": ("b.png", "b.png"),
        "1/2": ("b.png", "d.png"),
    }
    assert answers_of(twins, "text_accuracy")["0/2"] == (None, "three")


def test_images_without_names_of_their_own_go_by_their_columns():
    split = rows(caption=["a", "b"]).splits["test"].columns
    second = {f"{name}_2": split[name].select([1, 0]) for name in ("image", "picture")}
    both = [split | second, split | second | {"image_2": split["image"]}]
    named, unnamed = (run(Always(), Data(splits={"test": Split(x)})) for x in both)
    assert answers_of(named, "image_accuracy") == {"0": (None, "0"), "1": (None, "1")}
    assert answers_of(unnamed, "image_accuracy") == {"0": (None, "image"), "1": (None, "image")}


def test_small_categories_have_no_score_and_omitted_ones_no_items():
    names = ["p", "p", "q", "q", "r", "s"]
    data = rows(caption=list("abcdef"), foils=[["x"]] * 6, category=names)
    outcome = run(Always(), data, least=2, omitted=["s"])
    assert set(values(outcome, "text_accuracy", "category")) == {"p", "q"}
    assert (outcome.counts["omitted"], outcome.counts["small_categories"]) == (1, 1)
    assert next(s.n for s in outcome.scores) == 5


def test_items_of_the_same_words_have_a_score_of_their_own():
    told = ["a dog bites a man-eater", "red"]
    data = rows(caption=told, foils=[["A man eater bites a-dog!"], ["blue"]])
    outcome = run(Likes(told[0]), data)
    assert values(outcome, "text_accuracy", "words") == {"same": 1.0}
    assert outcome.counts["same_words"] == 1


def test_what_the_longer_text_tells_is_counted_and_the_rest_has_its_score():
    data = rows(caption=["a long one", "another long one", "short"], foils=[["b"], ["b"], ["long"]])
    outcome = run(Likes("short", "a long one"), data)
    assert outcome.counts["told_by_longest_text"] == 3
    data = rows(caption=["a long one"] * 8 + ["s"], foils=[["b"]] * 8 + [["long"]])
    outcome = run(Likes("s"), data)
    assert outcome.counts["told_by_longest_text"] == 8
    assert values(outcome, "text_accuracy_where_blind_fails") == {"": 1.0}
    # The longest text is right in 6 of 10, as it may be by chance.
    data = rows(caption=["longer"] * 6 + ["s"] * 4, foils=[["b"]] * 6 + [["long"]] * 4)
    outcome = run(Likes("s"), data)
    assert outcome.counts["told_by_longest_text"] == 6
    assert values(outcome, "text_accuracy_where_blind_fails") == {}


def test_where_a_blind_rule_fails_there_is_no_chance_and_floors_of_the_same_items():
    captions = ["a long one"] * 8 + ["s", "t"]
    data = rows(caption=captions, foils=[["b"]] * 8 + [["long"], ["u"]])
    outcome = run(Likes("s"), data)
    (score,) = [s for s in outcome.scores if s.metric.endswith("where_blind_fails")]
    assert (score.chance, score.n) == (None, 2)
    assert score.no_chance == "a blind rule can beat chance; compare with the floors"
    # Of "s" and "long", the shortest is right; "t" and "u" are as long.
    assert (score.floors["shortest_text"], score.floors["longest_text"]) == (0.75, 0.25)


def in_fours(options="left right on under", sets=2):
    """Return sets of four images of the same objects, which differ in the right of four words."""
    words = options.split()
    right = words * sets
    return rows(
        caption=right,
        foils=[[w for w in words if w != own] for own in right],
        cluster=[f"set {i // 4}" for i in range(4 * sets)],
        pair=[f"pair {i // 2}" for i in range(4 * sets)],
    )


SETS = {"pair_accuracy": "pair", "set_accuracy": "cluster"}


def of_sets(model, data=None, **params):
    outcome = run(model, data or in_fours(), sets=SETS, **params)
    return {s.metric: s for s in outcome.scores if s.metric in SETS}, outcome


class Knows:
    """Scores 1 the word that is right for an image of `in_fours`; of others the first."""

    words = ("left", "right", "on", "under")

    def __init__(self, *images):
        self.images = images

    def score_pairs(self, pictures, texts):
        numbers = [one.image for one in pictures]
        said = [self.words[i % 4] if i in self.images else self.words[0] for i in numbers]
        return torch.tensor([float(t == s) for t, s in zip(texts, said, strict=True)])


def test_a_set_is_right_if_all_of_its_items_are():
    found, outcome = of_sets(Knows(0, 1, 2, 3, 6, 7))
    # Of the second set, "left" is right whatever the image, and the pair of 6 and 7.
    assert {m: s.value for m, s in found.items()} == {"pair_accuracy": 3 / 4, "set_accuracy": 1 / 2}
    assert {m: s.n for m, s in found.items()} == {"pair_accuracy": 4, "set_accuracy": 2}
    assert values(outcome, "text_accuracy") == {"": 7 / 8}
    # The same answer to all has no set right.
    found, outcome = of_sets(Likes("left"))
    assert [s.value for s in found.values()] == [0, 0]
    assert values(outcome, "text_accuracy") == {"": 1 / 4}


def test_a_constant_score_has_the_chance_of_sets():
    found, _ = of_sets(Always())
    for metric, chance in {"pair_accuracy": 1 / 16, "set_accuracy": 1 / 256}.items():
        score = found[metric]
        assert score.value == score.chance == score.floors["another_image"] == chance


def test_blind_rules_are_floors_of_sets():
    found, _ = of_sets(Always(), in_fours("a bb cc ddd"))
    assert found["pair_accuracy"].floors["longest_text"] == 0
    found, _ = of_sets(Always(), in_fours("aa bb c dd"))
    # Three are as long: one of them is right by 1/3, "c" never.
    assert found["pair_accuracy"].floors["longest_text"] == pytest.approx((1 / 9 + 0) / 2)


def test_sets_are_the_items_of_their_scores_and_pairs_of_a_set_its_cluster():
    _, outcome = of_sets(Knows(0, 1, 2, 3, 6, 7))
    items = [x for x in outcome.items.to_pylist() if x["metric"] == "pair_accuracy"]
    found = {x["id"]: (x["cluster"], x["credit"]) for x in items}
    assert found == {
        "pair 0": ("set 0", 1), "pair 1": ("set 0", 1),
        "pair 2": ("set 1", 0), "pair 3": ("set 1", 1),
    }  # fmt: skip
    assert len({x["digest"] for x in items}) == 4


def test_a_category_that_a_blind_floor_tells_is_named():
    data = rows(caption=["long"] * 4, foils=[["b"]] * 4, category=["p", "p", "q", "q"])
    notes, told = run(Always(), data).notes, "longest text, as the only rule, is right in 100.0%"
    assert notes[0] == f"text_accuracy: {told}"
    assert f"text_accuracy of q: {told}" in notes


class Brightest:
    """Scores a picture, a number, by itself."""

    def score_pairs(self, pictures, texts):
        assert len(pictures) == len(texts)
        return torch.tensor([float(picture.image) for picture in pictures])


def test_the_image_of_a_caption_is_chosen_among_others():
    images = {"": [9, 1, 5], "_2": [0, 2, 5], "_3": [1, 0, 4]}
    made = {
        f"{kind}{end}": column(own, kind)
        for end, own in images.items()
        for kind in ("image", "picture")
    }
    made["caption"] = value_column(["a", "b", "c"], "text")
    outcome = run(Brightest(), Data(splits={"test": Split(made)}))
    (score,) = outcome.scores
    assert (score.metric, score.value) == ("image_accuracy", pytest.approx((1 + 0 + 1 / 2) / 3))
    assert score.chance == pytest.approx(1 / 3)
    assert score.floors == {"another_text": pytest.approx(1 / 2)}


class Towers:
    """Two towers without a matching score: an image, a number, fits the text that is its number."""

    def preprocess(self, image):
        return torch.full((3, 1, 1), image / 10)

    def encode_images(self, pixels):
        return torch.nn.functional.one_hot((10 * pixels[:, 0, 0, 0]).round().long(), 4).float()

    def encode_texts(self, texts):
        return torch.nn.functional.one_hot(torch.tensor([int(t) for t in texts]), 4).float()

    def similarity(self, images, texts):
        return images @ texts.T


def test_two_towers_need_no_matching_score():
    data = rows(caption=["0", "1", "2"], foils=[["3"], ["3"], ["0", "1"]])
    assert run(Towers(), data).scores[0].value == 1.0


def test_all_items_of_a_cluster_see_the_same_other_image():
    """An image's number is in its scores: of 'x' for odd ones, of 'y' for even ones."""

    class Odd:
        def score_pairs(self, pictures, texts):
            of_odd = zip([one.image % 2 == 1 for one in pictures], texts, strict=True)
            return torch.tensor([float(odd == (text == "x")) for odd, text in of_odd])

    data = rows(caption=["x", "y"] * 4, foils=[["y"], ["x"]] * 4, cluster=[*"aabbccdd"])
    assert run(Odd(), data).scores[0].floors["another_image"] == 0.5


PQ = rows(caption=["a", "b"], foils=[["c"], ["d"]], category=["p", "q"])
EQUAL = "row 2: a wrong text is the caption itself, 'b'"
REFUSED = [
    (rows(caption=["a", "b"]), {}, DataError, "the rows offer no choice: they need `foils`"),
    (rows(caption=["a", "b"], foils=[["c"], ["b "]]), {}, DataError, EQUAL),
    (rows(caption=["a"], foils=[["b"]]), {}, TooFewRows, "needs two"),
    (PQ, {"least": 2}, TooFewRows, "no category has 2 items"),
    (PQ, {"omitted": ["p", "q"]}, TooFewRows, "every item is of an omitted category"),
    (in_fours(), {"sets": {"set_accuracy": "four"}}, DataError, "the data have no column 'four'"),
]


@pytest.mark.parametrize(("data", "params", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_rows_that_ask_nothing_are_refused(data, params, error, message):
    with pytest.raises(error, match=message):
        run(Always(), data, **params)


class Answers:
    """Answers with the likelihood, or by the letter, of what a scorer of foils sees."""

    reads_text_alone = True

    def __init__(self, blind_to="nothing"):
        self.scorer = Sees(blind_to)

    def score_answers(self, pictures, questions, answers):
        assert set(questions) == {QUESTION}
        return torch.stack([self.score(*pair) for pair in zip(pictures, answers, strict=True)])

    def score(self, picture, text):
        if not picture.image:  # the longer, the less likely
            return torch.tensor(-float(len(text)))
        return self.scorer.score_pairs([picture], [text])[0] - 50

    def answer(self, pictures, questions):
        return [self.say(*one) for one in zip(pictures, questions, strict=True)]

    def say(self, picture, question):
        listed = re.findall(r"^([A-J])\. (.*)$", question, re.MULTILINE)
        return max(listed, key=lambda one: float(self.score(picture, one[1])))[0]


@pytest.mark.parametrize("way", ["likelihood", "letter"])
def test_models_that_generate_are_asked_for_the_caption(way):
    found = choice(Answers(), foil_rows(), Engine.for_tests(), asked=way)
    values = {s.metric: s for s in found.scores if not s.at}
    assert found.asked_by == way
    assert values["text_accuracy"].value == 1.0
    # The captions of a pair are exchanged: by the text alone one half is right.
    assert values["text_accuracy"].floors["text_alone"] == 0.5
    assert values["text_accuracy_gain_over_text_alone"].value == 0.5
    if way == "letter":
        assert values["text_accuracy_in_all_orders"].value == 1.0
        assert values["text_accuracy_order_effect"].value == 0.0
        assert found.counts["unparsed"] == 0


def test_floors_are_not_asked_if_no_reply_names_an_option():
    class Yes:
        asked = 0

        def answer(self, pictures, questions):
            self.asked += len(questions)
            return ["Yes"] * len(questions)

    model, rows = Yes(), foil_rows()
    with pytest.raises(DataError, match=r"no option 560 .such as 'Yes'.; .*the letter of"):
        choice(model, rows, Engine.for_tests())
    assert model.asked == 2 * len(rows.splits["test"])


def test_twins_are_asked_by_likelihood_and_not_by_letter():
    found = choice(Answers(), twin_rows(), Engine.for_tests(), asked="likelihood")
    values = {s.metric: s.value for s in found.scores if not s.at}
    assert values["text_accuracy"] == 1.0
    with pytest.raises(CannotDo, match="among texts for one image"):
        choice(Answers(), twin_rows(), Engine.for_tests(), asked="letter")
