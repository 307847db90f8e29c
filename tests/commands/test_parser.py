from pathlib import Path

import pytest

from vlbench.cli import COMMANDS
from vlbench.commands.config import configured
from vlbench.commands.parser import data_dirs, parser_of, spelled


def parsed(*words):
    return parser_of(COMMANDS).parse_args(spelled(words))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--model", "a"], ["run", "--model", "a"]),
        (["--model_args=a_b=c_d"], ["run", "--model-args=a_b=c_d"]),
        (["ls", "tasks", "--include_path", "x_y"], ["ls", "tasks", "--include-path", "x_y"]),
        (["--help"], ["--help"]),
        (["--version"], ["--version"]),
        ([], ["--help"]),
        (["leaderboard"], ["leaderboard", "--help"]),
    ],
)
def test_run_and_help_may_be_left_out_and_options_have_two_spellings(words, wanted):
    assert spelled(words) == wanted


def test_a_folder_of_data_is_for_one_name_or_for_all():
    assert data_dirs(["x", "coco=y=z"]) == {"": Path("x"), "coco": Path("y=z")}


def test_the_batch_size_is_a_number_or_measured():
    words = ["--model", "a", "--tasks", "b"]
    assert parsed(*words).batch_size == 32
    assert parsed(*words, "--batch-size", "8").batch_size == 8
    assert parsed(*words, "--batch-size", "auto").batch_size is None


RUN = ["run", "--model", "a", "--tasks", "b"]


@pytest.mark.parametrize("words", [RUN, ["leaderboard", "show", "b"], ["items", "b", "a"]])
def test_the_environment_says_where_boards_are_unless_the_command_does(words, monkeypatch):
    monkeypatch.setenv("VLBENCH_OUTPUT", "mine")
    assert parsed(*words).output == Path("mine")
    assert parsed(*words, "--output", "theirs").output == Path("theirs")
    monkeypatch.setenv("VLBENCH_OUTPUT", "")
    assert parsed(*words).output == Path("leaderboards")


@pytest.mark.parametrize("words", [RUN, ["check", "a"], ["rerun", "b", "a"]])
def test_the_environment_says_which_device_unless_the_command_does(words, monkeypatch):
    monkeypatch.setenv("VLBENCH_DEVICE", "cuda:1")
    assert parsed(*words).device == "cuda:1"
    assert parsed(*words, "--device", "cpu").device == "cpu"


def test_a_file_of_options_overrides_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_OUTPUT", "mine")
    (tmp_path / "run.yaml").write_text("output: theirs")
    words = [*RUN, "--config", str(tmp_path / "run.yaml")]
    parser = parser_of(COMMANDS)
    assert parser.parse_args(configured(parser, parsed(*words), words)).output == Path("theirs")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*command.split(), "--help")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: vlbench")
