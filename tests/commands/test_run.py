from pathlib import Path

import pytest
from sources import write

from vlbench import cli
from vlbench.commands.parser import data_dirs, parser_of
from vlbench.commands.run import read_config
from vlbench.errors import SpecError

FILE = """\
model: [tiny-rn, raw-pixels]
tasks: few_shot_*
model-args: {weights: a.pt, shift: 0.5}
data_dir: {coco: /a, "": /b}
include_path: ../ours
cache_dir: cache
batch_size: auto
limit: 30
download: true
strict: false
name: null
"""

SAME = """\
    run --model tiny-rn,raw-pixels --tasks few_shot_* --model-args weights=a.pt,shift=0.5
    --data-dir coco=/a --data-dir =/b --include-path ../ours --cache-dir cache
    --batch-size auto --limit 30 --download
""".split()  # noqa: SIM905 - as it is typed


def parsed(words):
    return vars(parser_of().parse_args(words, once=False))


def words_of(text, tmp_path, *command):
    file = tmp_path / "run.yaml"
    write(file, text)
    return read_config(file, parsed(["run", "--trust", *command]), parsed(["run"]))


def test_options_in_a_file_are_those_of_the_command_line(tmp_path):
    assert parsed(["run", *words_of(FILE, tmp_path)]) == parsed(SAME)


def test_a_folder_of_data_on_the_command_line_replaces_that_of_the_file(tmp_path):
    own = ["--data-dir", "coco=/c"]
    found = parsed(["run", *words_of(FILE, tmp_path, *own), *own])
    assert data_dirs(found["data_dir"]) == {"": Path("/b"), "coco": Path("/c")}


@pytest.mark.parametrize("own", [["--limit", "7", "--model", "x"], ["--no-cache"]])
def test_the_command_line_overrides_the_file(own, tmp_path):
    found = parsed(["run", *words_of(FILE, tmp_path, *own), *own])
    wanted = parsed(["run", *own])
    changed = {key for key in wanted if wanted[key] != parsed(["run"])[key]}
    assert {key: found[key] for key in changed} == {key: wanted[key] for key in changed}
    assert found["batch_size"] is None


REFUSED = [
    ("tasks: a\nmodell: x\n", r"run.yaml:2: no option is named 'modell'; did you mean model"),
    ("config: other.yaml\n", r"run.yaml:1: no option is named 'config'"),
    ("answer: x\n", r"run.yaml:1: no option is named 'answer'"),
    ("strict: 3\n", r"run.yaml:1: strict must be true or false, not 3"),
    ("tasks: [[a]]\n", r"run.yaml:1: tasks must be a text, a number, or a list of these"),
    ("tasks: ['a,b', c]\n", r"run.yaml:1: tasks has a value that contains a comma"),
    ("- a\n", r"run.yaml: must be a mapping"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_the_command_line_could_not_say_is_an_error_with_its_line(text, message, tmp_path):
    with pytest.raises(SpecError, match=message):
        words_of(text, tmp_path)


def test_a_file_that_is_not_there_is_an_error_with_exit_code_2(tmp_path, capsys):
    assert cli.main(["--config", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err


def test_a_run_from_a_file_is_the_run_of_its_options(tmp_path, capsys):
    write(tmp_path / "run.yaml", "model: raw-pixels\ntasks: few_shot_digits\ndry-run: true\n")
    assert cli.main(["--config", str(tmp_path / "run.yaml"), "--output", str(tmp_path)]) == 0
    assert "few_shot_digits" in capsys.readouterr().out


def test_a_run_without_model_or_tasks_says_what_it_needs(capsys):
    assert cli.main(["--model", "raw-pixels"]) == 2
    assert "pass --model and --tasks" in capsys.readouterr().err
