"""Notes of rows: every view that prints a score prints them, each distinct note once."""

import shutil

import pytest
from PIL import Image
from planted_boards import board, counts, result, score, write

import vlbench
from vlbench.cli import main
from vlbench.report.notes import joined_notes, notes_of

LEAK = "data: 80 of 80 rows of test are also in train"
CUT = "truncated texts: 3"


def row(model, *notes, **more):
    return result(model, score(), notes=notes, **more)


def lines(*rows):
    return joined_notes((one, "") for one in rows)


def test_equal_notes_share_a_line_and_all_models_are_not_listed():
    assert lines(row("a", LEAK), row("b", LEAK), row("c")) == [f"{LEAK} (a, b)"]
    assert lines(*(row(name, LEAK) for name in "abcd")) == [f"{LEAK} (all models)"]


def test_notes_that_differ_only_in_numbers_have_their_range():
    notes = [f"{n} of 10,000 choices are tied" for n in ("9,000", "800", "7,000.5")]
    joined = lines(*(row(name, note) for name, note in zip("abc", notes, strict=True)))
    assert joined == ["800 to 9,000 of 10,000 choices are tied (a, b, c)"]


def test_numbers_within_words_tell_notes_apart():
    notes = ["weights of rn50", "best head 3-4", "within 1e-6", "in 1.5.2"]
    others = ["weights of rn101", "best head 5-6", "within 1e-5", "in 1.5.3"]
    assert len(lines(row("a", *notes), row("b", *others))) == 8


def test_rows_of_several_tables_are_named_by_place():
    rows = [(row("a", LEAK), "T"), (row("a", LEAK), "U"), (row("b", "# 2"), "U"), (row("c"), "U")]
    assert joined_notes([*rows, (row("d", "3 2"), "U")]) == [
        f"{LEAK} (a on T; U)",
        "# 2 (b on U)",
        "3 2 (d on U)",
    ]


def test_truncated_texts_are_a_note_even_if_all_are_and_an_empty_note_is_none():
    cut = row("a", "", counts={**counts(3, 3), "truncated_texts": 3})
    assert notes_of(cut) == [CUT]


@pytest.fixture
def output(tmp_path):
    """Boards of two tasks; a control has a note that only the table of its board prints."""
    cut = {**counts(), "truncated_texts": 3}
    rows = [row("a", LEAK), row("b", counts=cut), row("c")]
    rows.append(row("blind", "only ties", provenance={"control": True}))
    return write(tmp_path, board(*rows), board(row("a"), task="u"))


VIEWS = {
    "show t": (f"note: {LEAK} (a)", f"note: {CUT} (b)", "note: only ties (blind)"),
    "show": ("50.0 %!", "! the row has notes.", "show TASK prints the notes"),
    "export t --format md": (f"- {LEAK} (a)", f"- {CUT} (b)", "- only ties (blind)"),
    "export t --format tex": (f"{LEAK} (a). {CUT} (b). only ties (blind).}}",),
    "export t --format csv": ("paper,notes", f",{LEAK}\r\n", f",{CUT}\r\n"),
    "export t --format json": (LEAK, '"truncated_texts": 3'),
    "export --pivot --format md": ("50.0 %! |", f"- {LEAK} (a on T)", f"- {CUT} (b on T)"),
    "export --pivot --format tex": ("50.0 %! &", f"{LEAK} (a on T). {CUT} (b on T)."),
    "export --pivot --format csv": (f",{LEAK}\r\n", f",{CUT}\r\n"),
    "export --pivot --format json": (f'"notes": "{LEAK}"', f'"notes": "{CUT}"'),
}


@pytest.mark.parametrize("command", VIEWS)
def test_a_view_prints_the_notes(output, capfdbinary, command):
    assert main(["leaderboard", *command.split(), "--output", str(output)]) == 0
    text = capfdbinary.readouterr().out.decode().replace("\\", "")
    assert [one for one in VIEWS[command] if one not in text] == []


def test_python_has_the_notes_of_each_score(output):
    notes = vlbench.load(output).frame().set_index(["task", "model"])["notes"]
    assert (notes["t", "a"], notes["t", "b"], notes["t", "c"]) == (LEAK, CUT, "")
    assert f"<td>{LEAK}</td>" in vlbench.load(output)._repr_html_()


def test_a_run_on_test_images_that_are_in_train_prints_it(tmp_path, capsys):
    for i, name in enumerate(["red", "blue"] * 10):
        folder = tmp_path / "leak" / "train" / name
        folder.mkdir(parents=True, exist_ok=True)
        colour = (90 + i, 0, 0) if name == "red" else (0, 0, 90 + i)
        Image.new("RGB", (8, 8), colour).save(folder / f"{i}.png")
    shutil.copytree(tmp_path / "leak" / "train", tmp_path / "leak" / "test")
    words = ["--model", "raw-pixels", "--images", str(tmp_path / "leak"), "--no-cache"]
    tasks = ["knn_images", "transfer_images", "few_shot_images", "clustering_images"]
    for several in (tasks[:1], tasks):
        given = [*words, "--tasks", ",".join(several), "--output", str(tmp_path / "out")]
        assert main(given) == 0
        text = capsys.readouterr().out
        assert text.count("rows of test are also in train (raw-pixels") == 1
    assert "100.0 %!" in text
