import json
import re

import pytest

from vlbench.boards.items import Card, Item
from vlbench.report.page.viewer import render_viewer

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028<!--"


@pytest.fixture
def text():
    """A viewer of two items with one image, whose texts are all hostile."""
    items = [Item(f"{i}{HOSTILE}", "d", 0.5, HOSTILE, HOSTILE, 1, 2) for i in range(2)]
    cards = [Card("", [("d", "")]), Card(HOSTILE, [("d", HOSTILE), ("d", "")])]
    images = {"d": "data:image/png;base64,AA=="}
    models = [HOSTILE]
    page = render_viewer(HOSTILE, models, [[i] for i in items], cards, images, lower=True)
    return page.decode()


def test_an_image_is_in_the_file_once_and_items_say_which(text):
    assert re.findall(r"data:image/[^<]+", text) == ["data:image/png;base64,AA=="]
    data = json.loads(re.search(r'id="data">(.*)</script>', text)[1])
    assert [one["text"] for one in data["examples"]] == ["", HOSTILE]
    assert [one["images"] for one in data["examples"]] == [
        [{"place": 0, "text": ""}],
        [{"place": 0, "text": HOSTILE}, {"place": 0, "text": ""}],
    ]
    assert data["lower"]


def test_texts_end_no_element_of_the_viewer_and_nothing_is_loaded(text):
    assert len(re.findall("</script>", text)) == len(re.findall("<script", text)) == 3
    assert "<img" not in text
    assert "\u2028" not in text.partition('id="data">')[2]
    assert "default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-" in text
    assert re.findall(r'(?:href|src)="([^"]*)"', text) == ["data:,", "#cards"]
