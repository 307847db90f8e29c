import json

from sources import make_source

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
