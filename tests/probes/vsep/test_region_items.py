import torch

from vlbench.data.annotations import Named
from vlbench.probes.vsep.alignment import Objects
from vlbench.probes.vsep.region_items import region_items

NAMES = [
    [Named("animal", "cat", 0, 3), Named("vehicle", "car", 4, 7)],
    [Named("animal", "dog", 0, 3), Named("vehicle", "car", 4, 7)],
]
OBJECTS = Objects(
    torch.zeros(2, 2, 1), torch.zeros(2, 2, 1), NAMES, images=[("a", "sha256:a"), ("b", "sha256:b")]
)
CREDIT = torch.tensor([[1.0, 0.0], [0.5, 1.0]])


def test_a_region_is_an_item_in_the_cluster_of_its_image():
    chosen = torch.tensor([[0, 0], [-1, 1]])
    found = region_items(OBJECTS, "accuracy", {"objects": 2}, CREDIT, chosen=chosen).to_pylist()
    assert [(row["id"], row["cluster"], row["prediction"], row["target"]) for row in found] == [
        ("a/animal", "a", "cat", "cat"), ("a/vehicle", "a", "cat", "car"),
        ("b/animal", "b", None, "dog"), ("b/vehicle", "b", "car", "car"),
    ]  # fmt: skip
    assert [row["credit"] for row in found] == [1.0, 0.0, 0.5, 1.0]


def test_the_items_may_be_some_of_the_regions():
    kept = torch.tensor([[False, True], [True, False]])
    found = region_items(OBJECTS, "accuracy_unseen", {}, CREDIT, kept=kept)
    assert found["id"].to_pylist() == ["a/vehicle", "b/animal"]
    assert found["credit"].to_pylist() == [0.0, 0.5]
