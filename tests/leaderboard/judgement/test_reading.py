import csv
import json

import numpy as np
import pytest
from judged import fill_all, filled, sheets, write_filled

from vlbench.errors import DataAbsent, DataError, SpecError
from vlbench.leaderboard.judgement.reading import read_judgements


@pytest.fixture
def folder(tmp_path):
    """A folder whose sheets three people have filled in with threes."""
    return fill_all(sheets(tmp_path))


def edited(folder, edit, name="readability", rater="anna"):
    """Change the lines of a filled sheet as lists of cells."""
    file = folder / "filled" / rater / f"{name}.csv"
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    edit(rows)
    write_filled(file, rows)


def test_answers_are_sorted_by_rater_image_and_system(folder):
    """Whoever asks is known by the question; anna says 5 of people's, others 1 and 2 less."""

    def answer(cells):
        best = 5 if cells["question"].startswith("who") else int(cells["question"].split()[2]) + 1
        return str(max(1, best - {"anna": 0, "ben": 1, "chloe": 2}[cells["rater"]]))

    filled(folder, "readability", answer)
    found = read_judgements(folder)
    assert list(found.key.systems) == ["1", "2", "3", "human"]
    expected = [[2, 3, 4, 5], [1, 2, 3, 4], [1, 1, 2, 3]]
    assert found.answers["readability"].tolist() == [[row] * 4 for row in expected]
    assert (found.answers["image_relevance"] == 3).all()


def test_lines_may_be_sorted_anew_and_blank_ones_stand_between(folder):
    def edit(rows):
        rows[1][-1] = " 4 "
        rows[1:] = [[], *reversed(rows[1:])]

    edited(folder, edit)
    answers = read_judgements(folder).answers["readability"]
    assert sorted(np.unique(answers, return_counts=True)[1].tolist()) == [1, 47]


def set_cell(line, column, value):
    def edit(rows):
        rows[line - 1][column] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_cell(3, 2, ""), r"line 3, column answer: is empty; answer from 1 to 5$"),
        (set_cell(5, 2, "6"), r"line 5, column answer: '6' is not valid; answer from 1 to 5$"),
        (set_cell(5, 2, "2.5"), r"line 5, column answer: '2\.5' is not valid; answer from 1 to 5$"),
        (
            set_cell(5, 2, "good"),
            r"line 5, column answer: 'good' is not valid; answer from 1 to 5$",
        ),
        (set_cell(2, 1, "why?"), r"line 2, column question: 'why\?' differs from the key"),
        (
            set_cell(2, 0, "99"),
            r"line 2, column number: '99' is not on this sheet \(and 1 more\)",
        ),
        (set_cell(3, 0, "1"), r"line 3, column number: '1' appears twice \(and 1 more\)$"),
        (lambda rows: rows.pop(4), r"question 4 is missing$"),
        (lambda rows: rows[4].append("x"), r"line 5: 4 columns, not 3$"),
        (
            set_cell(1, 2, "Antwort"),
            r"line 1: the columns are number, question, Antwort, not number",
        ),
    ],
)
def test_what_is_wrong_with_a_sheet_is_said_with_its_place(folder, edit, message):
    edited(folder, edit)
    with pytest.raises(DataError, match=rf"^filled/anna/readability\.csv(, |: ).*{message}"):
        read_judgements(folder)


def test_a_sheet_in_another_encoding_is_named(folder):
    (folder / "filled/ben/caption_relevance.csv").write_bytes("number;\xe4".encode("latin-1"))
    with pytest.raises(DataError, match=r"^filled/ben/caption_relevance\.csv is no UTF-8: byte 7$"):
        read_judgements(folder)


def test_a_sheet_that_is_not_there_is_named(folder):
    (folder / "filled/ben/image_relevance.csv").unlink()
    with pytest.raises(DataAbsent, match=r"^the sheet filled/ben/image_relevance\.csv is absent"):
        read_judgements(folder)


def test_one_rater_is_too_few(tmp_path):
    folder = sheets(tmp_path)
    filled(folder, "readability", lambda _: "1", raters=["anna"])
    with pytest.raises(
        DataAbsent, match=r"a second rater's folder of sheets \(1 in filled/\) is absent"
    ):
        read_judgements(folder)


def test_without_a_key_nothing_is_read(tmp_path):
    with pytest.raises(DataAbsent, match=r"^the key of the sheets is absent; get it from vlbench"):
        read_judgements(tmp_path)


def planted(key, **changes):
    return json.dumps(key | changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "[]", "is not a key of sheets: .*wanted an object"),
        (lambda _: "{", "is not a key of sheets"),
        (lambda key: planted(key, schema=2), "is not a key of schema 1"),
        (lambda key: planted(key, sheets={}), "is not a key of schema 1"),
        (
            lambda key: planted(key, systems=["1", "2", "3"]),
            "readability does not have one question per",
        ),
        (
            lambda key: planted(key, seed="0"),
            "is not a key of sheets: .*seed.* wanted a whole number",
        ),
        (
            lambda key: planted(key, sheets=key["sheets"] | {"readability": []}),
            "readability does not have one question per image and system",
        ),
    ],
)
def test_a_key_that_is_none_is_named(folder, change, message):
    file = folder / "key.json"
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(SpecError, match=rf"^{file}: {message}"):
        read_judgements(folder)
