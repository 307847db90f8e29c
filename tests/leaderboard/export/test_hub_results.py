import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from planted_boards import board, result, score
from planted_exports import HOSTILE, selection

from vlbench.catalog.catalog import load_catalog
from vlbench.leaderboard.export.every_eval_ever import Source
from vlbench.leaderboard.export.hub_results import hub_results

MNIST = {"data": "vlbench.data.mnist:mnist sha256:1", "vlbench": "0.1.0", "weights": "sha256:1"}


def exported(folder, *rows):
    source = Source(folder, load_catalog().models)
    return list(hub_results(selection(folder, board(*rows)), source))


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


def test_a_row_without_a_time_has_no_date(tmp_path):
    (file,) = exported(tmp_path, mnist_row(run={}))
    assert "date" not in yaml.safe_load(file.content)[0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (mnist_row(provenance={"data": "mine:own sha256:1"}), "its data have no id on the hub"),
        (mnist_row("m", score(metric="other")), "it lacks the primary score"),
    ],
)
def test_a_row_that_cannot_be_one_says_why(tmp_path, row, why):
    (found,) = exported(tmp_path, row)
    assert found == (row, why)


def test_two_rows_of_a_model_that_may_not_be_compared_are_both_left_out(tmp_path):
    found = exported(tmp_path, mnist_row(), mnist_row(comparable="other"))
    why = "another row of the model may not be compared with it"
    assert [one.why for one in found] == [why, why]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_below_the_folder_and_the_file_can_be_read(tmp_path, name):
    (file,) = exported(tmp_path, mnist_row(name, score(unit=name)))
    organisation, _, *rest = file.place.split("/")
    assert (organisation, rest) == ("local", [".eval_results", "t.yaml"])
    assert f"in {name}," in yaml.safe_load(file.content)[0]["notes"]
