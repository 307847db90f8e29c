"""The response bias of replies, and the gain over it, beside other libraries and by hand."""

import re
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from foil_fakes import question_rows
from scipy.stats import hypergeom, kurtosis
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score

from vlbench.asking.chooser import Chooser
from vlbench.asking.questions import Question
from vlbench.capabilities import Reply
from vlbench.code.functions import load_object
from vlbench.engine import Engine
from vlbench.metrics.items import Examples, Items, options_among
from vlbench.metrics.replies import judge, letters, words
from vlbench.metrics.response_bias import ReplyLabels, bias_of_items, response_bias, strata_of
from vlbench.probes.matching.bias import above_bias


def said(label, right, k, *, category=0, cluster=None):
    """Return one reply to each item; `right` has a label, or several; `k` may differ by item."""
    n = len(label)
    is_right = np.zeros((n, int(np.max(k))), bool)
    for row, own in enumerate(right):
        is_right[row, own] = True
    items = np.arange(n)
    clusters = items if cluster is None else np.unique(cluster, return_inverse=True)[1]
    options, categories = np.broadcast_to(k, n), np.broadcast_to(category, n)
    none = np.zeros(n, int)
    return ReplyLabels(items, np.array(label), is_right, options, categories, clusters, none)


def drawn(seed, n, k, *, read=0.9):
    """Return labels, a tenth of them unread, and right labels with which they agree in part."""
    rng = np.random.default_rng(seed)
    right = np.arange(n) % k
    label = np.where(rng.random(n) < 0.4, right, rng.integers(k, size=n))
    return np.where(rng.random(n) < read, label, -1), rng.permutation(right) if seed % 2 else right


def brute_force(replies, kept, *, macro):
    """Return accuracy minus bias of some items, by loops over strata and labels."""
    own = {}
    for stratum in np.unique(strata_of(replies)[kept]):
        rows = kept & (strata_of(replies) == stratum)
        label, right = replies.label[rows], replies.right[rows]
        hits = np.mean([one >= 0 and true[one] for one, true in zip(label, right, strict=True)])
        labels = range(right.shape[1])
        bias = sum(np.mean(label == one) * right[:, one].mean() for one in labels)
        name = replies.category[rows][0] if macro else 0
        own.setdefault(name, []).append((rows.sum(), hits - bias))
    parts = [np.transpose(one) for one in own.values()]
    return np.mean([gains @ items / items.sum() for items, gains in parts])


def jackknifed(replies, *, macro=False):
    """Return standard error and degrees of freedom of the gain, each cluster left out by a loop."""
    names = np.unique(replies.cluster)
    less = [brute_force(replies, replies.cluster != one, macro=macro) for one in names]
    n, spread = len(less), np.sum((np.array(less) - np.mean(less)) ** 2)
    return np.sqrt((n - 1) / n * spread), 2 / (2 / (n - 1) + max(kurtosis(less), 0) / n)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_kappa_and_balanced_accuracy_are_those_of_scikit_learn(k):
    label, right = drawn(k, 60, k)
    found = response_bias(said(label, right, k))
    assert found.kappa.value == pytest.approx(cohen_kappa_score(right, label))
    assert found.balanced.value == pytest.approx(balanced_accuracy_score(right, label))
    assert found.gain.value == pytest.approx(np.mean(label == right) - found.bias)
    assert (found.n, found.chance) == (60, pytest.approx(1 / k))


def test_a_floor_is_worked_by_hand():
    # A is said in 6 of 10 and right in 5 of 10, B 3 and 4, C 0 and 1, and one reply is unread.
    label, right = [0] * 6 + [1] * 3 + [-1], [0, 0, 0, 1, 1, 2, 1, 1, 0, 0]
    found = response_bias(said(label, right, 3))
    assert found.bias == pytest.approx(0.6 * 0.5 + 0.3 * 0.4)
    assert found.gain.value == pytest.approx(0.5 - 0.42)
    assert found.kappa.value == pytest.approx(0.08 / 0.58)
    assert found.balanced.value == pytest.approx((3 / 5 + 2 / 4 + 0) / 3)


@pytest.mark.parametrize("macro", [False, True])
def test_the_jackknife_leaves_out_each_cluster_in_all_strata(macro):
    # Categories of 30, 20 and 40 items; clusters of 1 to 6 items, some in several categories.
    category = np.repeat([0, 1, 2], [30, 20, 40])
    cluster = np.random.default_rng(0).integers(25, size=90)
    k = np.where(category == 2, 3, 2)
    label, right = drawn(3, 90, 2)
    replies = said(label, right, k, category=category, cluster=cluster)
    found = response_bias(replies, macro=macro)
    stderr, freedom = jackknifed(replies, macro=macro)
    whole = brute_force(replies, np.ones(90, bool), macro=macro)
    half = student.ppf(0.975, freedom) * stderr
    assert found.gain.value == pytest.approx(whole)
    assert found.gain.stderr == pytest.approx(stderr)
    assert found.gain.ci95 == pytest.approx((whole - half, whole + half))


def test_few_replies_that_break_a_habit_are_few_degrees_of_freedom():
    label, right = [0] * 37 + [1] * 3, [0, 1] * 20
    replies = said(label, right, 2)
    stderr, freedom = jackknifed(replies)
    low, high = response_bias(replies).gain.ci95
    assert freedom < 10
    assert (high - low) / 2 == pytest.approx(student.ppf(0.975, freedom) * stderr)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_a_constant_reply_gains_nothing_and_its_interval_is_no_point(k):
    _, right = drawn(1, 47, k)
    found = response_bias(said(np.full(47, k - 1), right, k))
    assert (found.gain.value, found.p, found.p_by) == (0.0, 1.0, "permutations")
    assert (found.kappa.value, found.balanced.value) == (0.0, 1 / k)
    assert found.bias == np.mean(right == k - 1)
    assert found.gain.ci95[0] < 0 < found.gain.ci95[1]


def test_items_with_other_numbers_of_options_are_never_pooled():
    # Of two options A is right and said, of three C: pooled, the replies would gain.
    label, right = [0] * 12 + [2] * 12, [0] * 12 + [2] * 12
    found = response_bias(said(label, right, np.repeat([2, 3], 12)))
    assert (found.bias, found.gain.value, found.kappa) == (1.0, 0.0, None)
    assert response_bias(said(label, right, 3)).gain.value == 0.5


def test_small_strata_and_a_single_cluster_are_left_out_and_counted():
    sizes = [9, 10, 10]
    category, cluster = np.repeat([0, 1, 2], sizes), [*range(9), *range(9, 19), *[19] * 10]
    label, right = drawn(1, 29, 2, read=1)
    replies = said(label, right, 2, category=category, cluster=cluster)
    assert np.isnan(bias_of_items(replies)).tolist() == [True] * 9 + [False] * 10 + [True] * 10
    assert response_bias(replies).n == 10
    assert response_bias(replies.select(category == 2)) is None
    own = bias_of_items(replies)[9:19].mean()
    assert own == pytest.approx(response_bias(replies.select(category == 1)).bias)


def test_several_right_labels_each_count():
    # A is said in 5 of 10, B in 5; A is right in all 10, B in 4: 1/2 x 1 + 1/2 x 4/10.
    label, right = [0, 1] * 5, [[0, 1]] * 4 + [[0]] * 6
    found = response_bias(said(label, right, 3))
    assert found.bias == pytest.approx(0.7)
    assert found.gain.value == pytest.approx(0.7 - 0.7)
    assert found.balanced is None


@pytest.mark.parametrize("in_clusters", [False, True])
def test_p_is_that_of_all_permutations(in_clusters):
    # Seven clusters of two items, whose pairs of replies stay pairs in any order; or 14 items.
    label = [0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1]
    right = [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1]
    cluster = np.repeat(np.arange(7), 2)
    units = [*range(0, 14, 2)] if in_clusters else []
    replies = said(label, right, 2, cluster=cluster if in_clusters else None)
    found = response_bias(replies, permutations=20_000)
    if in_clusters:
        orders = np.array([*permutations(units)])[:, None] + np.zeros((128, 1), int)
        second = np.array([*product([0, 1], repeat=7)])
        pairs = np.stack([orders + second, orders + 1 - second], -1).reshape(-1, 14)
        own = (np.array(label)[pairs] == right).sum(1)
        exact = np.mean(own >= np.sum(np.array(label) == right))
    else:
        # The replies to items whose right label is A are hypergeometric: 4 A of 14 have 7 said A.
        exact = hypergeom.sf(3, 14, 4, 7)
    assert found.p_by == "permutations"
    assert found.p == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize("in_orders", [False, True])
def test_what_a_model_knows_is_found_if_all_clusters_have_one_order_of_right_labels(in_orders):
    # As in POPE, where yes and no take turns for each image; or a foil that is asked both ways.
    rng, right = np.random.default_rng(0), np.tile([0, 1], 40)
    label, units = np.where(rng.random(80) < 0.8, right, 1 - right), np.repeat(np.arange(40), 2)
    replies = said(label, right, 2, cluster=units)
    if in_orders:
        each = np.arange(40)
        of_item = [replies.options[:40], each * 0, each, each * 0]
        replies = ReplyLabels(units, replies.label, replies.right, *of_item)
    found = response_bias(replies)
    assert found.gain.ci95[0] > 0.1
    assert (found.p, found.p_by) == (1 / 2000, "permutations")


def test_within_a_cluster_only_replies_to_items_of_one_stratum_are_exchanged():
    # Each cluster has an item of one category, where nothing is known, and one of another, where
    # the same reply is always right.
    label, right = np.ones((12, 2), int), np.ones((12, 2), int)
    label[:6, 0], right[::2, 0] = 0, 0
    category, cluster = np.tile([0, 1], 12), np.repeat(np.arange(12), 2)
    replies = said(label.ravel(), right.ravel(), 2, category=category, cluster=cluster)
    found = response_bias(replies, permutations=20_000)
    assert found.p_by == "permutations"
    assert found.p == pytest.approx(hypergeom.sf(2, 12, 6, 6), abs=0.015)


def test_the_jackknife_gives_p_if_there_are_few_distinct_permutations():
    # Clusters of 1, 2, ... 5 items have no other whose replies they could get.
    cluster = np.repeat(np.arange(5), np.arange(1, 6))
    label, right = drawn(1, 15, 2, read=1)
    replies = said(label, right, 2, cluster=cluster)
    found, (stderr, freedom) = response_bias(replies), jackknifed(replies)
    assert found.p_by == "jackknife"
    assert found.p == pytest.approx(student.sf(found.gain.value / stderr, freedom))


def test_more_tests_need_more_distinct_permutations():
    label, right = [1] + [0] * 29, [1] + [0, 1] * 14 + [0]
    several = [response_bias(said(label, right, 2), tests=tests).p_by for tests in (1, 2)]
    assert several == ["permutations", "jackknife"]  # one reply has 30 places


# Through the doors that models come through.


class Replies:
    """Says the first letter, or the letter of the option that it knows."""

    def __init__(self, known=""):
        self.known = known

    def answer(self, pictures, questions):
        del pictures
        return [self.said(question) for question in questions]

    def said(self, question):
        return next(iter(re.findall(rf"^([A-Z])\. {self.known}$", question, re.MULTILINE)), "A")


def asked(model, options):
    rows = question_rows(range(6)).splits["test"]
    several = [Question(f"which of {i} ?", options) for i in range(12)]
    chooser = Chooser(model, rows, Engine.for_tests(), "letter")
    return chooser.choose([0] * 12, several, [[0]] * 12)


def said_by(judged):
    labelled, n = judged.labelled, len(judged.labelled.options)
    none = np.zeros(n, int)
    return ReplyLabels(*labelled[:4], none, np.arange(n), labelled.texts)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("known", ["", "x0"])
def test_an_item_in_all_cyclic_orders_has_a_bias_of_chance(k, known):
    replies = said_by(asked(Replies(known), [f"x{i}" for i in range(k)]))
    found = response_bias(replies)
    assert bias_of_items(replies) == pytest.approx(1 / k)
    assert (found.bias, found.gain.value) == pytest.approx((1 / k, 1 - 1 / k if known else 0))
    assert (found.p == 1.0) is (not known)


def test_a_text_is_a_label_only_where_a_category_shares_its_texts():
    # Captions with foils: the right one is stored first, and no two items share their texts.
    captions = [[f"a cat on {i}", f"a dog on {i}"] for i in range(20)]
    shared = [["yes", "no"]] * 10 + [["no", "yes"]] * 10
    for options, names in ((captions, 0), (shared, 20)):
        replies = [[Reply((0, 1), own[0])] for own in options]
        replies_said = said_by(judge(replies, options, [[0]] * 20, words))
        assert np.isfinite(bias_of_items(replies_said)).sum() == names
    assert response_bias(replies_said).bias == 0.5


def test_letters_are_the_labels_of_all_items_and_a_stored_place_is_no_label():
    # Shown in two orders, in turn: always A is right in half of the items.
    orders = [(0, 1), (1, 0)] * 10
    options = [[f"a cat on {i}", f"a dog on {i}"] for i in range(20)]
    judged = judge([[Reply(order, "A")] for order in orders], options, [[0]] * 20, letters)
    assert response_bias(said_by(judged)).bias == 0.5


def items_of(judged, options, categories):
    ids = [f"{i:02}" for i in range(len(options))]
    chosen, named = options_among(options, judged.choice, [0] * len(options), [0.5] * len(options))
    return Items("accuracy", chosen, Examples(ids, ids, categories=categories), named, {})


def test_scores_above_the_bias_are_over_all_and_by_category():
    # In c every reply is right, and each letter in half of the items; in d always A is said.
    orders, options = [(0, 1), (1, 0)] * 20, [[f"cat {i}", f"dog {i}"] for i in range(40)]
    letter = ["A", "B"] * 10 + ["A"] * 20
    replies = [[Reply(order, own)] for order, own in zip(orders, letter, strict=True)]
    judged = judge(replies, options, [[0]] * 40, letters)
    items = items_of(judged, options, ["c"] * 20 + ["d"] * 20)
    found = above_bias(items, judged.labelled, ["c", "d"])
    told = {(one.metric, one.at.get("category", "")): one for one in found.scores}
    gain = "accuracy_gain_over_response_bias"
    assert [told[gain, at].value for at in ("c", "d", "")] == [0.5, 0.0, 0.25]
    assert told["accuracy_macro_gain_over_response_bias", ""].value == 0.25
    assert told["balanced_accuracy", "d"].value == 0.5
    assert [told[gain, at].verdict.split(",")[0] for at in "cd"] == ["finding", "no finding"]
    assert told["categories_above_response_bias", ""].value == 1
    # Always A earns 1 on an item where A is right, and 0 on the others.
    assert found.items.floors["response_bias"].credit.tolist() == [0.5] * 20 + [1.0, 0.0] * 10
    assert found.counts == {}


def test_items_without_a_bias_are_counted_and_then_there_is_no_floor():
    options = [[f"cat {i}", f"dog {i}"] for i in range(20)]
    judged = judge([[Reply((0, 1), "AB"[i % 2])] for i in range(20)], options, [[0]] * 20, letters)
    items = items_of(judged, options, ["c"] * 12 + ["d"] * 8)
    found = above_bias(items, judged.labelled, ["c", "d"])
    assert (found.counts, found.items.floors) == ({"items_without_response_bias": 8}, {})
    assert above_bias(items, None, ["c"]) == (items, (), {}, {})


# The short version of benchmarks/response_bias.py.
FOLDER = [Path(__file__).parents[2] / "benchmarks"]
rates, worlds = (load_object(f"response_bias:{name}", FOLDER) for name in ("rates", "worlds"))
THREE = [one for one in worlds() if one.labels == 3 and not one.balanced]
FEW = [one for one in THREE if one.items == "clusters of 3"]


# Of 200 draws, fewer than 178 cover once in 10,000 times, and more than 23 are wrong at 5 %.
@pytest.mark.parametrize("world", FEW, ids=[one.name for one in FEW])
def test_the_gain_of_a_planted_model_is_found_and_no_other(world):
    found = rates(world, 200)
    assert found.covers >= 0.89
    assert found.small <= 0.115 or world.known


def test_the_page_states_every_world():
    page = (FOLDER[0].parent / "docs" / "simulations.md").read_text("utf-8")
    assert [one.name for one in worlds() if f"| {one.name} | " not in page] == []
