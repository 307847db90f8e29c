"""What a reader does with the viewer of items, in Chromium."""

import pytest
from chromium import shoot
from PIL import Image

from vlbench.boards.items import Card, Item
from vlbench.report.page.thumbnails import thumbnail
from vlbench.report.page.viewer import SIDE, render_viewer

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">\u2028\u2029\u202e<!--"

# Milliseconds from the start to the first image.
SECOND = 1000
WATCH = """
document.addEventListener("load", event => {
  if (event.target.tagName === "IMG") window.first ??= performance.now()
}, true)
"""


def item(i, credit, said="dog", target="cat", **rest):
    return Item(f"{i:04}.png", f"{i % 2}", credit, said, target, 3, 4, **rest)


def write(folder, *examples, models=("ours", "theirs"), questions=None, images=None):
    shown = images or {f"{i}": thumbnail(Image.new("RGB", (40, 30), "red"), SIDE) for i in range(2)}
    own = models[: len(examples[0])]
    file = folder / "viewer.html"
    cards = [
        Card((questions or {}).get((first.id, first.shown), ""), [(first.shown, "")])
        for first, *_ in examples
    ]
    file.write_bytes(render_viewer("a title", own, examples, cards, shown, lower=False))
    return file.as_uri()


def choose(tab, name, value):
    tab.js(
        f"{{ const field = document.forms[0].elements['{name}']; field.value = '{value}';"
        "field.dispatchEvent(new Event('input', {bubbles: true})) }"
    )


@pytest.fixture
def pairs(browser, tmp_path):
    """A tab with 60 examples: 40 wrong, 10 in part, 10 right; the other model is wrong in all."""
    credit = [0.0] * 40 + [0.5] * 10 + [1.0] * 10
    targets = ["cat", "dog"]
    examples = [
        [item(i, one, target=targets[i % 2]), item(i, 0.0, "a <b>rat</b>")]
        for i, one in enumerate(credit)
    ]
    return browser.open(write(tmp_path, *examples))


def test_the_first_card_shows_the_image_what_is_right_and_what_each_model_said(pairs):
    assert pairs.texts("h1, #status") == ["a title", "1 to 24 of 60"]
    assert len(pairs.texts("article")) == 24
    assert pairs.texts("article:first-child h2, article:first-child dt") == [
        "0000.png", "right answer", "ours", "theirs",
    ]  # fmt: skip
    answers = ["cat", "dog (3 of 4) wrong", "a <b>rat</b> (3 of 4) wrong"]
    assert pairs.texts("article:first-child dd") == answers
    pairs.js("Promise.all([...document.images].map(image => image.decode()))")
    assert pairs.js("[document.images[0].alt, document.images[0].naturalWidth]") == [
        "image of 0000.png", 40,
    ]  # fmt: skip
    shoot(pairs, "viewer")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("show", "wrong", "1 to 24 of 40"),
        ("show", "part", "1 to 10 of 10"),
        ("show", "right", "1 to 10 of 10"),
        ("show", "differs", "1 to 20 of 20"),
        ("show", "better", "1 to 20 of 20"),
        ("show", "worse", "no example passes the filters"),
        ("target", "1", "1 to 24 of 30"),
        ("text", " 005", "1 to 11 of 11"),
        ("text", "RAT</B>", "1 to 24 of 60"),
    ],
)
def test_a_filter_leaves_its_examples(pairs, name, value, status):
    choose(pairs, name, value)
    assert pairs.texts("#status") == [status]


def test_filters_are_joined_and_lead_back_to_the_first_page(pairs):
    pairs.press("ArrowRight")
    choose(pairs, "show", "right")
    choose(pairs, "target", "0")
    assert pairs.texts("article h2") == ["0050.png", "0052.png", "0054.png", "0056.png", "0058.png"]


def test_the_keyboard_turns_pages_and_finds_the_search(pairs):
    pairs.press("ArrowLeft")
    assert pairs.texts("#status") == ["1 to 24 of 60"]
    for status in ("25 to 48 of 60", "49 to 60 of 60", "49 to 60 of 60"):
        pairs.press("ArrowRight")
        assert pairs.texts("#status") == [status]
    assert pairs.texts("article h2")[0] == "0048.png"
    pairs.press("/", text="/")
    pairs.type("00")
    pairs.press("ArrowRight")
    assert pairs.js("document.activeElement.value") == "00"
    assert pairs.texts("#status") == ["1 to 24 of 60"]


def test_the_buttons_turn_pages_and_end_with_them(pairs):
    pairs.js("document.getElementById('next').click(), document.getElementById('next').click()")
    assert pairs.texts("#status") == ["49 to 60 of 60"]
    assert pairs.js("['previous', 'next'].map(id => document.getElementById(id).disabled)") == [
        False, True,
    ]  # fmt: skip


def test_what_strangers_wrote_stays_text(browser, tmp_path):
    strange = Item(HOSTILE, "0", 0.0, HOSTILE, HOSTILE, 1, 1)
    asked = {(HOSTILE, "0"): HOSTILE}
    models = [HOSTILE, HOSTILE]
    address = write(tmp_path, [strange, strange], [item(1, 1)] * 2, models=models, questions=asked)
    tab = browser.open(address)
    texts = tab.texts("article:first-child :is(h2, p, dt:nth-of-type(2), dd:first-of-type)")
    assert texts == [HOSTILE] * 4
    assert tab.js("document.forms[0].elements.target.options[1].textContent") == HOSTILE
    assert tab.js("[document.title, document.scripts.length, document.images.length]") == [
        "a title", 4, 2,
    ]  # fmt: skip
    assert [url for url in tab.requests() if not url.startswith("data:")] == [address]
    assert tab.errors() == []


def test_with_one_model_nothing_is_compared_and_many_answers_are_no_filter(browser, tmp_path):
    tab = browser.open(write(tmp_path, *([item(i, 1.0, target=f"{i}")] for i in range(60))))
    options = tab.js("[...document.querySelectorAll('[name=show] option')].map(e => e.textContent)")
    assert options == ["all", "wrong", "in part or tied", "right"]
    assert [text.split()[0] for text in tab.texts("label")] == ["Show", "Search"]


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(pairs, browser, axe, dark):
    tab = browser.open(pairs.js("location.href"), dark=dark)
    choose(tab, "show", "differs")
    tab.js(axe)
    found = tab.js("axe.run().then(found => found.violations.map(one => one.id))")
    assert found == []


def test_a_phone_scrolls_nothing_sideways(pairs, browser):
    tab = browser.open(pairs.js("location.href"), width=390, height=844)
    assert tab.js("document.documentElement.scrollWidth") == 390
    shoot(tab, "viewer_phone")


def test_the_first_image_of_5000_is_there_within_a_second(browser, tmp_path):
    photo = Image.effect_mandelbrot((160, 120), (-2, -1.5, 1, 1.5), 30).convert("RGB")
    images = dict.fromkeys(map(str, range(5000)), thumbnail(photo, SIDE))
    examples = [[item(i, 0.0)._replace(digest=f"{i}")] for i in range(5000)]
    address = write(tmp_path, *examples, images=images)
    tab = browser.open("about:blank")
    tab.call("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    tab.go(address)
    assert tab.texts("#status") == ["1 to 24 of 5,000"]
    assert 0 < tab.js("window.first") < SECOND
    tab.js("document.getElementById('next').click()")
    tab.js("Promise.all([...document.images].map(image => image.decode()))")
