import argparse
import json

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from planted_boards import PRIMARY, board, result, score
from planted_exports import HOSTILE, compared, named, referring, selection

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.leaderboard.export import add_options
from vlbench.leaderboard.export.every_eval_ever import Source
from vlbench.leaderboard.export.formats import FOLDERS, TEXTS, hub_results, plain_json


def test_the_command_offers_every_format():
    parser = argparse.ArgumentParser()
    add_options(parser)
    (option,) = [one for one in parser._actions if one.dest == "format"]
    assert set(option.choices) == {*TEXTS, *FOLDERS}


def test_no_format_is_both_a_text_and_a_folder():
    assert set(TEXTS) & set(FOLDERS) == set()


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


def test_a_row_is_as_its_board_has_it_with_the_name_of_the_board(tmp_path):
    row = result("m", score(0.5, floors={"pixels": 0.2}, draws=[0.4, 0.6]), notes=["mind"])
    (found,) = json.loads(plain_json(selection(tmp_path, board(row))))["rows"]
    assert found.pop("scores") == [
        row.row()["scores"][0] | {"draws": [0.4, 0.6], "published": None}
    ]
    head = {"task": "t", "version": 1, "paper": "", "primary": PRIMARY, "against_leader": ""}
    assert found == {k: v for k, v in row.row().items() if k != "scores"} | head


def test_a_published_value_stands_beside_its_score(tmp_path):
    chosen = selection(tmp_path, board(result("m", score())), catalog=referring(0.25))
    (found,) = json.loads(plain_json(chosen))["rows"]
    wanted = {"value": 0.25, "where": "Table 1", "difference": 0.25, "in_stderr": None}
    assert found["scores"][0]["published"] == wanted


def test_rows_are_best_first_with_their_standing(tmp_path):
    rows = json.loads(plain_json(compared(tmp_path, "a", "b", "c")))["rows"]
    found = [(row["model"], row["against_leader"]) for row in rows]
    assert found == [("a", "best"), ("b", "behind"), ("c", "behind")]


def test_names_come_back_as_they_were_from_a_text_in_ascii(tmp_path):
    text = plain_json(named(tmp_path, *HOSTILE))
    assert text.isascii()
    assert [row["model"] for row in json.loads(text)["rows"]] == HOSTILE


def test_without_rows_the_document_is_the_same(tmp_path):
    assert json.loads(plain_json(selection(tmp_path, board()))) == {"schema": 1, "rows": []}
