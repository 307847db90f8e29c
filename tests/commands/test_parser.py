import argparse
import sys
from pathlib import Path

import pytest

from vlbench import commands
from vlbench.cli import main
from vlbench.commands import parser
from vlbench.commands.parser import commands_in, data_dirs, normalise_argv, parser_of
from vlbench.commands.run import insert_config
from vlbench.errors import UnknownNameError

(FOLDER,) = map(Path, commands.__path__)


def parsed(*words):
    return parser_of().parse_args(normalise_argv(words))


WORDS = [
    (["--model", "a"], ["run", "--model", "a"]),
    (["--model_args=a_b=c_d"], ["run", "--model-args=a_b=c_d"]),
    (["ls", "tasks", "--include_path", "x_y"], ["ls", "tasks", "--include-path", "x_y"]),
    (["--help"], ["--help"]),
    (["--version"], ["--version"]),
    ([], ["--help"]),
    (["leaderboard"], ["leaderboard", "--help"]),
]


@pytest.mark.parametrize(("words", "wanted"), WORDS)
def test_run_and_help_may_be_left_out_and_options_have_two_spellings(words, wanted):
    assert normalise_argv(words) == wanted


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
    assert parsed(*words).output == Path("results" if words is RUN else "leaderboards")


@pytest.mark.parametrize("words", [RUN, ["check", "a"], ["rerun", "b", "a"]])
def test_the_environment_says_which_device_unless_the_command_does(words, monkeypatch):
    monkeypatch.setenv("VLBENCH_DEVICE", "cuda:1")
    assert parsed(*words).device == "cuda:1"
    assert parsed(*words, "--device", "cpu").device == "cpu"


def test_a_file_of_options_overrides_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_OUTPUT", "mine")
    (tmp_path / "run.yaml").write_text("output: theirs")
    words = [*RUN, "--config", str(tmp_path / "run.yaml")]
    assert parsed(*insert_config(parsed(*words), words)).output == Path("theirs")


def words_of(known):
    """Return the words of commands, with those before an inner command's."""
    for command in known:
        yield [command.word]
        yield from ([command.word, *words] for words in words_of(command.inner))


KNOWN = [*words_of(commands_in(FOLDER, commands.__name__))]


def test_every_module_that_answers_is_a_command_under_the_name_of_its_file():
    files = [file for file in FOLDER.rglob("*.py") if "\ndef answer(" in file.read_text("utf-8")]
    named = {" ".join(file.relative_to(FOLDER).with_suffix("").parts): file for file in files}
    assert named.keys() | {"leaderboard"} == {" ".join(words) for words in KNOWN}
    for name, file in named.items():
        assert file.read_text("utf-8").startswith(f'"""`vlbench {name}`: ')


PLANTED = '''\
"""`vlbench greet`: say hello."""

from vlbench.commands import Answer

def add_options(greet):
    greet.add_argument("name")
    greet.add_argument("--loud", action="store_true", help="as loud as it goes")

def answer(arguments):
    hello = f"hello {arguments.name}"
    return Answer([hello.upper() if arguments.loud else hello], ["nobody answers"], 1)
'''


@pytest.fixture
def greet(tmp_path, monkeypatch):
    """A command that is one file, in a folder of its own."""
    (tmp_path / "greet.py").write_text(PLANTED)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    yield
    sys.modules.pop("vlbench.commands.greet", None)


@pytest.mark.usefixtures("greet")
def test_a_command_is_one_file(capsys):
    assert main(["greet", "you", "--loud"]) == 1
    assert capsys.readouterr() == ("HELLO YOU\n", "nobody answers\n")


HELP = [
    (["--help"], "greet say hello"),
    (["greet", "--help"], "as loud as it goes"),
    (["gret"], "did you mean greet?"),
    (["greet", "you", "--lowd"], "did you mean --loud?"),
]


@pytest.mark.usefixtures("greet")
@pytest.mark.parametrize(("words", "text"), HELP)
def test_help_and_hints_know_a_planted_command(words, text, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert text in " ".join(
        "".join(capsys.readouterr()).split()
    )  # columns differ by Python's version


def test_a_module_is_imported_when_its_word_is_typed(greet):
    del greet
    parser = parser_of()
    assert "vlbench.commands.greet" not in sys.modules
    assert parser.parse_args(["greet", "you"]).name == "you"
    assert "vlbench.commands.greet" in sys.modules


def test_whole_numbers_begin_at_0_and_positive_ones_at_1():
    assert (parser.whole_number("0"), parser.positive("1")) == (0, 1)
    with pytest.raises(argparse.ArgumentTypeError, match="whole number from 1, not '0'"):
        parser.positive("0")


TYPED_TWICE = [
    (["--images", "a", "--images=b"], "--images is given twice; give it once\n"),
    (["-m", "a", "--model", "b"], "--model is given twice; give it once, its values separated"),
    (["ls", "tasks", "--include-path", "a", "--include-path", "a"], ""),
    (["run", "--imag", "a", "--images", "b"], "--images is given twice; give it once\n"),
    (["run", "-ma", "--model=b"], "--model is given twice; give it once, its values separated"),
]


@pytest.mark.parametrize(("words", "told"), TYPED_TWICE)
def test_an_option_with_one_value_is_refused_if_it_is_typed_twice(words, told, capsys):
    parser = parser_of()
    if told:
        with pytest.raises(SystemExit):
            parser.parse_args(normalise_argv(words))
    else:
        parser.parse_args(words)
    assert told in capsys.readouterr().err


def test_a_folder_that_is_given_twice_is_refused():
    assert data_dirs(["x", "x", "coco=y"]) == {"": Path("x"), "coco": Path("y")}
    with pytest.raises(UnknownNameError, match="two folders for coco: y and z"):
        data_dirs(["coco=y", "coco=z"])
    with pytest.raises(UnknownNameError, match="two folders for all data: x and z"):
        data_dirs(["x", "z"])
