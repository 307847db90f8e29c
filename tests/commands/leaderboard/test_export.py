from argparse import Namespace

import pytest
import yaml
from planted_boards import board, result, score, write
from planted_exports import HOSTILE

from vlbench.cli import main
from vlbench.commands.leaderboard.export import answer
from vlbench.errors import OutputError, SpecError, UnknownNameError

ENDED = {"request": "sha256:1", "run": {"finished": "2026-11-21T23:31:21+00:00"}}
SKIPPED = result("other", status="skipped", reason="the model has no TextEncoder")
ROWS = [result("m", score(), **ENDED), SKIPPED]


def exported(folder, form, to=None, tasks=(), rows=ROWS):
    write(folder, board(*rows))
    given = {"include_path": [], "output": folder, "tasks": list(tasks)}
    return answer(Namespace(format=form, to=to, pivot=False, models=[], **given))


@pytest.mark.parametrize("form", ["md", "csv", "tex", "json"])
def test_a_text_is_shown_and_what_is_left_out_is_a_problem(tmp_path, form):
    (text,), problems, code = exported(tmp_path, form)
    assert ("m" in text, "other" in text) == (True, False)
    assert problems == ["t: left out (skipped, the model has no TextEncoder): other"]
    assert code == 0


@pytest.mark.parametrize("form", ["md", "csv", "tex", "json"])
def test_a_file_holds_what_is_printed(tmp_path, capsys, form):
    shown = exported(tmp_path, form, tmp_path / "file").shown
    options = ["--output", str(tmp_path), "--format", form]
    assert main(["leaderboard", "export", *options]) == 0
    content = (tmp_path / "file").read_bytes()
    assert capsys.readouterr().out.encode().splitlines() == content.splitlines()
    assert shown == [f"wrote {tmp_path / 'file'}"]


def test_a_readme_is_updated_in_place(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- vlbench:begin t -->\n<!-- vlbench:end t -->\nafter\n")
    exported(tmp_path, "md", readme)
    once = readme.read_bytes()
    exported(tmp_path, "md", readme)
    assert readme.read_bytes() == once
    assert (once[:7], once[-7:], b"| m |" in once) == (b"before\n", b"\nafter\n", True)


def test_a_readme_without_markers_stays_as_it_is(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("mine")
    with pytest.raises(SpecError, match=r"README\.md: has no markers for t"):
        exported(tmp_path, "md", readme)
    assert readme.read_text() == "mine"


def test_a_readme_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(OutputError, match="cannot read "):
        exported(tmp_path / "boards", "md", tmp_path)


def test_a_format_of_many_files_needs_a_folder(tmp_path):
    with pytest.raises(UnknownNameError, match="--format hf writes a folder; pass --to DIR"):
        exported(tmp_path, "hf")


def test_files_are_written_below_a_folder(tmp_path):
    row = result("m", score(), provenance={"data": "vlbench.data.mnist:mnist sha256:1"}, **ENDED)
    shown, problems, code = exported(tmp_path, "hf", tmp_path / "hf", rows=[row, SKIPPED])
    (file,) = (tmp_path / "hf").rglob("*.yaml")
    assert yaml.safe_load(file.read_text())[0]["dataset"]["id"] == "ylecun/mnist"
    assert (shown, len(problems), code) == ([f"wrote 1 file below {tmp_path / 'hf'}"], 1, 0)


def test_where_nothing_can_be_exported_the_command_fails_with_the_reasons(tmp_path):
    _, problems, code = exported(tmp_path, "hf", tmp_path / "hf")
    assert (problems[1:], code) == (["t: left out (its data have no id on the hub): m"], 1)


def test_a_board_without_rows_fails_too(tmp_path):
    assert exported(tmp_path, "csv", rows=[SKIPPED]).code == 1


@pytest.mark.parametrize("form", ["csv", "tex", "json"])
def test_hostile_names_and_reasons_do_no_harm_to_a_terminal(tmp_path, form):
    names = [*HOSTILE, "bell\x07"]
    rows = [result(name, score(), notes=[name]) for name in names]
    rows += [result(f"{name}2", status="failed", reason=name) for name in names]
    shown, problems, _ = exported(tmp_path, form, rows=rows)
    lines = "".join([*shown, *problems])
    assert [c for c in lines if not c.isprintable() and c not in "\r\n"] == []


def test_help_says_what_formats_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["leaderboard", "export", "--help"])
    assert ".eval_results of the Hugging Face hub" in " ".join(capsys.readouterr().out.split())
