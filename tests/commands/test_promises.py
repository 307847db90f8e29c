"""What every command promises, asked of every command. A command without a line fails."""

import json
import os
import re
import shutil
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
EACH = pytest.mark.parametrize("line", LINES, ids=lambda line: line.words)
NAMED = [(line, name) for line in LINES for name in line.names.split()]
PLACED = [(line, place) for line in LINES for place in line.places.split()]
OF_BOARDS = [line for line in LINES if "boards" in line.places]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The folder of the lines, and the same with texts of a stranger."""
    return {texts: plant(tmp_path_factory.mktemp("lines"), texts) for texts in ("", HOSTILE)}


@pytest.fixture
def run(planted, tmp_path, monkeypatch, capsys):
    """Run a command in a copy of the folder; return its exit code and what it prints."""

    def run(words, texts="", **environment):
        if not (tmp_path / "here").exists():
            shutil.copytree(planted[texts], tmp_path / "here")
        monkeypatch.chdir(tmp_path / "here")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main(words)
        return code, *capsys.readouterr()

    return run


def test_each_command_has_a_line():
    starts = {" ".join(line.words.split()[:n]) for line in LINES for n in (1, 2)}
    assert [name for name in LEAVES if name not in starts] == []


@pytest.mark.parametrize("width", ["80", "100"])
@pytest.mark.parametrize("name", LEAVES)
def test_help_goes_to_stdout_and_fits(name, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(SystemExit, match="0"):
        main([*name.split(), "--help"])
    out, err = capsys.readouterr()
    assert (out.startswith(f"usage: vlbench {name} "), err) == (True, "")
    assert [line for line in out.splitlines() if len(line) > int(width)] == []


@EACH
def test_a_line_works_and_prints_no_escapes_into_a_pipe(line, run):
    code, out, err = run(line.words.split())
    assert (code, bool(out), "Traceback" in err) == (0, True, False)
    assert [c for c in out if not c.isprintable() and c != "\n"] == []


@EACH
def test_a_narrow_terminal_without_colour_gets_none(line, run):
    code, out, _ = run(line.words.split(), COLUMNS="40", FORCE_COLOR="1", NO_COLOR="1")
    assert code == 0
    codes = {code for found in re.findall(SGR, out) for code in re.findall(r"\d+", found)}
    assert {code for code in codes if int(code) >= 30} == set()
    assert "\N{HORIZONTAL ELLIPSIS}" not in out


WITH_JSON = ("cache show", "data ", "items ", "ls ", "show ")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.words)
def test_json_is_all_that_is_printed(line, run):
    if line.words.startswith("cache prune"):
        assert run([*line.words.split(), "--json"])[:2] == (2, "")
    elif not line.words.startswith(WITH_JSON):
        with pytest.raises(SystemExit, match="2"):
            run([*line.words.split(), "--json"])
    else:
        code, out, _ = run([*line.words.split(), "--json"])
        assert (code, bool(json.loads(out))) == (0, True)


@EACH
def test_texts_of_strangers_are_spelled_out(line, run):
    row = ("blind", "asks")
    words = [f"{word}{HOSTILE}" if word in row else word for word in line.words.split()]
    code, out, err = run(words, HOSTILE)
    assert code in {0, 2}
    assert [c for c in out + err if not c.isprintable() and c != "\n"] == []


@pytest.mark.parametrize(("line", "name"), NAMED)
def test_a_name_that_is_not_known_is_told_in_a_line(line, name, run):
    words = [f"{word}x" if word == name else word for word in line.words.split()]
    code, out, err = run(words)
    assert (code, out, f"{name}x" in err, err.count("\n")) == (2, "", True, 1)


@pytest.mark.parametrize(("line", "place"), PLACED)
def test_a_place_that_is_not_there_is_told_in_a_line(line, place, run):
    words = [f"no-{word}" if word == place else word for word in line.words.split()]
    code, out, err = run(words)
    assert (code, out, f"no-{place}" in err, err.count("\n")) == (2, "", True, 1)


@pytest.mark.parametrize("content", ["{", '{"schema": 99}', '{"schema": 1, "version": NaN}'])
@pytest.mark.parametrize("line", OF_BOARDS, ids=lambda line: line.words)
def test_a_broken_board_is_refused_with_its_file(line, content, run):
    run(["ls", "models", "blind", "--include-path", "ours"])
    for file in Path("boards").glob("*.json"):
        file.write_text(content)
    code, out, err = run(line.words.split())
    assert (code, out, bool(re.search(r"boards/\w+\.json", err))) == (2, "", True)


@EACH
def test_an_interrupt_ends_with_130_and_a_line(line, run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    words = line.words.split()
    name = ".".join(words[:2] if words[0] == "leaderboard" else words[:1])
    monkeypatch.setattr(f"vlbench.commands.{name}.answer", stop)
    code, out, err = run(words)
    assert (code, out, err[:21], err.count("\n")) == (130, "", "vlbench: Interrupted.", 1)


@EACH
def test_a_reader_that_leaves_ends_a_command_quietly(line, run, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with monkeypatch.context() as patched, os.fdopen(writer, "w") as stream:
        patched.setattr("sys.stdout", stream)
        code, _, err = run(line.words.split())
    assert (code, "Traceback" in err) == (141, False)
