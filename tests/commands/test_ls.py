import json

import pytest
from sources import make_source

from vlbench.cli import main


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return str(make_source(tmp_path_factory.mktemp("theirs") / "ours"))


def listed(source, capsys, *words):
    assert main(["ls", *words, "--include-path", source, "--json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_a_filter_is_a_tag_or_a_part_of_the_name(source, capsys):
    assert listed(source, capsys, "tasks", "ours").keys() == {"few_shot_colours"}
    named = listed(source, capsys, "tasks", "few_*_c")
    assert {"few_shot_colours", "few_shot_cifar10", "few_shot_cub"} <= named.keys()
    assert all(name.startswith("few_shot_c") for name in named)


def test_a_filter_is_a_capability_that_models_have_and_tasks_need(source, capsys):
    models = listed(source, capsys, "models", "ImageEncoder")
    assert "mean-colour" in models
    assert all("ImageEncoder" in row["capabilities"] for row in models.values())
    assert "few_shot_colours" in listed(source, capsys, "tasks", "ImageEncoder")


def test_a_filter_that_nothing_fits_is_an_error_with_the_nearest(source, capsys):
    assert main(["ls", "tasks", "few_shot_colors", "--include-path", source]) == 2
    told = capsys.readouterr().err
    assert "no task is named 'few_shot_colors'; did you mean few_shot_colours" in told


def test_models_are_listed_with_what_they_can_do_and_tasks_with_what_they_need(source, capsys):
    models = listed(source, capsys, "models")
    assert models["mean-colour"]["capabilities"] == ["ImageEncoder"]
    assert models["gone"]["capabilities"] is None
    assert listed(source, capsys, "tasks", "ours")["few_shot_colours"]["needs"] == "ImageEncoder"


def test_lines_of_a_pipe_are_not_padded(source, capsys):
    assert main(["ls", "models", "--include-path", source]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "mean-colour" in "".join(lines)
    assert [line for line in lines if line != line.rstrip()] == []
