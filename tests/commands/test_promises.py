"""What every command promises, asked of every command. A command without a line fails."""

import json
import os
import re
import shutil
from itertools import cycle
from pathlib import Path

import pytest
from command_lines import HOSTILE, LINES, plant

from vlbench import commands
from vlbench.cli import main
from vlbench.commands.parser import commands_in

SGR = r"\x1b\[[0-9;]*m"
FOLDER, NAME = Path(commands.__path__[0]), commands.__name__
KNOWN = [*commands_in(FOLDER, NAME)]
LEAVES = [one.word for one in KNOWN if not one.inner]
LEAVES += [f"{one.word} {inner.word}" for one in KNOWN for inner in one.inner]
NAMED = [(line, name, True) for line in LINES for name in line.names.split()]
NAMED += [(line, name, False) for line in LINES for name in line.unhinted.split()]
PLACED = [(line, place) for line in LINES for place in line.places.split()]
WITH_JSON = ("cache show", "data", "items", "ls tasks", "ls models", "show looks", "similarity")
HAS_JSON = ("cache", "data", "items", "ls", "show", "similarity")
# What computes for long and prints a few lines is asked in a pipe only.
COSTLY = (
    "attention",
    "features",
    "papers mine --no",
    "rdm",
    "rerun",
    "show few_shot ",
    "similarity",
)
COSTLY += ("leaderboard build", "leaderboard page", "leaderboard scatter")
PLAIN = ("check", "init", "show", "validate", "leaderboard export", "leaderboard merge")
PLAIN += ("leaderboard rate asked",)
# Models and probes are shown without a look at boards.
UNREAD = ("papers mine --no", "show few_shot ", "show looks")
LIGHT = [line for line in LINES if not line.words.startswith(COSTLY)]
OF_BOARDS = [line for line in LINES if re.search("--output|merge", line.words)]
OF_BOARDS = [line for line in OF_BOARDS if not line.words.startswith(UNREAD)]
BROKEN = ("{", '{"schema": 99}', '{"schema": 1, "version": NaN}')


def each(lines):
    return pytest.mark.parametrize("line", lines, ids=[line.words for line in lines])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The folder of the lines with texts of a stranger."""
    return plant(tmp_path_factory.mktemp("hostile"), HOSTILE)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("lines"))


@pytest.fixture
def run(planted, monkeypatch, capsys):
    """Run a command in the folder; return its exit code and what it prints."""
    monkeypatch.chdir(planted)

    def run(words):
        code = main(words)
        return code, *capsys.readouterr()

    return run


def test_each_command_has_a_line():
    assert set(LEAVES) - {line.command for line in LINES} == set()


@pytest.mark.parametrize("name", ["", *LEAVES])
def test_help_goes_to_stdout_and_fits_without_a_word_that_is_cut(name, monkeypatch, capsys):
    def printed(width):
        monkeypatch.setenv("COLUMNS", width)
        with pytest.raises(SystemExit, match="0"):
            main([*name.split(), "--help"])
        return capsys.readouterr()

    (narrow, err), (wide, _) = printed("80"), printed("2000")
    assert (narrow.startswith(f"usage: vlbench {name}"), err) == (True, "")
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert set(narrow.split()) - set(wide.split()) == set()


@each(LINES)
def test_a_line_in_a_pipe_spells_out_texts_of_strangers(line, hostile, monkeypatch, capsys):
    monkeypatch.chdir(hostile)
    rows = ("blind", "asks")
    assert main([f"{x}{HOSTILE}" if x in rows else x for x in line.words.split()]) == 0
    out, err = capsys.readouterr()
    assert (bool(out), "Traceback" in err) == (True, False)
    assert [c for c in out + err if not c.isprintable() and c != "\n"] == []


@each([line for line in LIGHT if not line.words.startswith(PLAIN)])
def test_a_narrow_terminal_without_colour_gets_none(line, run, monkeypatch):
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    code, out, _ = run(line.words.split())
    assert code == 0
    codes = {code for found in re.findall(SGR, out) for code in re.findall(r"\d+", found)}
    assert {code for code in codes if int(code) >= 30} == set()
    assert "\N{HORIZONTAL ELLIPSIS}" not in out


@each([line for line in LINES if line.words.startswith(WITH_JSON)])
def test_json_is_all_that_is_printed(line, run):
    code, out, _ = run([*line.words.split(), "--json"])
    assert (code, bool(json.loads(out))) == (0, True)


@each([line for line in LINES if not line.words.startswith(HAS_JSON)])
def test_json_is_refused_where_there_is_none(line, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*line.words.split(), "--json"])
    assert "unrecognized arguments: --json" in capsys.readouterr().err


@pytest.mark.parametrize(("line", "name", "hint"), NAMED)
def test_a_name_that_is_not_known_is_told_in_a_line_with_the_nearest(line, name, hint, run):
    code, out, err = run([f"{word}x" if word == name else word for word in line.words.split()])
    assert (code, out, f"{name}x" in err, err.count("\n")) == (2, "", True, 1)
    assert (f"did you mean {name}" in err) == hint


@pytest.mark.parametrize(("line", "place"), PLACED)
def test_a_place_that_is_not_there_is_told_in_a_line(line, place, run):
    code, out, err = run([f"no-{x}" if x == place else x for x in line.words.split()])
    assert (code, out, f"no-{place}" in err, err.count("\n")) == (2, "", True, 1)


@each([line for line, place in PLACED if place == "boards"])
def test_a_folder_without_boards_is_told_in_a_line(line, run, tmp_path):
    code, out, err = run([str(tmp_path) if x == "boards" else x for x in line.words.split()])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(f"no board.* in {tmp_path}", err)


@pytest.mark.parametrize(("line", "content"), [*zip(OF_BOARDS, cycle(BROKEN), strict=False)])
def test_a_broken_board_is_refused_with_its_file(line, content, run, monkeypatch, tmp_path):
    monkeypatch.chdir(shutil.copytree(".", tmp_path / "here"))
    for file in Path().glob("*/*.json"):
        file.write_text(content)
    code, out, err = run(line.words.split())
    assert (code, out, bool(re.search(r"\w+/\w+\.json", err))) == (2, "", True)


@each(list({line.command: line for line in LINES}.values()))
def test_an_interrupt_ends_with_130_and_a_line(line, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"vlbench.commands.{line.command.replace(' ', '.')}.answer", stop)
    code, (out, err) = main(line.words.split()), capsys.readouterr()
    assert (code, out, err[:21], err.count("\n")) == (130, "", "vlbench: Interrupted.", 1)


@each(list({line.command: line for line in LIGHT}.values()))
def test_a_reader_that_leaves_ends_a_command_quietly(line, run, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with monkeypatch.context() as patched, os.fdopen(writer, "w") as stream:
        patched.setattr("sys.stdout", stream)
        code, _, err = run(line.words.split())
    assert (code, "Traceback" in err) == (141, False)
