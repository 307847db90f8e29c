import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted_boards import result
from planted_exports import HOSTILE

from vlbench.catalog.catalog import load_catalog
from vlbench.data import cifar, hub_sets, mnist
from vlbench.leaderboard.export.naming import HUB_DATA, hub_set, loader_of, model_id

SHIPPED = load_catalog().models
STRANGE = {"x": SimpleNamespace(weights="../../up on the hub", source=Path("elsewhere"))}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tiny-clip", "vlbench/tiny-clip"),
        ("clip-rn50", "timm/resnet50_clip.openai"),
        ("siglip-base", "google/siglip-base-patch16-224"),
        ("gpt2", "vlbench/gpt2"),
        ("MeanColour", "local/MeanColour"),
    ],
)
def test_a_model_has_an_organisation(name, found):
    assert model_id(name, SHIPPED) == found


def test_a_model_that_was_overridden_is_not_the_one_of_the_catalogue():
    found = model_id("clip-rn50[weights=x.pt]", SHIPPED)
    assert re.fullmatch("local/clip-rn50_weights_x.pt_-[0-9a-f]{8}", found)


def test_a_model_of_the_users_own_catalogue_is_local():
    mine = {"m": SimpleNamespace(weights="mine", source=Path("elsewhere"))}
    assert model_id("m", mine) == "local/m"


@pytest.mark.parametrize("name", [*HOSTILE, "..", "../../x", "/etc", "a" * 200])
def test_an_id_is_a_path_of_two_folders_whatever_the_name(name):
    pattern = r"local/[A-Za-z0-9_-][A-Za-z0-9._-]{0,90}"
    assert re.fullmatch(pattern, model_id(name, {}))


def test_names_that_differ_only_in_signs_have_other_ids():
    assert len({model_id(name, {}) for name in ["a b", "a/b", "a|b", "a_b"]}) == 4


def test_weights_that_lead_out_of_the_folder_are_no_repository():
    assert model_id("x", STRANGE) == "local/x"


def test_each_loader_of_hub_data_is_the_one_that_falls_back_to_it():
    used = {cifar.CIFAR10.hub, cifar.CIFAR100.hub, mnist.MNIST.hub, mnist.FASHION_MNIST.hub}
    assert set(HUB_DATA.values()) == used | {hub_sets.SVHN}
    assert HUB_DATA["vlbench.data.cifar:cifar10"] is cifar.CIFAR10.hub
    assert HUB_DATA["vlbench.data.mnist:fashion_mnist"] is mnist.FASHION_MNIST.hub


def test_the_loader_is_the_first_word_of_a_rows_data():
    row = result("m", provenance={"data": "vlbench.data.mnist:mnist sha256:1"})
    assert loader_of(row) == "vlbench.data.mnist:mnist"
    assert hub_set(row) is hub_sets.MNIST


def test_a_row_that_does_not_say_its_data_has_none_on_the_hub():
    assert loader_of(result("m", provenance={})) == "unknown"
    assert hub_set(result("m", provenance={})) is None
