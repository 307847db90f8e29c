import pytest
from grounding_fakes import Constant, Patches, Plan, Planted, data_of, two_things

from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.grounding.attention import AttentionReader
from vlbench.probes.grounding.queries import Query
from vlbench.probes.grounding.reports import (
    IMAGE_ALONE,
    NO_CONFIDENCE,
    OWN_PATCHES,
    Queries,
    report,
)

SPLIT = data_of([two_things(i, 0, 1) for i in range(4)]).splits["test"]
GOLD = [[0.0, 0.0, 10.0, 10.0]]


def queries(*groups, words=2, images=4):
    """Return queries of `thing0` in the first `words` images, in one group or several."""
    text = SPLIT["captions"][0][0]
    of_word = [[Query(group, 2, 8, 0) for group in groups]]
    rows = [
        {"texts": [text], "targets": [GOLD], "queries": of_word if i < words else [[]]}
        for i in range(images)
    ]
    conditions = [{"relation": f"r{group}"} for group in range(max(groups) + 1)]
    return Queries(value_column(rows), conditions, {"left_out": 3})


def outcome(model, of_words, groups=1):
    reader = AttentionReader(model, groups)
    return report(reader, SPLIT["picture"], of_words, Engine.for_tests(), examples=0, seed=0)


def test_counts_are_of_queries_and_of_the_data():
    found = outcome(Planted(), queries(0, words=3))
    assert found.counts == {
        "asked": 3, "without_regions": 0, "without_token": 0, "ties": 0, "choices": 3,
        "clusters": 3, "left_out": 3,
    }  # fmt: skip
    assert set(found.artifacts) == {"heads"}


def test_captions_that_the_model_cuts_are_counted():
    class Cuts(Planted):
        context_length = 2

        def count_tokens(self, texts):
            return [len(text.split()) for text in texts]

    assert outcome(Cuts(), queries(0)).counts["truncated_texts"] == 4


def test_the_best_head_of_each_group_is_noted():
    model = Planted({(1, 2): Plan()})
    (note,) = outcome(model, queries(0, 1), groups=2).notes
    assert note.endswith("layer-head from 0: r0 1-2, r1 1-2")


@pytest.mark.parametrize(
    ("changes", "note"),
    [({"whole": False}, IMAGE_ALONE), ({"image_share": 0.1}, "no head gives the image over 20%")],
)
def test_attention_that_leaves_no_active_heads_is_noted(changes, note):
    model = type("Changed", (Constant,), changes)()
    assert any(one.startswith(note) for one in outcome(model, queries(0)).notes)


def test_a_model_of_patches_is_noted():
    assert OWN_PATCHES in outcome(Patches(), queries(0)).notes


def test_regions_without_scores_are_noted():
    pictures = data_of([two_things(i, 0, 1) for i in range(4)], confident=False).splits["test"]
    reader = AttentionReader(Constant(), 1)
    engine = Engine.for_tests()
    found = report(reader, pictures["picture"], queries(0), engine, examples=0, seed=0)
    assert NO_CONFIDENCE in found.notes


def test_one_image_with_a_query_cannot_be_halved():
    with pytest.raises(TooFewRows, match="1 image with a word to ask for; two halves need two"):
        outcome(Planted(), queries(0, words=1))
