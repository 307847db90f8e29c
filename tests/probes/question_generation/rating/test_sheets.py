import csv
import io
import json
import re
from collections import Counter
from dataclasses import replace
from io import BytesIO

import pytest
from judged import STEPS, sheets
from PIL import Image

from vlbench.errors import UnknownNameError
from vlbench.probes.question_generation.rating.sheets import (
    SHEETS,
    SIDE,
    SampledImage,
    SheetLine,
    lines_of,
    picture,
    sheet_csv,
    sheet_html,
)


def shown(caption="a cat", **asked):
    return SampledImage("i0", "d0", caption, asked)


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
        systems = Counter(line["system"] for line in lines.values())
        assert systems == dict.fromkeys(key["systems"], 4)
        for row in rows_of(folder, sheet.name):
            system, image = (lines[int(row["number"])][name] for name in ("system", "image"))
            image = image.removeprefix("i")
            asked = "who is" if system == "human" else f"what is {system} of"
            assert row["question"] == f"{asked} {image}?"
            assert row.get("caption", f"Caption, of {image}") == f"Caption, of {image}"
            assert row.get("image", "images/").startswith("images/")


def test_each_sheet_has_an_order_of_its_own_and_each_seed_others():
    images = [shown(**{step: f"{step} of {i}" for step in STEPS}) for i in range(10)]
    sheets_of = [lines for seed in (0, 1) for lines in lines_of(images, seed).values()]
    orders = [tuple(line.question for line in lines) for lines in sheets_of]
    assert len(set(orders)) == 6
    assert lines_of(images, 0) == lines_of(images, 0)
    # No place is a system's: the first ten of a sheet are of all.
    assert all(len({question[0] for question in order[:10]}) == 3 for order in orders)


def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_none():
    lines = lines_of([shown("=1+1", one="@a", two="b,\nc")], 0)["caption_relevance"]
    text = sheet_csv(SHEETS[1], lines).decode("utf-8-sig")
    rows = {row["question"]: row["caption"] for row in csv.DictReader(io.StringIO(text))}
    assert rows == {"'@a": "'=1+1", "b, c": "'=1+1"}


LINE = SheetLine(1, "i0", "2", "images/1.png", 'is <b> "it" a script?')


def page(sheet, line=LINE):
    return sheet_html(sheet, [line], {"images/1.png": b"png"}).decode()


def test_texts_are_escaped():
    text = page(SHEETS[1], replace(LINE, beside="<i>"))
    assert not {"<b>", "<i>"} & set(re.findall(r"<\w>", text))
    assert '<p class="beside">&lt;i&gt;</p>' in text
    assert "is &lt;b&gt; &#34;it&#34; a script?" in text


@pytest.mark.parametrize(("place", "shows"), [(0, False), (1, False), (2, True)])
def test_only_the_sheet_of_images_shows_one(place, shows):
    assert ("data:image/png;base64,cG5n" in page(SHEETS[place])) is shows
    assert ('class="beside"' in page(SHEETS[place])) is (place == 1)


def test_a_question_has_five_answers_and_the_page_allows_only_its_own_script():
    text = page(SHEETS[0])
    assert re.findall(r'name="answer-1" value="(\d)"', text) == ["1", "2", "3", "4", "5"]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-")


@pytest.mark.parametrize(
    ("size", "expected"), [((64, 32), (192, 96)), ((800, 600), (SIDE, 300)), ((300, 9), (300, 9))]
)
def test_an_image_is_as_large_as_it_is_to_be_seen(size, expected):
    content = picture(Image.new("RGB", size, "red"))
    with Image.open(BytesIO(content)) as image:
        assert (image.size, image.format, image.getpixel((0, 0))) == (expected, "PNG", (255, 0, 0))


def written(folder):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.relative_to(folder): file.read_bytes() for file in files}


def test_the_key_lies_apart_from_what_judges_are_given(tmp_path):
    folder = sheets(tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == ["key.json", "sheets"]
    tables = ["caption_relevance", "image_relevance", "readability"]
    names = {f"{name}.{kind}" for name in tables for kind in ("csv", "html")}
    names |= {f"images/{i}.png" for i in range(1, 5)}
    assert {str(file) for file in written(folder / "sheets")} == names


def test_the_same_row_and_seed_write_the_same_files(tmp_path):
    first, same, other = (written(sheets(tmp_path / f"{i}", seed=i // 2)) for i in range(3))
    assert first == same != other


def test_sheets_are_never_written_over(tmp_path):
    sheets(tmp_path)
    with pytest.raises(UnknownNameError, match=r"already has the key\.json of other sheets"):
        sheets(tmp_path)
