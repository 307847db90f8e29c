import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from planted_boards import board, result, score, write

from vlbench.catalog.catalog import load_catalog
from vlbench.leaderboard.page.contents import read_page
from vlbench.leaderboard.page.rendering import render

CATALOG = load_catalog()
HOSTILE = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """All start tags of a page with their attributes, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def rendered(folder, *rows):
    write(folder, board(*rows))
    return render(read_page(folder, CATALOG)).decode()


@pytest.fixture
def hostile(tmp_path):
    return rendered(
        tmp_path,
        result(HOSTILE, score(metric="accuracy"), notes=["</script><img src=x onerror=alert(2)>"]),
        result('"><i>', status="failed", reason="</style><script>alert(3)</script>"),
    )


def test_names_notes_and_reasons_of_strangers_stay_text(hostile):
    found = Elements(hostile)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not {"img", "i"} & {tag for tag, _ in found.tags}
    assert HOSTILE in found.texts


def test_every_reference_inside_the_page_leads_somewhere(tmp_path):
    found = Elements(rendered(tmp_path, result("a b[x=1]", score()), result("b", status="skipped")))
    ids = [given["id"] for _, given in found.tags if "id" in given]
    wanted = {given["href"][1:] for _, given in found.tags if given.get("href", "")[:1] == "#"}
    assert wanted - {"top"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_the_policy_allows_the_style_and_the_script_of_the_page_alone(tmp_path):
    text = rendered(tmp_path, result("a", score()))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")
    for kind, tag in (("style", "style"), ("script", "script")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert (len(inside), f"{kind}-src 'sha256-{digest}'" in policy) == (1, True)


def test_nothing_on_the_page_is_loaded_from_elsewhere(tmp_path):
    found = Elements(rendered(tmp_path, result("a", score())))
    assert [given for _, given in found.tags if "src" in given] == []
    assert [given["href"] for tag, given in found.tags if tag == "link"] == ["data:,"]
    assert not [given for _, given in found.tags if "style" in given or "onclick" in given]


def test_the_same_boards_give_the_same_bytes(tmp_path):
    rows = [result("a", score(ci95=(0.4, 0.6))), result("b", score(0.4), notes=["x"])]
    assert rendered(tmp_path, *rows) == rendered(tmp_path, *rows)


def test_every_number_stands_in_the_text_and_not_in_a_script(tmp_path):
    row = result("a", score(0.512, ci95=(0.4, 0.6)), score(0.25, metric="other"))
    found = [text.strip() for text in Elements(rendered(tmp_path, row)).texts]
    assert {"51.2", "40.0 to 60.0", "25.0"} <= set(found)
