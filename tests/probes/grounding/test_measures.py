import pytest
import torch
from grounding_fakes import CONFIDENCE, REGIONS, Scene, data_of, picture_of, spans_of, two_things

from vlbench.capabilities import JointAttention, Regions
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.grounding.measures import (
    MEASURES,
    READ,
    STATS,
    Query,
    WordTarget,
    column_coverage,
    first_images,
    geometry,
    image_queries,
    measure,
    query_attention,
)

TEXT = "a thing0 sees"
PICTURE = picture_of(two_things(0, 0, 1), confident=True)
FOUND = geometry(PICTURE.regions, PICTURE.regions.boxes, [[REGIONS[0]], [REGIONS[1]]])


def attention_of(weights):
    """Return attention of one layer and head from every token of TEXT to four regions."""
    spans = spans_of(TEXT)
    rows = torch.tensor(weights).expand(1, 1, len(spans), -1)
    return JointAttention(spans, rows, PICTURE.regions.boxes, whole=True)


def measures(weights, target):
    part, _ = query_attention(attention_of(weights), FOUND, [Query(0, 2, 8, target)])
    found = dict(zip(READ, measure([part])[0, 0, 0].tolist(), strict=True))
    return {name: found[name] for name in MEASURES}


def test_a_query_is_scored_by_the_region_with_most_attention_and_tied_regions_share_it():
    found = measures([0.4, 0.1, 0.1, 0.0], 0)
    assert found == pytest.approx(
        {"accuracy": 1, "pointing_accuracy": 1, "attention_on_gold": 4 / 6, "attention": 0.6,
         "ties": 0}
    )  # fmt: skip
    assert measures([0.4, 0.1, 0.1, 0.0], 1)["accuracy"] == 0
    tied = measures([0.2, 0.2, 0.1, 0.1], 1)
    assert (tied["accuracy"], tied["ties"]) == (0.5, 1)


def test_a_word_without_a_token_is_left_out():
    attention = attention_of([0.25] * 4)
    part, read = query_attention(attention, FOUND, [Query(0, 2, 8, 0), Query(0, 90, 95, 0)])
    assert len(part.weights) == 1
    assert read == [0]


def test_images_with_different_numbers_of_regions_are_scored_together():
    part, _ = query_attention(attention_of([0.4, 0.1, 0.1, 0.0]), FOUND, [Query(0, 2, 8, 0)])
    narrow = part._replace(
        weights=part.weights[..., :2], scores=part.scores[..., :2], right=part.right[:, :2],
        inside=part.inside[:, :2], gold=part.gold[:, :2],
        regions=part.regions[:, :2], columns=part.columns[:, :2],
    )  # fmt: skip
    both = measure([part, narrow])
    assert torch.equal(both[0], measure([part])[0])
    assert torch.equal(both[1], measure([narrow])[0])


SPLIT = data_of([two_things(i, 0, 1) for i in range(3)]).splits["test"]


def test_a_query_has_the_characters_of_its_word_and_the_boxes_of_its_target():
    found = image_queries(SPLIT, 2, [[WordTarget(1, 4, (1, 0)), WordTarget(0, 1, (0,))]])
    (text,) = found["texts"]
    ((first, second),) = found["queries"]
    assert text[first.start : first.stop] == "thing1"
    assert (first.group, first.target, second.group, second.target) == (1, 0, 0, 1)
    assert found["targets"] == [[[20, 0, 44, 24], [0, 0, 10, 10]], [[0, 0, 10, 10]]]
    # Queries of the same boxes share a target.
    shared = image_queries(SPLIT, 0, [[WordTarget(0, 1, (0,)), WordTarget(0, 4, (0,))]])
    assert len(shared["targets"]) == 1


def test_a_word_that_its_caption_lacks_is_bad_data():
    split = data_of([Scene(["a", "b"], [])]).splits["test"]
    split["words"].stored[0][0][1] = "c"
    with pytest.raises(DataError, match="the caption 'a b' has no word 'c'"):
        image_queries(split, 0, [[WordTarget(0, 1, (0,))]])


def test_the_first_images_are_read_or_all():
    assert len(first_images(SPLIT, 2)) == 2
    assert len(first_images(SPLIT, None)) == len(first_images(SPLIT, 9)) == 3


@pytest.mark.parametrize("images", [0, 1])
def test_fewer_than_two_images_cannot_be_halved(images):
    with pytest.raises(TooFewRows, match=rf"{images} images?; two halves need two"):
        first_images(SPLIT, images)


BOXES = torch.tensor(REGIONS).float()
ALL = Regions(BOXES, None, torch.tensor(CONFIDENCE), None, (64, 64))
QUARTERS = torch.tensor([[0, 0, 32, 32], [32, 0, 64, 32], [0, 32, 32, 64], [32, 32, 64, 64]])


def stats(found, target=0):
    return dict(zip(STATS, found.stats[target].tolist(), strict=True))


def test_columns_that_are_regions_are_right_where_they_overlap_any_gold_box_by_half():
    nearly = [0.0, 0.0, 10.0, 5.0]
    found = geometry(ALL, BOXES, [[REGIONS[1], REGIONS[3]], [nearly], [[0.0, 0.0, 10.0, 4.9]]])
    assert found.right.tolist() == [
        [False, True, False, True], [True, False, False, False], [False] * 4
    ]  # fmt: skip
    assert torch.equal(found.gold, found.right.double())
    assert not found.own_patches
    # So they are if they were scaled and scaled back.
    assert column_coverage(BOXES + 0.005, BOXES) is None


def test_a_patch_covers_regions_by_its_own_fraction():
    found = column_coverage(QUARTERS, BOXES)
    assert found[0].tolist() == pytest.approx([100 / 1024, 12 * 24 / 1024, 10 * 2 / 1024, 0])


def test_gold_of_a_patch_is_the_largest_fraction_that_one_gold_box_covers():
    found = geometry(ALL, QUARTERS, [[REGIONS[0], REGIONS[1]]])
    assert found.own_patches
    assert found.gold[0].tolist() == pytest.approx([288 / 1024, 288 / 1024, 0, 0])
    assert found.right.tolist() == [[True, True, False, False]]
    # A column points at a gold box that its centre lies in.
    inside = geometry(ALL, QUARTERS, [[[10.0, 10.0, 20.0, 20.0]]]).inside
    assert inside.tolist() == [[True, False, False, False]]


def test_baselines_are_the_credit_of_choices_that_look_at_no_word():
    found = geometry(ALL, BOXES, [[REGIONS[0]], [REGIONS[1]], [[60.0, 0.0, 64.0, 4.0]]])
    assert stats(found) == {
        "random_region": 0.25, "largest_region": 0, "most_confident_region": 1, "upper_bound": 1,
        "random_pointing": 0.25, "even_attention": 0.25,
    }  # fmt: skip
    assert stats(found, 1)["largest_region"] == 1
    assert set(stats(found, 2).values()) == {0.0}


THINGS = [REGIONS[0], REGIONS[1], [60.0, 0.0, 64.0, 4.0]]


def test_among_things_background_is_no_candidate():
    found = geometry(ALL, BOXES, [[REGIONS[0]], [REGIONS[1]]], THINGS)
    assert found.regions.tolist() == found.columns.tolist() == [True, True, False, False]
    assert stats(found) == {
        "random_region": 0.5, "largest_region": 0, "most_confident_region": 1, "upper_bound": 1,
        "random_pointing": 0.5, "even_attention": 0.5,
    }  # fmt: skip


def test_among_things_attention_to_background_does_not_count():
    found = geometry(ALL, BOXES, [[REGIONS[0]], [REGIONS[1]]], THINGS)
    part, _ = query_attention(attention_of([0.1, 0.3, 0.5, 0.05]), found, [Query(0, 2, 8, 1)])
    one = dict(zip(READ, measure([part])[0, 0, 0].tolist(), strict=True))
    assert (one["accuracy"], one["pointing_accuracy"], one["ties"]) == (1, 1, 0)
    assert one["attention_on_gold"] == pytest.approx(0.75)
    assert one["attention"] == pytest.approx(0.95)


def test_among_things_a_model_of_patches_points_at_any_patch():
    found = geometry(ALL, QUARTERS, [[REGIONS[0], REGIONS[1]]], THINGS)
    assert found.regions.tolist() == [True, True, False, False]
    assert found.columns.tolist() == [True] * 4
    assert stats(found)["random_region"] == 1


def test_where_no_region_is_of_a_thing_every_choice_is_wrong():
    found = geometry(ALL, BOXES, [[THINGS[2]]], THINGS[2:])
    assert found.regions.all()
    assert set(stats(found).values()) == {0.0}


def test_regions_without_scores_have_no_most_confident_one():
    found = geometry(ALL._replace(scores=None), BOXES, [[REGIONS[0]]])
    assert not found.has_scores
    assert stats(found)["most_confident_region"] == 0
