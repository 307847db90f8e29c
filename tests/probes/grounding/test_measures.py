import pytest
import torch
from grounding_fakes import REGIONS, picture_of, spans_of, two_things

from vlbench.capabilities import JointAttention
from vlbench.probes.grounding.measures import MEASURES, measure, query_attention
from vlbench.probes.grounding.queries import Query
from vlbench.probes.grounding.targets import geometry

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
    return dict(zip(MEASURES, measure([part])[0, 0, 0].tolist(), strict=True))


def test_a_query_is_scored_by_the_region_with_most_attention():
    found = measures([0.4, 0.1, 0.1, 0.0], 0)
    assert found == pytest.approx(
        {"accuracy": 1, "pointing_accuracy": 1, "attention_on_gold": 4 / 6, "attention": 0.6,
         "ties": 0}
    )  # fmt: skip
    assert measures([0.4, 0.1, 0.1, 0.0], 1)["accuracy"] == 0


def test_tied_regions_share_the_choice():
    found = measures([0.2, 0.2, 0.1, 0.1], 1)
    assert (found["accuracy"], found["ties"]) == (0.5, 1)


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
    )  # fmt: skip
    both = measure([part, narrow])
    assert torch.equal(both[0], measure([part])[0])
    assert torch.equal(both[1], measure([narrow])[0])
