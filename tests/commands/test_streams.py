import io
import logging
import os
import subprocess
import sys

import pytest
from sources import make_source

from vlbench.cli import main
from vlbench.commands.streams import drain, is_of_reader, news, settle_streams
from vlbench.errors import Exited, exits_as_errors
from vlbench.system.console import Unpadded


def run(*words, redirect="", **environment):
    """Run vlbench in a shell with its streams redirected."""
    command = f"{sys.executable} -m vlbench {' '.join(words)} {redirect}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False,
        env=os.environ | environment,
    )  # fmt: skip


REDIRECTS = [
    (">&-", "standard output is closed; open it, or send it to /dev/null"),
    ("> /dev/full", "No space left on device"),
]


@pytest.mark.parametrize(("redirect", "why"), REDIRECTS)
def test_a_standard_output_that_takes_nothing_is_told(redirect, why):
    done = run("ls", "tasks", redirect=redirect)
    assert (done.returncode, done.stderr.count("\n"), why in done.stderr) == (1, 1, True)


@pytest.mark.parametrize(("words", "codes"), [(["ls", "tasks"], {0, 141}), (["--help"], {0})])
def test_a_reader_that_leaves_ends_a_command_quietly_as_shells_count_it(words, codes):
    done = run(*words, redirect="| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode in codes, done.stderr) == (True, "")


def ascii_output(monkeypatch):
    """Encode standard output in ASCII only; return the stream."""
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", stream)
    return stream


def test_ascii_only_output_spells_out_the_rest(tmp_path, capsys, monkeypatch):
    source = make_source(tmp_path / "ours")
    words = ["--model", "mean-colour", "--tasks", "few_shot_colours", "--include-path", str(source)]
    stream = ascii_output(monkeypatch)
    assert main([*words, "--output", str(tmp_path / "boards"), "--no-cache"]) == 0
    assert capsys.readouterr().err == ""
    assert rb"mean-colour \xb7 few_shot_colours: ok in" in stream.buffer.getvalue()


def test_streams_spell_out_what_their_encoding_lacks(monkeypatch):
    stream = ascii_output(monkeypatch)
    settle_streams()
    stream.write("é")
    drain()
    assert stream.buffer.getvalue() == rb"\xe9"


def test_an_end_for_want_of_a_reader_is_known():
    ended = SystemExit(1)
    ended.__context__ = BrokenPipeError()
    assert is_of_reader(ended)
    with pytest.raises(Exited) as told, exits_as_errors():
        raise ended
    assert is_of_reader(told.value)
    assert is_of_reader(BrokenPipeError())
    assert not is_of_reader(SystemExit(1))


def test_news_come_once_though_a_library_has_given_the_root_a_handler(capsys):
    root = logging.StreamHandler()
    logging.getLogger().addHandler(root)
    with news():
        logging.getLogger("vlbench.data").info("drawing")
    logging.getLogger().removeHandler(root)
    assert capsys.readouterr().err == "vlbench: drawing\n"


def test_blanks_at_the_ends_of_lines_are_left_out_and_others_kept():
    file = io.StringIO()
    Unpadded(file).write("  a  b   \n\n   \nc ")
    assert file.getvalue() == "  a  b\n\n\nc"


def test_news_of_a_file_whose_name_is_a_command_for_the_terminal_are_spelled_out(capsys):
    with news():
        logging.getLogger("vlbench.data").info("drawing \x1b]0;x\x07")
    assert capsys.readouterr().err == "vlbench: drawing \\x1b]0;x\\x07\n"
