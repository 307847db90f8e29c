import pytest
import torch
from caption_world import Taste, right_nouns, world
from scipy.stats import ttest_1samp

from vlbench.asking.pair_scores import PairScorer
from vlbench.engine import Engine
from vlbench.metrics.items import Examples
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.pairwise import Contest, Share, compare_texts, report

NAMES = ["a", "b", "c"]


def contest(*scores, texts=None):
    own, n = torch.tensor(scores, dtype=torch.float64), len(scores)
    told = texts or [NAMES] * n
    images = Examples([str(i) for i in range(n)], [str(i) for i in range(n)])
    return Contest(images, NAMES, told, own, torch.zeros(n, 3), -own, "score")


def values(measured):
    return {one.score.metric: one.score.value for one in measured}


def test_a_share_has_its_floors_its_gain_and_its_ties():
    found = contest([3, 1, 0], [1, 2, 0], [1, 1, 0]).share(Share("first", {}, [["a", "b", "c"]]))
    expected = {"first": 1 / 2, "first_gain_from_image": 1 / 6, "first_tied": 1 / 3}
    assert values(found) == pytest.approx(expected)
    assert [one.score.chance for one in found] == [pytest.approx(1 / 3), 0, None]
    assert found[0].score.floors == {"another_image": pytest.approx(1 / 3), "text_only": 0}
    # Wilson by hand: 1.96 sqrt(0.25 / 3 + 1.96^2 / 36) / (1 + 1.96^2 / 3) = 0.3747.
    assert found[0].score.ci95 == pytest.approx((0.1253, 0.8747), abs=1e-4)


def test_the_floor_of_a_matching_score_is_that_of_the_text_for_another_image():
    found = contest([3, 1, 0], [1, 2, 0])._replace(another_image=torch.tensor([[1.0, 0, 0]] * 2))
    assert found.match({}, "a").score.floors == {"another_image": 1.0}


def test_scores_within_rounding_of_a_saturated_head_are_tied():
    rounded = contest([1.0, 1.0 - 5e-7, 0], [1.0, 1.0 - 5e-6, 0])
    found = values(rounded.share(Share("first", {}, [["a", "b"]])))
    assert (found["first"], found["first_tied"]) == (0.75, 0.5)


def test_the_mean_of_two_contests_has_two_items_for_an_image_and_the_images_as_clusters():
    first, *_ = contest([3, 1, 5], [1, 2, 0]).share(Share("first", {}, [["a", "b"], ["a", "c"]]))
    assert (first.score.value, first.score.n) == (0.5, 4)
    items = first.items.to_pylist()
    assert [(i["id"], i["cluster"], i["credit"]) for i in items] == [
        ("0/b", "0", 1), ("1/b", "1", 0), ("0/c", "0", 0), ("1/c", "1", 1),
    ]  # fmt: skip
    assert [(i["prediction"], i["target"]) for i in items] == [
        ("a", "a"), ("b", "a"), ("c", "a"), ("a", "a"),
    ]  # fmt: skip


def test_a_text_that_occurs_twice_is_one_candidate_and_its_places_share_it():
    texts = [["x", "x", "y"], ["x", "y", "z"]]
    found = contest([2, 2, 1], [2, 2, 1], texts=texts).share(Share("first", {}, [NAMES]))
    assert found[0].items["credit"].to_pylist() == [0.5, 0.5]
    assert found[0].score.chance == pytest.approx((1 / 4 + 1 / 3) / 2)
    assert found[0].score.floors["another_image"] == found[0].score.chance
    assert values(found)["first_tied"] == 0.5


def test_a_gain_is_paired_by_image_and_its_interval_that_of_students_t():
    # Own images: right, right, wrong. Another's, where all is tied: a half each.
    gain = contest([3, 1, 0], [3, 1, 0], [1, 3, 0]).share(Share("first", {}, [["a", "b"]]))[1]
    assert gain.items["credit"].to_pylist() == [0.5, 0.5, -0.5]
    interval = ttest_1samp([0.5, 0.5, -0.5], 0).confidence_interval()
    assert gain.score.ci95 == pytest.approx((interval.low, interval.high))
    assert (gain.score.metric, gain.score.range) == ("first_gain_from_image", (-1.0, 1.0))


def test_the_gain_over_two_contests_is_paired_by_image():
    texts = contest([3, 1, 5], [3, 2, 0], [3, 0, 0])
    gain = texts.share(Share("first", {}, [["a", "b"], ["a", "c"]]))[1]
    # Images gain 0.5 - 0.5, 1 - 0.5 and 1 - 0.5: two contests of an image are one difference.
    interval = ttest_1samp([0, 0.5, 0.5], 0).confidence_interval()
    assert gain.score.ci95 == pytest.approx((interval.low, interval.high))
    assert {i["cluster"] for i in gain.items.to_pylist()} == {"0", "1", "2"}


def test_a_range_over_templates_is_noted_where_its_ends_are_told_apart():
    def notes(*scores):
        texts = contest(*scores)
        shares = [Share("best", {"template": name}, [["a", name]]) for name in ("b", "c")]
        return report([one for s in shares for one in texts.share(s)], "best", {}).notes

    (note,) = notes(*[[2, 1, 3]] * 30)
    assert note.startswith("best ranges over templates from 0.0% (c) to 100.0% (b)")
    assert notes([2, 1, 3], [2, 1, 3]) == []


def test_means_have_the_interval_of_student_and_the_models_own_unit():
    score = contest([3, 1, 0], [1, 2, 0]).match({"text": "a"}, "a").score
    assert (score.metric, score.value, score.unit, score.n) == ("match_score", 2, "score", 2)
    # 1 and 3: an error of 1, and Student's quantile of one degree.
    assert score.ci95 == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)


def test_the_outcome_counts_and_notes_the_ties_of_its_primary_share():
    tied = contest([1, 1, 0], [3, 2, 0])
    outcome = report(tied.share(Share("first", {}, [["a", "b"]])), "first", {"clusters": 2})
    assert outcome.counts == {"ties": 1, "choices": 2, "clusters": 2}
    assert outcome.notes[0].startswith("first: the best scores are tied in 1 of 2 choices")
    untied = report(tied.share(Share("first", {}, [["b", "c"]])), "first", {})
    assert untied.notes == []


def judged(taste, texts, rows):
    data = world([["a dog"], ["a boat"], ["a cat"]])
    scorer = PairScorer(Taste(taste), data.splits["test"], Engine.for_tests())
    return compare_texts(scorer, TextScorer(data.splits["train"]["captions"]), texts, rows, seed=0)


def test_texts_are_scored_for_their_image_for_another_one_and_alone():
    texts = [{"one": "a dog", "two": "a boat cup"}, {"one": "a dog", "two": "a boat"}]
    found = judged(right_nouns, texts, [0, 1])
    assert found.names == ["one", "two"]
    assert found.own.tolist() == [[1, 0], [0, 1]]
    assert found.another_image.tolist() == [[0, 2], [1, 0]]
    assert found.text_only[0, 0] == found.text_only[1, 0]


def test_rows_are_those_of_the_split():
    found = judged(right_nouns, [{"one": "a boat"}, {"one": "a cat"}], [1, 2])
    assert found.own.tolist() == [[1], [1]]
    assert found.images.ids == ["1", "2"]
    assert found.table().to_pylist()[1] == {"id": "2", "name": "one", "text": "a cat", "score": 1}
