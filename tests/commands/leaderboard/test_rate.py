import json

import pytest
from judged import fill_all, questions, row_with
from planted_boards import board, write
from sources import make_source

from vlbench.cli import main
from vlbench.data.image_folder import image_folder

TASK = "few_shot_colours"


@pytest.fixture
def given(tmp_path):
    """A source whose task has nine test images, and a board with questions about four of them."""
    source = make_source(tmp_path / "ours")
    test = image_folder(root=source / "images").splits["test"]["image"]
    rows = questions(digests=test.examples().digests)
    row = row_with(tmp_path / "boards", rows, TASK)
    write(tmp_path / "boards", board(row, task=TASK))
    return ["--output", str(tmp_path / "boards"), "--include-path", str(source)]


def rate(folder, *words):
    return main(["leaderboard", "rate", str(folder), *words])


def test_sheets_are_written_and_read_back(given, tmp_path, capsys):
    folder = tmp_path / "judged"
    assert rate(folder, "--of", TASK, "m", "--images", "4", *given) == 0
    assert "wrote 3 sheets of 16 questions about 4 images" in capsys.readouterr().out
    assert len(list((folder / "sheets/images").glob("*.png"))) == 4
    fill_all(folder, lambda cells: "5" if cells["rater"] == "anna" else "4")
    assert rate(folder) == 0
    printed = capsys.readouterr().out
    assert "m on few_shot_colours: 3 raters, 4 images, 4 systems" in printed
    # Of 4 images that are rated alike, .527 may be rated 1 or 5, or differ by 4: .473^4 = .05.
    assert "4.33 [2.58, 4.68]" in printed
    assert "+0.00 [-2.11, +2.11]" in printed
    assert "readability: Krippendorff's ordinal alpha -0." in printed
    assert json.loads((folder / "ratings.json").read_text())["raters"] == 3


def test_equal_answers_have_no_alpha(given, tmp_path, capsys):
    assert rate(tmp_path / "judged", "--of", TASK, "m", "--images", "4", *given) == 0
    fill_all(tmp_path / "judged")
    assert rate(tmp_path / "judged") == 0
    assert "alpha undefined (all answers are equal)" in capsys.readouterr().out


NOT_JUDGED = [
    (["--of", TASK, "m"], "m on few_shot_colours has questions about 4 images, 50 requested"),
    ([], "the key of the sheets not found"),
]


@pytest.mark.parametrize(("words", "why"), NOT_JUDGED)
def test_what_cannot_be_judged_is_said(given, tmp_path, capsys, words, why):
    assert rate(tmp_path / "judged", *words, *given) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "judged").exists()


def test_the_key_of_other_sheets_is_never_lost(given, tmp_path, capsys):
    words = ["--of", TASK, "m", "--images", "4", *given]
    assert rate(tmp_path / "judged", *words) == 0
    key = (tmp_path / "judged/key.json").read_text()
    assert rate(tmp_path / "judged", *words, "--seed", "1") == 2
    assert (
        "already has the key.json of other sheets; choose another folder" in capsys.readouterr().err
    )
    assert (tmp_path / "judged/key.json").read_text() == key


@pytest.mark.parametrize("words", [["--seed", "-1"], ["--images", "0"]])
def test_a_number_that_is_none_is_refused(tmp_path, words, capsys):
    with pytest.raises(SystemExit):
        rate(tmp_path, *words)
    assert "must be a whole number" in capsys.readouterr().err
