import numpy as np
import pytest
import torch
from grounding_fakes import (
    REGIONS,
    Patches,
    Plan,
    Planted,
    data_of,
    picture_of,
    two_things,
)

from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.probes.grounding.attention import AttentionReader
from vlbench.probes.grounding.entity_grounding import entity_grounding
from vlbench.probes.grounding.measures import Query
from vlbench.probes.grounding.pictures import ExampleReader, choose_examples, draw
from vlbench.probes.grounding.reports import (
    GroundingQueries,
    report,
)
from vlbench.probes.grounding.scores import QueryGroup

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
    return GroundingQueries(value_column(rows), conditions, {"left_out": 3})


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


PICTURE = picture_of(two_things(0, 0, 1), confident=True)


def read(model, span=(2, 8), **more):
    example = {"text": "a thing0 sees the thing1 0", "span": list(span), "head": 5} | more
    (found,) = ExampleReader(AttentionReader(model, 1)).read([PICTURE], [example])
    return found


def test_a_model_of_patches_is_shown_to_choose_among_regions():
    found = read(Patches())
    assert found["boxes"].tolist() == REGIONS
    # Each quarter of the image has 1/8 of the attention, the one that the word names four times
    # as much; the second region lies in two quarters, 12 x 24 of 32 x 32 pixels in each.
    wanted = [4 / 8 * 100 / 1024, (4 / 8 + 1 / 8) * 288 / 1024]
    assert found["weights"][:2].tolist() == pytest.approx(wanted)
    assert float(found["total"]) == pytest.approx(7 / 8)


def test_a_model_of_regions_is_shown_its_own_weights():
    found = read(Planted())
    assert found["boxes"].tolist() == REGIONS
    assert float(found["weights"][0] / found["total"]) == pytest.approx(0.9)


@pytest.mark.parametrize("model", [Patches(), Planted()])
def test_among_things_the_regions_of_things_are_shown(model):
    found, every = read(model, things=[REGIONS[0], REGIONS[3]]), read(model)
    assert found["boxes"].tolist() == [REGIONS[0], REGIONS[3]]
    assert torch.equal(found["weights"], every["weights"][[0, 3]])
    assert torch.equal(found["total"], every["total"])


def test_dollar_signs_of_a_caption_are_no_formula_and_a_word_without_a_token_has_no_attention():
    example = {"text": "a $_$ sign", "span": [0, 1], "gold": [REGIONS[0]], "title": "head 0-0"}
    draw([PICTURE], [example], [None]).unlink()
    assert read(Planted(), span=(60, 65)) is None


def group(number, sizes, best):
    """Return a group of two heads, of which `best` is right."""
    accuracy = np.zeros((len(sizes), 2))
    accuracy[:, best] = sizes
    return QueryGroup(
        number=number, at={"relation": f"r{number}"}, measures={"accuracy": accuracy},
        stats={"n": np.array(sizes)}, shape=(1, 2), whole=True, has_scores=True, seed=0,
    )  # fmt: skip


def test_examples_are_spread_over_the_images_of_each_group_in_turn():
    def one(*groups):
        texts = [f"word {group}" for group in groups]
        queries = [[Query(group, 0, 4, 0)] for group in groups]
        return {"texts": texts, "queries": queries, "targets": [[REGIONS[0]]]}

    queries = [one(0), one(1), one(0, 1), one(0)]
    groups = [group(0, [1.0, 0, 1, 1], best=1), group(1, [0.0, 1, 1, 0], best=0)]
    chosen = choose_examples(queries, groups, 4)
    assert [(e["image"], e["text"], e["head"]) for e in chosen] == [
        (0, "word 0", 1), (1, "word 1", 0), (2, "word 0", 1), (2, "word 1", 0)
    ]  # fmt: skip
    assert chosen[0]["title"] == "r0 head 0-1"


SCENES = [two_things(i, i % 4, (i + 1) % 4) for i in range(6)]


def test_an_item_is_a_query_in_the_cluster_of_its_image():
    scenes = [*SCENES, two_things(6, 0, 1)._replace(regions=[])]
    found = entity_grounding(Planted(), data_of(scenes), Engine.for_tests(), examples=0)
    # One of an image without regions has no credit.
    assert {r["credit"] for r in found.items.to_pylist() if r["cluster"] == "6"} == {0.0}
    rows = [r for r in found.items.to_pylist() if r["metric"] == "best_head_accuracy"]
    asked = [(row["id"], row["cluster"], row["target"]) for row in rows]
    first, second = "thing0: 0 0 10 10", "thing1: 20 0 44 24"
    assert asked[:3] == [("0/0", "0", first), ("0/1", "0", second), ("1/0", "1", second)]


def test_the_prediction_of_an_item_is_the_box_that_the_head_chose():
    model = Planted({(0, 0): Plan(images=3)})
    found = entity_grounding(model, data_of(SCENES), Engine.for_tests(), examples=0)
    rows = [r for r in found.items.to_pylist() if r["metric"] == "best_head_accuracy"]
    assert {r["credit"] for r in rows} == {0.0, 1.0}
    assert all(r["prediction"] for r in rows)
    is_right = [r["target"].endswith(f": {r['prediction']}") for r in rows]
    assert is_right == [r["credit"] == 1 for r in rows]
