import csv
import io
import json
from collections import Counter

from judged import STEPS, sheets

from vlbench.leaderboard.judgement.material import Shown
from vlbench.leaderboard.judgement.sheets import SHEETS, lines_of, sheet_csv


def shown(caption="a cat", **asked):
    return Shown("i0", "d0", caption, asked)


def rows_of(folder, name):
    text = (folder / "sheets" / f"{name}.csv").read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_sheet_shows_what_is_judged_and_nothing_else(tmp_path):
    folder = sheets(tmp_path)
    columns = {sheet.name: list(rows_of(folder, sheet.name)[0]) for sheet in SHEETS}
    assert columns == {
        "readability": ["number", "question", "answer"],
        "caption_relevance": ["number", "caption", "question", "answer"],
        "image_relevance": ["number", "image", "question", "answer"],
    }
    assert [row["number"] for row in rows_of(folder, "readability")] == [*map(str, range(1, 17))]
    assert {row["answer"] for row in rows_of(folder, "readability")} == {""}


def test_nothing_that_judges_are_given_says_whose_a_question_is(tmp_path):
    folder = sheets(tmp_path)
    given = [file for file in (folder / "sheets").rglob("*") if file.is_file()]
    assert len(given) == 2 * len(SHEETS) + 4
    for file in given:
        if file.suffix != ".png":
            text = file.read_text("utf-8-sig")
            assert "human" not in text
            assert "system" not in text.replace("system-ui", "")


def test_the_key_says_whose_each_question_is(tmp_path):
    folder = sheets(tmp_path)
    key = json.loads((folder / "key.json").read_text())
    assert key["systems"] == [*STEPS, "human"]
    for sheet in SHEETS:
        lines = {line["number"]: line for line in key["sheets"][sheet.name]}
        assert Counter(line["system"] for line in lines.values()) == dict.fromkeys(
            key["systems"], 4
        )
        for row in rows_of(folder, sheet.name):
            line = lines[int(row["number"])]
            image = line["image"].removeprefix("i")
            asks = f"what is {line['system']} of {image}?"
            assert row["question"] == (
                "who is " + image + "?" if line["system"] == "human" else asks
            )
            assert row.get("caption", f"Caption, of {image}") == f"Caption, of {image}"
            assert row.get("image", "images/").startswith("images/")


def test_each_sheet_has_an_order_of_its_own_and_each_seed_others():
    images = [shown(**{step: f"{step} of {i}" for step in STEPS}) for i in range(10)]
    orders = [
        tuple(line.question for line in lines)
        for seed in (0, 1)
        for lines in lines_of(images, seed).values()
    ]
    assert len(set(orders)) == 6
    assert lines_of(images, 0) == lines_of(images, 0)
    # No place is a system's: the first ten of a sheet are of all.
    assert all(len({question[0] for question in order[:10]}) == 3 for order in orders)


def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_none():
    lines = lines_of([shown("=1+1", one="@a", two="b,\nc")], 0)["caption_relevance"]
    text = sheet_csv(SHEETS[1], lines).decode("utf-8-sig")
    rows = {row["question"]: row["caption"] for row in csv.DictReader(io.StringIO(text))}
    assert rows == {"'@a": "'=1+1", "b, c": "'=1+1"}
