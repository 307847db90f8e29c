import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from planted_boards import board, result, score
from planted_exports import HOSTILE, selection

from vlbench.catalog.catalog import load_catalog
from vlbench.data import cifar, hub_sets, mnist
from vlbench.report.export.hf import HUB_DATA, files, hub_set, loader_of, model_id

MNIST = {"data": "vlbench.data.mnist:mnist sha256:1", "vlbench": "0.1.0", "weights": "sha256:1"}


def exported(folder, *rows):
    return list(files(selection(folder, board(*rows), catalog=load_catalog())))


def mnist_row(name="clip-rn50", *scores, **rest):
    ended = {"finished": "2026-11-21T23:31:21+00:00"}
    return result(name, *(scores or [score()]), **{"provenance": MNIST, "run": ended} | rest)


def test_a_file_lies_in_the_models_repository_and_names_data_at_its_revision(tmp_path):
    (file,) = exported(tmp_path, mnist_row())
    assert file.place == "timm/resnet50_clip.openai/.eval_results/t.yaml"
    (found,) = parse_eval_result_entries(yaml.safe_load(file.content))
    assert (found.dataset_id, found.task_id, found.value) == ("ylecun/mnist", "t", 0.5)
    assert found.dataset_revision == "77f3279092a1c1579b2250db8eafed0ad422088c"
    assert found.date == "2026-11-21T23:31:21+00:00"


def test_the_notes_say_what_the_number_is(tmp_path):
    (file,) = exported(tmp_path, mnist_row("m", score(ci95=(0.25, 0.75), chance=0.1)))
    assert yaml.safe_load(file.content)[0]["notes"] == (
        "accuracy (shots 5), as a fraction, higher is better; n = 100; "
        "95 % interval 0.25 to 0.75; chance 0.1; vlbench 0.1.0, task version 1"
    )


def test_a_number_of_another_unit_says_so(tmp_path):
    (file,) = exported(tmp_path, mnist_row("m", score(unit="nats", higher_is_better=False)))
    assert "in nats, lower is better" in yaml.safe_load(file.content)[0]["notes"]


def test_a_score_without_a_direction_is_neither(tmp_path):
    (file,) = exported(tmp_path, mnist_row("m", score(higher_is_better=None)))
    assert "neither higher nor lower is better" in yaml.safe_load(file.content)[0]["notes"]


def test_a_row_without_a_time_has_no_date(tmp_path):
    (file,) = exported(tmp_path, mnist_row(run={}))
    assert "date" not in yaml.safe_load(file.content)[0]


NO_FILES = [
    (mnist_row(provenance={"data": "mine:own sha256:1"}), "its data have no id on the hub"),
    (mnist_row("m", score(metric="other")), "it has no primary score"),
]


@pytest.mark.parametrize(("row", "why"), NO_FILES)
def test_a_row_that_cannot_be_one_says_why(tmp_path, row, why):
    (found,) = exported(tmp_path, row)
    assert found == (row, why)


def test_two_rows_of_a_model_that_may_not_be_compared_are_both_left_out(tmp_path):
    found = exported(tmp_path, mnist_row(), mnist_row(comparable="other"))
    why = "another row of the model is not comparable with it"
    assert [one.why for one in found] == [why, why]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_below_the_folder_and_the_file_can_be_read(tmp_path, name):
    (file,) = exported(tmp_path, mnist_row(name, score(unit=name)))
    organisation, _, *rest = file.place.split("/")
    assert (organisation, rest) == ("local", [".eval_results", "t.yaml"])
    assert f"in {name}," in yaml.safe_load(file.content)[0]["notes"]


SHIPPED = load_catalog().models
STRANGE = {"x": SimpleNamespace(weights="../../up on the hub", source=Path("elsewhere"))}


ORGANISATIONS = [
    ("tiny-clip", "vlbench/tiny-clip"),
    ("clip-rn50", "timm/resnet50_clip.openai"),
    ("siglip-base", "google/siglip-base-patch16-224"),
    ("gpt2", "vlbench/gpt2"),
    ("MeanColour", "local/MeanColour"),
]


@pytest.mark.parametrize(("name", "found"), ORGANISATIONS)
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
