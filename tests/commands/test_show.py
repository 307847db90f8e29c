import json
from pathlib import Path

import pytest
import yaml
from planted_boards import board, result, score
from planted_boards import write as write_boards
from sources import ADAPTER, TASK, make_source, write

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.listed_capabilities import REQUIRED
from vlbench.cli import main
from vlbench.commands.show import show_thing

ALIGNMENT = "object_label_alignment_coco"
VERSION = load_catalog().tasks[ALIGNMENT].version


def test_a_task_is_shown_as_its_file_says(source):
    shown = show_thing(load_catalog([source]), "few_shot_colours", Path())
    assert list(shown)[:2] == ["name", "file"]
    assert shown["params"] == {"shots": [1], "trials": 2}
    assert shown["file"] == str(source / "tasks" / "few_shot_colours.yaml")


def test_keys_of_ones_own_are_shown_too(source):
    write(source / "tasks" / "zz.yaml", TASK + "x-owner: us\n")
    assert show_thing(load_catalog([source]), "zz", Path())["x-owner"] == "us"


def test_a_task_that_extends_a_shipped_one_is_shown_merged(source):
    write(source / "tasks" / "mine.yaml", "version: 1\nextends: few_shot_digits\n")
    catalog = load_catalog([source])
    mine, theirs = (show_thing(catalog, name, Path()) for name in ("mine", "few_shot_digits"))
    keys = ("needs", "probe", "data", "params", "primary")
    assert [mine[key] for key in keys] == [theirs[key] for key in keys]
    assert (mine["extends"], mine["file"]) == ("few_shot_digits", f"{source}/tasks/mine.yaml")


def test_a_model_is_shown_as_its_line_says_with_its_arguments(source):
    shown = show_thing(load_catalog([source]), "mean-colour", Path())
    assert (shown["adapter"], shown["paper"]) == ("colours:MeanColour", "none")
    assert shown["arguments"]["shift"] == {"type": "float", "default": 0.0}
    served = show_thing(load_catalog(), "openai:tiny@http://localhost:1/v1", Path())
    takes = {name: one["default"] for name, one in served["arguments"].items()}
    assert takes.keys() >= {"max_completion_tokens", "top_logprobs", "temperature", "timeout"}
    assert (takes["served"], takes["answer"], takes["question"]) == (REQUIRED, "Yes", "QUESTION")
    assert "device" not in takes


WAYS = "--batch-size below 32 or --dtype bfloat16"


def test_a_model_is_shown_with_the_options_that_save_memory(source):
    text = ADAPTER.replace("shift: float = 0.0", "max_pixels: int | None = None")
    write(source / "model_adapters" / "colours.py", text)
    catalog = load_catalog([source])
    assert show_thing(catalog, "words", Path())["for less memory"] == WAYS
    sized = show_thing(catalog, "mean-colour", Path())["for less memory"]
    assert sized == f"{WAYS} or --model-args max_pixels=N"


@pytest.mark.parametrize("name", ["gone", "openai:tiny@http://localhost:1/v1"])
def test_a_model_that_is_not_here_takes_no_memory(source, name):
    assert "for less memory" not in show_thing(load_catalog([source]), name, Path())


def test_a_model_whose_name_is_a_number_is_shown(source):
    write(source / "model_adapters" / "models.yaml", "7: {adapter: 'colours:Words'}\n")
    assert show_thing(load_catalog([source]), "7", Path())["adapter"] == "colours:Words"


def test_our_value_stands_beside_a_published_one(tmp_path):
    at = {"objects": 2}
    row = result(
        "bert-base-uncased", score(0.98, at=at, stderr=0.002), task=ALIGNMENT, version=VERSION
    )
    write_boards(tmp_path, board(row, task=ALIGNMENT, version=VERSION))
    found = show_thing(load_catalog(), ALIGNMENT, tmp_path)["reference"]
    (ours,) = [one for one in found if "ours" in one]
    assert (ours["where"], ours["value"], ours["ours"]) == ("Table 1", 0.9872, 0.98)
    assert ours["difference"] == pytest.approx(-0.0072)
    assert ours["in_standard_errors"] == pytest.approx(-3.6)


def test_our_value_without_a_standard_error_has_the_difference_alone(tmp_path):
    row = result(
        "bert-base-uncased", score(0.98, at={"objects": 2}), task=ALIGNMENT, version=VERSION
    )
    write_boards(tmp_path, board(row, task=ALIGNMENT, version=VERSION))
    found = show_thing(load_catalog(), ALIGNMENT, tmp_path)["reference"]
    assert "in_standard_errors" not in next(one for one in found if "ours" in one)


def test_without_a_board_the_published_values_stand_alone(tmp_path):
    shown = show_thing(load_catalog(), ALIGNMENT, tmp_path)
    assert not [one for one in shown["reference"] if "ours" in one]


def test_a_task_is_shown_with_what_it_needs_and_a_model_with_what_it_can(tmp_path, capsys):
    source = str(make_source(tmp_path / "ours"))
    words = ["--include-path", source, "--output", str(tmp_path)]
    assert main(["show", "few_shot_colours", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["needs"] == "ImageEncoder"
    assert main(["show", "mean-colour", *words]) == 0
    shown = capsys.readouterr().out
    assert "capabilities:\n- ImageEncoder\n" in shown
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")


def test_what_no_terminal_should_get_is_an_escape_of_yaml(tmp_path, capsys):
    text = TASK.replace('"a paper"', '"a \\u202e \\e[31m paper"')
    source = make_source(tmp_path, few_shot_colours=text)
    assert main(["show", "few_shot_colours", "--include-path", str(source)]) == 0
    told = capsys.readouterr().out
    assert told.replace("\n", "").isprintable()
    assert yaml.safe_load(told)["paper"] == "a \u202e \x1b[31m paper"


@pytest.mark.parametrize(
    ("name", "ways"), [("clip-rn50", "crops or grid"), ("raw-pixels", "crops"), ("tiny-bert", None)]
)
def test_a_model_is_shown_with_the_ways_in_which_it_may_encode_regions(name, ways):
    assert show_thing(load_catalog(), name, Path()).get("encode_by") == ways


def test_an_old_name_shows_the_model_of_the_new_one(caplog):
    shown = show_thing(load_catalog(), "tiny-rn-crops", Path())
    assert (shown["name"], shown["adapter"]) == ("tiny-rn", "timm_cnn:TimmCnn")
    assert caplog.messages == ["model tiny-rn-crops is now tiny-rn; the old name will go"]


@pytest.mark.parametrize("name", ["few_shot", "vlbench.probes.generalization.few_shot:few_shot"])
def test_a_probe_is_shown_with_what_it_takes_and_its_docstring(name):
    shown = show_thing(load_catalog(), name, Path())
    assert shown["name"].endswith("few_shot:few_shot")
    assert {key: shown["params"][key] for key in ("shots", "trials")} == {
        "shots": {
            "type": "list[Positive]",
            "default": REQUIRED,
            "about": "numbers of train images per class, each 1 or more.",
        },
        "trials": {
            "type": "Positive",
            "default": 10,
            "about": "random orders of the train images, 1 or more; scores are means over them.",
        },
    }
    assert "Args:" not in shown["docstring"]
    assert shown["docstring"].startswith("Return the test accuracy")


def test_an_adapter_is_shown_with_what_its_arguments_mean():
    takes = show_thing(load_catalog(), "resnet20-cifar10", Path())["arguments"]
    assert takes["weights"] == {
        "type": "str",
        "default": "",
        "about": "file with the `state_dict` of the network, or `random`.",
    }


def test_a_loader_is_shown_by_its_module_and_name():
    assert show_thing(load_catalog(), "hub:images", Path())["name"] == "vlbench.data.hub:images"


def test_loaders_that_end_alike_are_all_shown_without_what_a_run_fills_in():
    shown = show_thing(load_catalog(), "images", Path())
    assert {"vlbench.data.table:images", "vlbench.data.hub:images"} <= set(shown)
    assert "cache_dir" not in shown["vlbench.data.hub:images"]["params"]


def test_a_docstring_is_printed_as_it_stands(capsys):
    assert main(["show", "image_folder"]) == 0
    assert "docstring: |-\n  Return images labelled by" in capsys.readouterr().out


def test_a_model_is_shown_with_the_tasks_whose_data_it_was_trained_on():
    key = "trained on data of the tasks"
    tasks = show_thing(load_catalog(), "virtex", Path())[key].split(", ")
    assert {"caption_patterns_coco", "object_label_alignment_coco"} <= set(tasks)
    assert tasks == sorted(tasks)
    assert key not in show_thing(load_catalog(), "raw-pixels", Path())
