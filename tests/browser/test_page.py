"""What a reader does with the page, in Chromium; screenshots go to $VLBENCH_SHOTS, if it is set."""

import json
import time
from pathlib import Path

import pytest
from chromium import shoot
from planted_boards import board, result, score, write

ROOT = Path(__file__).resolve().parents[2]

# Longer than this, and a reader thinks that the page hangs.
STALL = 1.0

# Of processor time, which grows where others use the same cores; 9 s were seen on two busy ones.
MOST_SECONDS = 20

# Counts the milliseconds of the longest time in which the page answers nobody.
WATCH = """
window.longest = 0
new PerformanceObserver(list => list.getEntries().forEach(one => {
  window.longest = Math.max(window.longest, one.duration)
})).observe({type: "longtask", buffered: true})
"""

MODELS = "#task-few_shot_scenes-table-1 tbody th button"
FEW = "#task-few_shot_scenes-table-1"


def settled(tab):
    """Wait for what typing sets off: the filter waits for the end of a word."""
    tab.js("new Promise(done => setTimeout(done, 200))")


def column(tab, name):
    """Return the place of a column of the few-shot table, from 1."""
    heads = tab.js(f"[...document.querySelectorAll('{FEW} thead th')].map(e => e.textContent)")
    return heads.index(name) + 1


def test_a_click_on_a_header_sorts_and_a_second_one_turns_the_order(browser, page):
    tab = browser.open(page)
    ranked = tab.texts(MODELS)
    tab.js(f"document.querySelector('{FEW} thead button').click()")
    assert tab.texts(MODELS) == sorted(ranked) != ranked
    assert tab.js(f"document.querySelector('{FEW} th').getAttribute('aria-sort')") == "ascending"
    tab.js(f"document.querySelector('{FEW} thead button').click()")
    assert tab.texts(MODELS) == sorted(ranked, reverse=True)


def test_the_score_sorts_by_more_digits_than_it_shows(browser, tmp_path, write_page):
    values = {"b": 0.50001, "a": 0.50004, "c": 0.50002}
    write(tmp_path, board(*(result(name, score(value)) for name, value in values.items())))
    tab = browser.open(write_page(tmp_path))
    tab.js("document.querySelectorAll('thead .s button')[0].click()")
    assert tab.texts("tbody th button") == ["a", "c", "b"]
    tab.js("document.querySelectorAll('thead .s button')[0].click()")
    assert tab.texts("tbody th button") == ["b", "c", "a"]


def test_sorting_lasts_in_the_address(browser, page):
    tab = browser.open(page)
    tab.js(f"document.querySelector('{FEW} thead button').click()")
    again = browser.open(tab.js("location.href"))
    assert again.texts(MODELS) == tab.texts(MODELS) == sorted(tab.texts(MODELS))


def boards_of(folder, *models):
    """The boards of a folder on which one of these models has scores."""
    files = [*folder.glob("*.json"), *folder.glob("summaries/*.json")]
    return {
        board["task"]
        for board in (json.loads(file.read_bytes()) for file in files)
        if any(row["model"] in models and row["status"] == "ok" for row in board["rows"])
    }


def shown_tasks(tab):
    """The names of the tasks that a filter leaves."""
    return set(
        tab.js("[...document.querySelectorAll('.task:not([hidden])')].map(e => e.dataset.task)")
    )


@pytest.mark.parametrize(
    ("name", "value", "tasks"),
    [
        ("data", "SimLex-999", {"word_similarity_simlex999"}),
        ("tag", "grounding", {"entity_grounding_scenes"}),
        ("can", "JointAttender", ["tiny-uniter", "tiny-visualbert", "tiny-vlm", "constant"]),
        ("model", "visualbert", ["tiny-visualbert"]),
    ],
)
def test_a_filter_leaves_its_tasks_and_lasts_in_the_address(
    browser, page, built, name, value, tasks
):
    tasks = boards_of(built, *tasks) if isinstance(tasks, list) else tasks
    tab = browser.open(page)
    tab.js(
        f"{{ const field = document.forms[0].elements[{json.dumps(name)}];"
        f"field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', {bubbles: true})) }"
    )
    settled(tab)
    assert shown_tasks(tab) == tasks
    assert shown_tasks(browser.open(tab.js("location.href"))) == tasks


def test_the_data_filter_offers_every_folder_and_leaves_its_tables(browser, tmp_path, write_page):
    def row(model, name):
        made = {"data": f"vlbench.data.image_folder:image_folder sha256:{name}", "data_name": name}
        return result(model, score(), comparable=name, provenance=made)

    both = [row("a", "mine"), row("b", "mine"), row("c", "second")]
    write(tmp_path, board(*both, task="few_shot_images"), board(row("a", "mine"), task="u"))
    absent = result("a", status="skipped", reason="no eyes")
    write(tmp_path, board(absent, task="w"), board(result("d", score()), task="few_shot_digits"))
    address = write_page(tmp_path)
    tab = browser.open(address)
    choices = tab.js("[...document.forms[0].elements.data.options].map(e => e.textContent)")
    assert sorted(choices) == ["Other data", "all", "digits", "mine", "second"]
    for data, tasks, models, count in (
        ("mine", {"few_shot_images", "u"}, {"a", "b"}, "2 tasks, 2 models with scores"),
        ("second", {"few_shot_images"}, {"c"}, "1 task, 1 model with scores"),
        ("Other data", {"w"}, set(), "1 task, 0 models with scores"),
    ):
        tab = browser.open(f"{address}#?data={data.replace(' ', '+')}")
        settled(tab)
        assert shown_tasks(tab) == tasks
        assert set(tab.texts(".set tbody th button")) == models
        assert tab.js("document.getElementById('status').textContent") == count


def test_no_model_is_hidden_at_first_and_all_come_back(browser, page):
    tab = browser.open(page)
    everything = tab.texts(".board tbody th button")
    count = "document.querySelectorAll('.set > .scroll .board tbody tr').length"
    assert len(everything) == tab.js(count)
    tab.go(page + "#?model=tiny-rn")
    settled(tab)
    assert set(tab.texts(".board tbody th button")) == {"tiny-rn", "tiny-rn-robust"}
    tab.js("document.getElementById('all').click()")
    assert tab.texts(".board tbody th button") == everything


def test_columns_are_chosen_and_last_in_the_address(browser, page):
    tab = browser.open(page)
    label = "accuracy (categories held out, shots 1), %"
    assert label not in tab.texts(f"{FEW} thead th")
    tab.js(f"document.querySelector('{FEW}').parentElement.nextElementSibling.open = true")
    settled(tab)
    tab.js(
        "[...document.querySelectorAll('.tools label')]"
        f".find(e => e.textContent.trim() === {json.dumps(label)}).click()"
    )
    assert label in tab.texts(f"{FEW} thead th")
    assert label in browser.open(tab.js("location.href")).texts(f"{FEW} thead th")


def test_the_address_of_a_row_leads_to_it_even_past_a_filter(browser, page):
    tab = browser.open(page + "#?model=visualbert")
    tab.js("location.hash = '#row-few_shot_scenes.tiny-clip'")
    settled(tab)
    place = "document.getElementById('row-few_shot_scenes.tiny-clip').getBoundingClientRect()"
    assert 0 <= tab.js(f"{place}.top") < 900
    assert tab.js("document.querySelector(':target').id") == "row-few_shot_scenes.tiny-clip"
    shoot(tab, "row")


def test_a_popover_says_where_a_number_comes_from_and_gives_its_address(browser, page):
    tab = browser.open(page)
    tab.js(f"document.querySelector('{MODELS}').click()")
    (card,) = tab.texts("[popover]:popover-open")
    assert "weightssha256:" in card
    assert "few_shot_scenes, accuracy (categories held out, shots 5), %: " in card
    assert tab.js("document.querySelector(':popover-open .here a').hash").startswith("#row-few")
    shoot(tab, "popover")


def test_without_a_script_every_table_and_page_can_be_read(browser, page):
    tab = browser.open(page, script=False)
    assert tab.texts("#filters") == []
    assert "accuracy euclidean (categories seen, shots 10), %" in tab.texts(f"{FEW} thead th")
    tab.go(page + "#model-tiny-clip")
    assert tab.texts("h2") == ["tiny-clip"]
    assert "open_clip:OpenClip" in tab.texts(".model:target dd")
    shoot(tab, "no_script")


def test_a_model_has_a_page_and_the_tables_come_back(browser, page):
    tab = browser.open(page + "#model-tiny-visualbert")
    assert "the model has no ImageEncoder" in " ".join(tab.texts(".model dt"))
    assert tab.texts(".board") == []
    shoot(tab, "model")
    tab.js("document.querySelector('.model:target .back a').click()")
    assert tab.texts(".model h2") == []
    assert len(tab.texts(".board")) >= 3


def test_the_keyboard_alone_sorts_and_opens_a_popover(browser, page):
    tab = browser.open(page)
    tab.press("Tab")
    assert tab.js("document.activeElement.className") == "skip"
    tab.js(f"document.querySelector('{FEW} thead button').focus()")
    tab.press("Enter")
    assert tab.texts(MODELS) == sorted(tab.texts(MODELS))
    tab.js(f"document.querySelector('{MODELS}').focus()")
    tab.press(" ")
    assert len(tab.texts("[popover]:popover-open")) == 1
    tab.press("Escape")
    assert tab.texts("[popover]:popover-open") == []
    assert tab.js("document.activeElement.textContent") == tab.texts(MODELS)[0]


def test_every_control_is_reached_with_the_tabulator(browser, page):
    tab = browser.open(page + "#?data=SimLex-999")
    reached = set()
    for _ in range(120):
        tab.press("Tab")
        reached.add(tab.js("document.activeElement.outerHTML.slice(0, 24)"))
    kinds = ["<select", "<input", "<summary", '<button type="button"', "<button popovertarget"]
    assert [kind for kind in kinds if not any(one.startswith(kind) for one in reached)] == []


@pytest.mark.parametrize(
    ("where", "dark"),
    [
        ("", False),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in [("", True), ("#model-tiny-clip", False), ("#model-tiny-clip", True)]
        ),
    ],
)
def test_axe_finds_nothing_serious(browser, page, axe, where, dark):
    tab = browser.open(page + where, dark=dark)
    tab.js("document.querySelectorAll('details').forEach(one => { one.open = true })")
    settled(tab)
    tab.js(axe)
    found = tab.js("axe.run({resultTypes: ['violations']}).then(r => r.violations)")
    told = [(one["id"], one["impact"], one["nodes"][0]["html"], len(one["nodes"])) for one in found]
    assert [one for one in told if one[1] in {"serious", "critical"}] == []


def test_dark_readers_get_a_dark_page(browser, page):
    tab = browser.open(page, dark=True)
    assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    tab.js(f"document.querySelector('{FEW}').scrollIntoView({{block: 'center'}})")
    shoot(tab, "dark")


@pytest.mark.parametrize("where", ["", "#model-tiny-clip"])
def test_a_phone_scrolls_tables_and_never_the_page_sideways(browser, page, where):
    tab = browser.open(page + where, width=400, height=850)
    assert tab.js("document.documentElement.scrollWidth") == 400
    wide = "[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)"
    assert tab.js(wide) or where
    shoot(tab, f"phone{where.replace('#', '_')}")


def test_the_model_stays_while_its_table_is_scrolled(browser, page):
    tab = browser.open(page, width=400, height=850)
    left = f"document.querySelector('{MODELS}').getBoundingClientRect().left"
    before = tab.js(left)
    tab.js(f"document.querySelector('{FEW}').parentElement.scrollLeft = 150")
    assert tab.js(left) == before


@pytest.mark.parametrize(("width", "is_open"), [(1280, False), (1920, True)])
def test_the_contents_take_no_width_from_the_tables_of_a_laptop(browser, page, width, is_open):
    tab = browser.open(page, width=width)
    assert bool(tab.texts("nav li")) is is_open
    wide = tab.js(f"document.querySelector('{FEW}').scrollWidth")
    assert wide <= tab.js(f"document.querySelector('{FEW}').parentElement.clientWidth")
    tab.js("document.querySelector('nav summary').click()")
    assert bool(tab.texts("nav li")) is not is_open


def test_print_shows_all_tables_and_no_controls(browser, page):
    tab = browser.open(page)
    tab.call("Emulation.setEmulatedMedia", {"media": "print"})
    assert tab.texts("nav, #filters, .tools") == []
    assert len(tab.texts(".board")) >= 3


def test_a_table_is_saved_as_a_file_of_what_is_seen(browser, page):
    tab = browser.open(page + "#?model=tiny-rn")
    settled(tab)
    tab.js(
        "URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text });"
        "return 'blob:x' };"
        f"const tools = document.querySelector('{FEW}').parentElement.nextElementSibling;"
        "tools.open = true; tools.querySelector('button').click()"
    )
    settled(tab)
    head, *rows = tab.js("window.saved").split("\r\n")
    assert head.startswith('"model","accuracy (categories held out, shots 5), %"')
    assert [row.split(",")[0] for row in rows] == ['"tiny-rn"', '"tiny-rn-robust"']


def test_controls_are_folded_until_they_are_asked_for(browser, page):
    tab = browser.open(page)
    assert "constant" not in tab.texts(".task tbody th button")
    tab.js("document.querySelectorAll('.controls').forEach(one => { one.open = true })")
    settled(tab)
    assert "constant" in tab.texts(".task tbody th button")


def test_nothing_is_asked_for_but_the_page_and_nothing_goes_wrong(browser, page):
    tab = browser.open(page)
    tab.js(f"document.querySelector('{MODELS}').click()")
    settled(tab)
    assert [url for url in tab.requests() if not url.startswith("data:")] == [page]
    assert tab.errors() == []


def test_what_strangers_wrote_stays_text(browser, tmp_path, write_page):
    hostile = "<script>alert(1)</script>"
    notes = ["</script><script>document.title = 'taken'</script>", "<img src=x onerror=alert(2)>"]
    rows = [result(hostile, score(), notes=notes), result("b", status="failed", reason=hostile)]
    write(tmp_path, board(*rows))
    tab = browser.open(write_page(tmp_path))
    tab.js("document.querySelector('tbody button').click()")
    assert tab.texts("tbody th button") == [hostile]
    assert tab.js("document.querySelector('tbody li').textContent") == notes[0]
    assert tab.js("[document.title, document.scripts.length]") == ["vlbench leaderboards", 2]
    assert tab.named("Page.javascriptDialogOpening") == []


def test_a_script_that_slips_in_does_not_run(browser, page):
    tab = browser.open(page)
    tab.js(
        "{ const one = document.createElement('script'); one.textContent = 'document.title = 1';"
        "document.body.append(one) }"
    )
    assert tab.js("document.title") == "vlbench leaderboards"


@pytest.fixture(scope="module")
def large(tmp_path_factory, write_page):
    """The address of the page of 500 models on 80 tasks, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("large")
    for t in range(80):
        values = [(37 * m + 11 * t) % 997 / 997 for m in range(500)]
        found = [score(v, ci95=(0.9 * v, 0.1 + 0.9 * v), chance=0.1) for v in values]
        rows = [result(f"model-{m}", one, task=f"task_{t}") for m, one in enumerate(found)]
        write(folder, board(*rows, task=f"task_{t}"))
    start = time.process_time()
    return write_page(folder), time.process_time() - start


@pytest.mark.nightly
def test_500_models_on_80_tasks_are_a_small_page_that_opens_without_a_stall(browser, large):
    address, seconds = large
    assert seconds < MOST_SECONDS
    assert Path(address.removeprefix("file://")).stat().st_size < 10_000_000
    tab = browser.open("about:blank")
    tab.call("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    tab.go(address)
    tab.go(address + "#?model=model-123")
    settled(tab)
    assert set(tab.texts(".board tbody th button")) == {"model-123"}
    assert 0 < tab.js("window.longest") < 1000 * STALL
