import re
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image

from vlbench.leaderboard.judgement.pages import SIDE, picture, sheet_html
from vlbench.leaderboard.judgement.sheets import SHEETS, Line

LINE = Line(1, "i0", "2", "images/1.png", 'is <b> "it" a script?')


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
