import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted_boards import board, counts, result, score
from planted_exports import HOSTILE, referring, selection

from vlbench.catalog.catalog import load_catalog
from vlbench.data import cifar, hub_sets, mnist
from vlbench.leaderboard.export.selection import (
    HUB_DATA,
    cells,
    heads,
    higher_is_better,
    hub_set,
    is_best,
    listed,
    loader_of,
    model_id,
)


def models(part):
    return [entry.row.model for entry in part.entries]


def test_the_best_is_first_and_a_row_without_the_primary_score_last(tmp_path):
    rows = [result("none", score(1.0, "other")), result("low", score(0.1)), result("up", score())]
    (part,) = selection(tmp_path, board(*rows)).parts
    assert models(part) == ["up", "low", "none"]


def test_where_lower_is_better_the_lowest_is_first(tmp_path):
    rows = [result(m, score(v, higher_is_better=False)) for m, v in [("big", 0.9), ("tiny", 0.1)]]
    (part,) = selection(tmp_path, board(*rows)).parts
    assert models(part) == ["tiny", "big"]


def test_rows_that_may_not_be_compared_are_sets_of_their_own(tmp_path):
    rows = [result("a", score()), result("b", score(), comparable="other")]
    first, second = selection(tmp_path, board(*rows)).parts
    assert (models(first), models(second)) == (["a"], ["b"])
    assert second.title == "t (version 1), not comparable with the others: set 2"


def test_skipped_failed_partial_and_random_rows_are_listed_apart(tmp_path):
    rows = [
        result("s", status="skipped", reason="no text"),
        result("s2", status="skipped", reason="no text"),
        result("f", status="failed", reason="broke\nbadly"),
        result("p", score(), counts=counts(1, 2)),
        result("r", score(), provenance={"weights": "random:0"}),
    ]
    found = selection(tmp_path, board(*rows))
    assert found.parts == []
    assert listed(found.left_out) == [
        "t: left out (skipped, no text): s, s2",
        "t: left out (failed, broke badly): f",
        "t: left out (partial, 1 of 2 official rows): p",
        "t: left out (random weights): r",
    ]


def test_a_published_value_stands_beside_its_score(tmp_path):
    row = result("m", score(0.5, "other"), score(0.5, stderr=0.125))
    (part,) = selection(tmp_path, board(row), catalog=referring(0.25)).parts
    (entry,) = part.entries
    assert entry.published[0] is None
    assert entry.reference == (0.25, "Table 1", 0.25, 2.0)


def test_a_row_without_the_primary_score_has_no_reference(tmp_path):
    row = result("m", score(0.5, "other"))
    (part,) = selection(tmp_path, board(row), catalog=referring()).parts
    assert part.entries[0].reference is None


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


def only(folder, row, **rest):
    (part,) = selection(folder, board(row), **rest).parts
    return part, part.entries[0]


def test_a_row_has_all_that_it_takes_to_judge_its_score(tmp_path):
    shown = score(0.5, stderr=0.125, ci95=(0.25, 0.75), chance=0.1, floors={"pixels": 0.2}, n=7)
    part, entry = only(tmp_path, result("m", shown), catalog=referring(0.25))
    assert dict(zip(heads(part), cells(entry), strict=True)) == {
        "model": "m",
        "accuracy (shots 5)": "50.0 %",
        "95 % interval": "25.0 to 75.0",
        "n": "7",
        "chance": "10.0 %",
        "highest floor": "20.0 % pixels",
        "published": "25.0 %, Table 1 (ours +2.0 SE)",
        "against the leader": "-",
    }


def test_a_score_of_ties_is_marked(tmp_path):
    _, entry = only(tmp_path, result("m", score(), counts={**counts(), "ties": 51}))
    assert cells(entry)[1] == "50.0 % (mostly ties)"


def test_a_published_value_without_our_error_stands_alone(tmp_path):
    _, entry = only(tmp_path, result("m", score()), catalog=referring(0.25))
    assert cells(entry)[6] == "25.0 %, Table 1"


def test_a_row_without_the_primary_score_is_dashes(tmp_path):
    part, entry = only(tmp_path, result("m", score(0.5, "other")))
    assert cells(entry) == ["m", *["-"] * 7]
    assert higher_is_better(part) is None


def test_the_better_direction_is_that_of_the_score(tmp_path):
    part, _ = only(tmp_path, result("m", score(higher_is_better=False)))
    assert higher_is_better(part) is False


def test_who_was_never_compared_is_not_the_best(tmp_path):
    _, entry = only(tmp_path, result("m", score()))
    assert (is_best(entry), is_best(entry._replace(standing="best"))) == (False, True)
