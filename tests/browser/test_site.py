"""What a reader does with the site of docs/, in Chromium."""

import pytest

PAGES = (
    "index",
    "gallery",
    "start",
    "tutorials/my_model",
    "generated/tasks_generalization",
    "generated/command_line",
    "contributing",
)


@pytest.fixture(params=PAGES)
def address(request, site):
    return (site / f"{request.param}.html").as_uri()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(browser, address, axe, dark):
    tab = browser.open(address, dark=dark)
    tab.js(axe)
    found = tab.js("axe.run({resultTypes: ['violations']}).then(r => r.violations)")
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_a_phone_scrolls_no_page_sideways(browser, address, axe):
    tab = browser.open(address, width=390, height=850)
    assert tab.js("document.documentElement.scrollWidth") == 390
    tab.js(axe)
    found = tab.js("axe.run({resultTypes: ['violations']}).then(r => r.violations)")
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_a_page_asks_for_nothing_elsewhere(browser, address):
    tab = browser.open(address)
    assert {one.partition(":")[0] for one in tab.requests()} <= {"file", "data"}
    assert tab.errors() == []


def test_the_search_finds_a_probe_without_a_server(browser, site):
    tab = browser.open((site / "search.html").as_uri() + "?q=few_shot")
    tab.js(
        "new Promise(done => { const look = () => document.querySelector('ul.search li')"
        " ? done(true) : setTimeout(look, 50); look() })"
    )
    links = tab.js("[...document.querySelectorAll('ul.search li a')].map(one => one.href)")
    assert any("tasks_generalization.html" in link for link in links)


def test_the_keyboard_reaches_the_content_first(browser, address):
    tab = browser.open(address)
    tab.press("Tab")
    assert tab.js("document.activeElement.textContent.trim()") == "Skip to content"


def test_dark_readers_get_a_dark_page(browser, address):
    light, dark = (browser.open(address, dark=one) for one in (False, True))
    colour = "getComputedStyle(document.body).backgroundColor"
    assert light.js(colour) == "rgb(255, 255, 255)"
    assert dark.js(colour) == "rgb(19, 20, 22)"
