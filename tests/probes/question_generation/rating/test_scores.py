import csv
import json

import numpy as np
import pytest
from judged import fill_all, filled, sheets, write_filled

from vlbench.errors import DataAbsent, DataError, SpecError
from vlbench.probes.question_generation.rating.scores import (
    agreement,
    as_json,
    mean_ratings,
    ordinal_alpha,
    read_ratings,
)


@pytest.mark.parametrize(
    ("answers", "alpha"),
    [
        ([[1, 2, 5], [1, 2, 5]], 1.0),
        # Coincidences 11, 22: 2 each, 12 and 21: 1 each. 1 - (6 - 1) * 1 / (3 * 3).
        ([[1, 2, 1], [1, 2, 2]], 4 / 9),
        # Values 1 and 5 are neighbours where 2, 3 and 4 are never given: again 4 / 9.
        ([[1, 5, 1], [1, 5, 5]], 4 / 9),
        # Ranks put 1 and 3 as far apart as 5 answers, squared: 1 - 2 * 25 / (600 / 7).
        ([[1, 2, 3, 1], [1, 2, 3, 3]], 5 / 12),
    ],
)
def test_agreement_is_as_worked_out_by_hand(answers, alpha):
    assert agreement(np.array(answers)) == pytest.approx(alpha)


def test_agreement_is_krippendorffs_where_ratings_are_missing():
    # Krippendorff's four observers and twelve units; 0 is missing. Alpha is .815 (Krippendorff
    # 2011, section D).
    rated = ["1101", "2232", "3333", "3333", "2222", "1234"]
    rated += ["4444", "1121", "2222", "0555", "0011", "0030"]
    counts = np.array([[unit.count(value) for value in "12345"] for unit in rated])
    assert ordinal_alpha(counts) == pytest.approx(0.815, abs=5e-4)


def test_agreement_on_two_values_is_krippendorffs():
    # Two observers and ten units of two values; alpha is .095 (Krippendorff 2011, section A).
    meg, owen = [1, 2, 1, 1, 1, 1, 1, 1, 2, 1], [2, 2, 2, 1, 1, 2, 1, 1, 1, 1]
    assert agreement(np.array([meg, owen])) == pytest.approx(0.095, abs=5e-4)


def test_answers_by_chance_do_not_agree():
    answers = np.random.default_rng(0).integers(1, 6, (3, 50, 4))
    assert agreement(answers) == pytest.approx(0, abs=0.1)


def test_people_who_always_say_the_same_have_no_agreement():
    assert agreement(np.full((3, 4, 4), 5)) is None


def test_a_mean_has_an_interval_and_stands_beside_peoples(tmp_path):
    folder = fill_all(sheets(tmp_path, count=20))

    def answer(cells):
        image = int(cells["question"][:-1].split()[-1])
        return str(5 if cells["question"].startswith("who") else 2 + 2 * (image % 2))

    filled(folder, "readability", answer)
    found = {(one.sheet, one.system): one for one in mean_ratings(read_ratings(folder))}
    assert len(found) == 12
    first = found["readability", "1"]
    assert first.mean.value == pytest.approx(3)
    # Of 20 images half have a 2 and half a 4: a standard error of 1 / sqrt(20).
    assert first.mean.stderr == pytest.approx(20**-0.5, rel=0.1)
    assert first.mean.ci95 == pytest.approx((3 - 1.96 * 20**-0.5, 3 + 1.96 * 20**-0.5), abs=0.1)
    assert first.difference_from_human.value == pytest.approx(-2)
    assert first.difference_from_human.ci95[1] < 0
    # Of 20 images that are all rated 5, .139 may be rated 1: .861^20 = .05.
    expected = (5 - 4 * 0.1391, 5)
    assert found["readability", "human"].mean.ci95 == pytest.approx(expected, abs=1e-3)
    assert found["readability", "human"].difference_from_human is None
    assert found["image_relevance", "2"].difference_from_human.value == 0


def test_an_interval_ends_where_the_scale_does(tmp_path):
    folder = fill_all(sheets(tmp_path, count=20))

    def answer(cells):
        is_first = int(cells["question"][:-1].split()[-1]) == 0
        return str(1 if cells["question"].startswith("who") else 5 - is_first)

    filled(folder, "readability", answer)
    found = {(one.sheet, one.system): one for one in mean_ratings(read_ratings(folder))}
    first = found["readability", "1"]
    # A mean of 4.95 with a standard error of .05 or so: the upper end would be above 5.
    assert first.mean.value == pytest.approx(4.95)
    assert first.mean.ci95[1] == 5
    assert first.difference_from_human.ci95[1] == 4


def test_all_that_people_said_is_plain_values(tmp_path):
    content = as_json(read_ratings(fill_all(sheets(tmp_path))))
    assert (content["raters"], content["images"], content["model"]) == (3, 4, "m")
    assert {*content["agreement"]} == {"readability", "caption_relevance", "image_relevance"}
    assert {*content["agreement"].values()} == {None}
    assert content["questions"].startswith("sha256:")
    assert len(content["means"]) == 12


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
    found = read_ratings(folder)
    assert list(found.key.systems) == ["1", "2", "3", "human"]
    expected = [[2, 3, 4, 5], [1, 2, 3, 4], [1, 1, 2, 3]]
    assert found.answers["readability"].tolist() == [[row] * 4 for row in expected]
    assert (found.answers["image_relevance"] == 3).all()


def test_lines_may_be_sorted_anew_and_blank_ones_stand_between(folder):
    def edit(rows):
        rows[1][-1] = " 4 "
        rows[1:] = [[], *reversed(rows[1:])]

    edited(folder, edit)
    answers = read_ratings(folder).answers["readability"]
    assert sorted(np.unique(answers, return_counts=True)[1].tolist()) == [1, 47]


def set_cell(line, column, value):
    def edit(rows):
        rows[line - 1][column] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_cell(3, 2, ""), r"question 2: the answer is ''; answer from 1 to 5$"),
        (set_cell(5, 2, "6"), r"question 4: the answer is '6'; answer from 1 to 5$"),
        (set_cell(5, 2, "2.5"), r"question 4: the answer is '2\.5'; answer from 1 to 5$"),
        (set_cell(5, 2, "good"), r"question 4: the answer is 'good'; answer from 1 to 5$"),
        (set_cell(2, 1, "why?"), r"question 1, 'why\?' is not the question of the key"),
        (set_cell(2, 0, "99"), r"must list each question from 1 to \d+ once$"),
        (set_cell(3, 0, "1"), r"must list each question from 1 to \d+ once$"),
        (lambda rows: rows.pop(4), r"must list each question from 1 to \d+ once$"),
        (lambda rows: rows[4].append("x"), r"cannot be read as CSV: .*line 5"),
        (set_cell(1, 2, "Antwort"), r"the columns are not number, question, answer; save it as"),
    ],
)
def test_what_is_wrong_with_a_sheet_is_said_with_its_place(folder, edit, message):
    edited(folder, edit)
    with pytest.raises(DataError, match=rf"^filled/anna/readability\.csv.*{message}"):
        read_ratings(folder)


def test_a_sheet_in_another_encoding_or_that_is_not_there_is_named(folder):
    name, sheet = r"filled/ben/caption_relevance\.csv", folder / "filled/ben/caption_relevance.csv"
    sheet.write_bytes("number;\xe4".encode("latin-1"))
    with pytest.raises(DataError, match=rf"^{name} is not UTF-8: byte 7$"):
        read_ratings(folder)
    sheet.unlink()
    with pytest.raises(DataAbsent, match=rf"^the sheet {name} not found"):
        read_ratings(folder)


def test_one_rater_is_too_few(tmp_path):
    folder = sheets(tmp_path)
    filled(folder, "readability", lambda _: "1", raters=["anna"])
    why = r"a second rater's folder of sheets \(1 in filled/\) not found"
    with pytest.raises(DataAbsent, match=why):
        read_ratings(folder)


def test_without_a_key_nothing_is_read(tmp_path):
    with pytest.raises(DataAbsent, match=r"^the key of the sheets not found; get it from vlbench"):
        read_ratings(tmp_path)


NO_SEED = "is not a key of sheets: .*seed.* must be a whole number"
NO_QUESTION = "readability does not have one question per image and system"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [], "is not a key of sheets: .*must be a mapping of"),
        (lambda key: key | {"schema": 2}, "is not a key of schema 1"),
        (lambda key: key | {"sheets": {}}, "is not a key of schema 1"),
        (lambda key: key | {"systems": ["1", "2", "3"]}, NO_QUESTION),
        (lambda key: key | {"seed": "0"}, NO_SEED),
        (lambda key: key | {"sheets": key["sheets"] | {"readability": []}}, NO_QUESTION),
    ],
)
def test_a_key_that_is_none_is_named(folder, change, message):
    file = folder / "key.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(SpecError, match=rf"^{file}: {message}"):
        read_ratings(folder)
    file.write_text("{")
    with pytest.raises(SpecError, match=rf"^{file}: is not a key of sheets"):
        read_ratings(folder)
