"""What is printed at a terminal of 80 columns, and into a file: nothing is cut."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from sources import TASK, make_source, write

from vlbench.cli import main
from vlbench.engine.progress import Bar

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ["--output", str(ROOT / "leaderboards")]
LONG = "few_shot_of_the_colours_of_very_many_things_that_nobody_has_named"

# What only a narrow terminal says.
NARROW = {"more", "column", "columns", "in", "a", "wider", "terminal", "or", "file"}

LISTINGS = [["ls", kind] for kind in ("tasks", "models", "probes", "data")]
BOARD_WORDS = [
    ["leaderboard", "show", *BOARDS],
    ["leaderboard", "compare", "tiny-clip", "tiny-vlm", "--tasks", "few_shot_scenes", *BOARDS],
    ["leaderboard", "reproduce", "arXiv:2104.08313", *BOARDS],
    ["items", "zero_shot_scenes", "tiny-clip", "--wrong", *BOARDS],
]


@pytest.fixture
def printed(capsys, monkeypatch):
    """Return what a command prints at a terminal so wide, or into a file."""

    def run(words, width=None):
        for name, value in {"COLUMNS": width, "FORCE_COLOR": width}.items():
            monkeypatch.delenv(name, raising=False)
            if value:
                monkeypatch.setenv(name, str(value))
        monkeypatch.delenv("NO_COLOR", raising=False)
        capsys.readouterr()
        main(words)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)

    return run


def require_whole(narrow, wide, width):
    """Assert that every word of a narrow text is one of the wide text, and that tables fit.

    Lines outside tables, such as commands to be copied, are left to the terminal.
    """
    longer = [line.rstrip() for line in narrow.splitlines() if cell_len(line) > width]
    assert set(longer) <= set(wide.splitlines())
    assert "\N{HORIZONTAL ELLIPSIS}" not in narrow
    words = {word for word in narrow.split() if set(word) != {"─"}}
    heads = {f"{word}:" for word in wide.split()}  # of cells below each other
    assert words - set(wide.split()) - heads - NARROW - {str(n) for n in range(1, 30)} == set()


@pytest.mark.parametrize("words", [*LISTINGS, *BOARD_WORDS], ids=" ".join)
def test_no_word_and_no_number_is_cut_and_what_goes_into_a_file_is_not_padded(words, printed):
    wide = printed(words)
    assert wide.strip()
    assert [line for line in wide.splitlines() if line != line.rstrip()] == []
    require_whole(printed(words, 80), wide, 80)


@pytest.mark.parametrize("words", [["--dry-run"], ["--no-cache"]])
def test_the_plan_and_a_run_cut_nothing(words, printed, tmp_path):
    source = make_source(tmp_path / "ours")
    write(source / "tasks" / f"{LONG}.yaml", TASK)
    words = ["--model", "mean-colour,words,fails", "--tasks", "ours", *words]
    words += ["--include-path", str(source), "--output", str(tmp_path / "boards"), "-v"]
    assert [line for line in printed(words).splitlines() if line != line.rstrip()] == []
    narrow = printed([*words, "--overwrite"], 80)
    assert [line for line in narrow.splitlines() if cell_len(line) > 80] == []
    assert {LONG, "ImageEncoder"} <= set(narrow.split())


def test_what_check_finds_is_broken_between_words(printed, tmp_path):
    words = ["check", "fails", "--include-path", str(make_source(tmp_path / "ours"))]
    wide = printed(words)
    require_whole(printed(words, 80), wide, 80)
    assert max(map(len, wide.splitlines())) > 80


def test_progress_is_whole():
    text = StringIO()
    model = "open_clip:ViT-B-32/laion2b_s34b_b79k"
    with Bar(Console(file=text, force_terminal=True, width=80)) as bar:
        bar.begin(model, LONG)
        bar.start("encode_images on pictures", 1_281_167)
        bar.advance(999_999)
        bar._bars.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue()).replace("\r", "\n")
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert [line for line in shown.splitlines() if cell_len(line) > 80] == []
    assert {model, LONG, "encode_images", "999999/1281167"} <= set(shown.split())
