"""What someone who judges does with a sheet, in Chromium."""

import pytest
from judged import fill_all, sheets

from vlbench.probes.question_generation.rating.scores import read_ratings
from vlbench.probes.question_generation.rating.sheets import SHEETS

# Answers question i with i modulo 5, and one more, as far as `most`.
ANSWER = """
[...document.querySelectorAll("fieldset")].slice(0, {most}).forEach((line, i) =>
  line.querySelectorAll("input")[i % 5].click())
"""

# Saves the sheet, and returns what would be in the file.
SAVE = """
new Promise(done => {
  URL.createObjectURL = blob => { blob.text().then(text => done(text)); return "#" }
  document.getElementById("save").click()
})
"""


@pytest.mark.parametrize("name", [sheet.name for sheet in SHEETS])
def test_a_sheet_that_the_page_saves_is_read_back(browser, tmp_path, name):
    folder = fill_all(sheets(tmp_path))
    tab = browser.open((folder / "sheets" / f"{name}.html").as_uri())
    assert tab.texts("#left") == ["16 questions have no answer yet"]
    tab.js(ANSWER.format(most=99))
    assert tab.texts("#left") == ["complete"]
    (folder / "filled/anna" / f"{name}.csv").write_bytes(tab.js(SAVE).encode())
    found = read_ratings(folder)
    by_number = {line.number: line for line in found.key.sheets[name]}
    images = sorted({line.image for line in by_number.values()})
    for number, line in by_number.items():
        place = images.index(line.image), list(found.key.systems).index(line.system)
        assert found.answers[name][0][place] == (number - 1) % 5 + 1
    assert tab.errors() == []


def test_images_are_seen_and_nothing_is_asked_of_anybody(browser, tmp_path):
    page = sheets(tmp_path) / "sheets/image_relevance.html"
    tab = browser.open(page.as_uri())
    sizes = tab.js("[...document.images].map(image => image.naturalWidth)")
    assert sizes == [200] * 16
    tab.js(ANSWER.format(most=3))
    assert tab.texts("#left") == ["13 questions have no answer yet"]
    asked = [one for one in tab.requests() if not one.startswith("data:")]
    assert asked == [page.as_uri()]
    assert tab.errors() == []


def test_a_sheet_bars_nobody_from_judging(browser, axe, tmp_path):
    for sheet in SHEETS:
        tab = browser.open((sheets(tmp_path / sheet.name) / f"sheets/{sheet.name}.html").as_uri())
        tab.js(axe)
        found = tab.js("axe.run().then(found => found.violations.map(one => one.id))")
        assert found == []
