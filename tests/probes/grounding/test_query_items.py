import pytest
from grounding_fakes import Planted, data_of, two_things
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.probes.grounding.entity_grounding import entity_grounding
from vlbench.probes.grounding.syntactic_grounding import syntactic_grounding

SCENES = [two_things(i, i % 4, (i + 1) % 4) for i in range(6)]


@pytest.mark.parametrize("probe", [entity_grounding, syntactic_grounding])
def test_the_mean_of_the_items_is_the_score(probe):
    found = probe(Planted(), data_of(SCENES), Engine.for_tests(), examples=0)
    values = scores_with_items(found.scores, found.items)
    assert {"split_half_accuracy", "best_head_accuracy", "pointing_accuracy"} <= {
        place[0] for place in values
    }
    assert item_means(found.items) == pytest.approx(values, abs=1e-6)


def test_an_item_is_a_query_in_the_cluster_of_its_image():
    found = entity_grounding(Planted(), data_of(SCENES), Engine.for_tests(), examples=0)
    rows = [r for r in found.items.to_pylist() if r["metric"] == "best_head_accuracy"]
    asked = [(row["id"], row["cluster"], row["target"]) for row in rows]
    assert asked[:3] == [("0/0", "0", "thing0"), ("0/1", "0", "thing1"), ("1/0", "1", "thing1")]


def test_a_query_of_an_image_without_regions_has_no_credit():
    scenes = [*SCENES, two_things(6, 0, 1)._replace(regions=[])]
    found = entity_grounding(Planted(), data_of(scenes), Engine.for_tests(), examples=0)
    assert {r["credit"] for r in found.items.to_pylist() if r["cluster"] == "6"} == {0.0}
