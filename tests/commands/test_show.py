import json

import yaml
from sources import TASK, make_source

from vlbench.cli import main


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
