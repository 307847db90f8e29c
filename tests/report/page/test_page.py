import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser

import pytest
from planted_boards import board, measured, result, score, write
from planted_findings import findings
from sources import make_source

from vlbench.catalog.catalog import load_catalog
from vlbench.errors import SpecError
from vlbench.report.data_sets import figure_names
from vlbench.report.page import page as module
from vlbench.report.page import sections
from vlbench.report.page.page import arxiv_links, label, model_id, read_page, render, row_id

CATALOG = load_catalog()


def page(folder, *boards):
    return read_page(write(folder, *boards), CATALOG)


def tasks(found):
    return {title: [section.name for section in own] for title, own in found.groups.items()}


@pytest.mark.parametrize(
    ("higher", "told"), [(True, "Higher is"), (None, "Neither higher nor lower is")]
)
def test_a_task_says_which_scores_are_better(tmp_path, higher, told):
    text = render(page(tmp_path, board(result("a", score(higher_is_better=higher)))))
    assert f"{told} better." in text.decode()


def test_boards_stand_under_their_data_and_vlbenchs_own_last(tmp_path):
    known = board(result("a", score(), paper=""), task="few_shot_digits")
    other = board(result("a", score(), paper=""), task="mine")
    told = {"Other data": ["mine"], "digits": ["few_shot_digits"]}
    assert [*tasks(page(tmp_path, other, known)).items()] == [*told.items()]


@pytest.mark.parametrize("task", ["retrieval_images", "foils_table", "questions_table", "mine"])
def test_a_task_on_ones_own_data_stands_under_the_name_of_the_folder(tmp_path, task):
    made = {"data": "vlbench.data.table:images sha256:1", "data_name": "caps"}
    found = page(tmp_path, board(result("a", score(), provenance=made), task=task))
    assert (tasks(found), found.data) == ({"caps": [task]}, ["caps"])


def test_published_data_in_a_folder_keep_the_name_in_the_title(tmp_path):
    made = {"data": "vlbench.data.aro:visual_genome_relation sha256:1", "data_name": "downloads"}
    found = page(tmp_path, board(result("a", score(), provenance=made), task="aro_relation"))
    assert tasks(found) == {"ARO relations": ["aro_relation"]}


def test_a_summary_stands_with_the_data_of_its_tasks(tmp_path):
    write(tmp_path / "summaries", board(result("a", score()), task="rsa_scenes_all"))
    found = page(tmp_path, board(result("a", score()), task="rsa_scenes"))
    assert tasks(found) == {"drawings": ["rsa_scenes", "rsa_scenes_all"]}
    assert [section.is_summary for section in found.sections] == [False, True]


def test_a_task_has_the_words_of_the_catalog(tmp_path):
    found = page(tmp_path, board(result("a", score()), task="few_shot_digits"))
    (section,) = found.sections
    assert section.title == CATALOG.tasks["few_shot_digits"].title
    assert "few_shot" in found.tags
    texts = " ".join(Elements(render(found).decode()).texts)
    assert "Smoke test: few-shot classification" in texts


COMMANDS = [
    ("few_shot_digits", ""),
    ("knn_images", " --images DIR"),
    ("foils_table", " --data-dir foils_table=DIR"),
    ("rsa_scenes_all", ""),
]


@pytest.mark.parametrize(("task", "more"), COMMANDS)
def test_a_task_has_the_command_that_runs_it(tmp_path, task, more):
    found = page(tmp_path, board(result("a", score()), task=task))
    command = f"vlbench --model MODEL --tasks {task}{more}"
    assert found.sections[0].command == command
    assert f'<pre class="command">{command}</pre>' in render(found).decode()


def test_the_command_of_a_task_of_ones_own_names_its_source_and_an_unknown_task_has_none(tmp_path):
    source = make_source(tmp_path / "ours")
    write(tmp_path / "boards", board(result("a", score()), task="few_shot_colours"))
    (known,) = read_page(tmp_path / "boards", load_catalog([source])).sections
    assert known.command.endswith("few_shot_colours --include-path SOURCE")
    (unknown,) = read_page(tmp_path / "boards", CATALOG).sections
    assert (unknown.command, unknown.bibtex) == ("", "")


def test_a_task_tells_what_to_cite_the_paper_and_the_data(tmp_path):
    row = result("a", score())
    paper = "arXiv:2104.08313, section 3"
    text = render(page(tmp_path, board(row, task="few_shot_cifar10", paper=paper))).decode()
    about = text[text.index("<h4>Cite</h4>") :]
    assert "https://arxiv.org/abs/2104.08313</a>" in about
    assert "@techreport{krizhevsky2009," in about


def test_the_page_of_a_large_folder_lists_primary_scores_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SCORES", 1)
    assert page(tmp_path, board(result("a", score(), score(metric="other")))).is_brief


def test_models_without_any_score_have_a_page_too(tmp_path):
    found = page(tmp_path, board(result("a", status="skipped", reason="no eyes")))
    assert [model.name for model in found.models] == ["a"]


def test_the_data_of_the_rows_are_named_by_content(tmp_path):
    row = result("a", score(), provenance={"data": "digits sha256:1"})
    assert page(tmp_path, board(row)).sections[0].data == ["digits sha256:1"]


def test_a_malformed_board_is_named(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps({"schema": 1}))
    with pytest.raises(SpecError, match=r"t\.json: 'task' is missing"):
        read_page(tmp_path, CATALOG)


def test_the_items_that_are_wrong_most_often_are_shown(tmp_path):
    rows = [measured(tmp_path, model, [1, 0, 1]) for model in "ab"]
    write(tmp_path, board(*rows))
    (section,) = read_page(tmp_path, CATALOG).sections
    assert [(item.id, item.credit, item.models) for item in section.worst] == [("1.png", 0.0, 2)]


@pytest.fixture
def drawn(tmp_path):
    """A folder whose board has a figure."""
    write(tmp_path, board(result("a", *[score(0.2, at={"shots": 1}), score(0.4)])))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "t.svg").write_text("<svg/>")
    return tmp_path


def figure(folder):
    return read_page(folder, CATALOG).sections[0].figures


def test_the_figure_of_a_curve_is_an_image_that_has_all_its_bytes_and_a_text(drawn):
    text = render(read_page(drawn, CATALOG)).decode()
    ((_, given),) = [one for one in Elements(text).tags if one[0] == "img"]
    head, content = given["src"].split(",")
    assert (head, base64.b64decode(content)) == ("data:image/svg+xml;base64", b"<svg/>")
    assert given["alt"] == "accuracy (shots 5), % of T; the tables have the numbers"


def test_a_single_score_has_no_figure_beside_its_bar(drawn):
    write(drawn, board(result("a", score())))
    assert figure(drawn) == []


def test_figures_of_single_models_are_shown_by_the_names_that_build_gave_them(tmp_path):
    loader = "vlbench.data.image_folder:image_folder"
    named = {"data": f"{loader} sha256:1", "data_name": "cars"}
    more = {"data": f"{loader} sha256:2", "data_name": "trees"}
    rows = [
        result("hf:a", score(), provenance=named, comparable="c"),
        result("hf:a", score(), provenance=more, comparable="d"),
        result("b", score(), provenance=named, comparable="c"),
        result("gone", status="failed"),
    ]
    write(tmp_path, board(*rows, task="readout_images"))
    drawn = [*figure_names(rows)]
    assert len(drawn) == 3
    places = [f"{name}_{key}" for name in drawn for key in ("heads", "layers")]
    folder = tmp_path / "figures" / "readout_images"
    folder.mkdir(parents=True)
    for name in [*places, "gone_heads", "bb_heads"]:
        (folder / f"{name}.svg").write_text("<svg/>")
    for data in ("cars", "trees"):
        (folder.parent / f"readout_images_{data}_stages.svg").write_text("<svg/>")
    (section,) = read_page(tmp_path, CATALOG).sections
    assert [*section.of_rows] == sorted(places)
    assert section.row_figures == len(places)
    assert len(section.figures) == 2


def test_figures_that_a_task_names_are_shown_if_build_drew_them(drawn):
    write(drawn, board(result("a", score()), task="readout_scenes"))
    places = {section.name: section for section in read_page(drawn, CATALOG).sections}
    assert places["readout_scenes"].figures == []
    (drawn / "figures" / "readout_scenes_stages.svg").write_text("<svg/>")
    shown = {section.name: section.figures for section in read_page(drawn, CATALOG).sections}
    assert {name: len(figures) for name, figures in shown.items()} == {"readout_scenes": 1, "t": 1}


def test_a_figure_of_another_state_of_the_board_is_left_out(drawn):
    assert len(figure(drawn)) == 1
    os.utime(drawn / "figures" / "t.svg", ns=(0, 0))
    assert figure(drawn) == []


def test_a_figure_that_is_a_link_out_of_the_folder_is_left_out(drawn, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("of another folder")
    (drawn / "figures" / "t.svg").unlink()
    (drawn / "figures" / "t.svg").symlink_to(secret)
    assert figure(drawn) == []


def test_a_figure_that_is_too_large_is_named(drawn, monkeypatch):
    monkeypatch.setattr(sections, "MOST_FIGURE", 5)
    with pytest.raises(SpecError, match=r"figures/t\.svg: .*it has 6 bytes; at most 5 are read"):
        figure(drawn)


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


FINDINGS = """\
title: A <i>Paper</i>
findings:
  - {finding: It beats guessing., metric: accuracy, at: {shots: 5}, task: few_shot_digits,
     for_each: {capability: ImageEncoder}, greater: [{}, {floor: chance}]}
  - {finding: It sings., needs: a microphone}
"""


@pytest.fixture
def judged(tmp_path):
    at = {"task": "few_shot_digits", "version": CATALOG.tasks["few_shot_digits"].version}
    rows = [
        result(name, score(value, ci95=(value - 0.1, value + 0.05), chance=0.5), **at)
        for name, value in (("tiny-rn", 0.9), ("<i>x</i>", 0.5))
    ]
    output = write(tmp_path / "boards", board(*rows, **at))
    return read_page(output, CATALOG, {"ours": findings(tmp_path / "findings", FINDINGS)})


def test_a_finding_has_a_row_for_each_model_that_was_measured(judged):
    (grid,) = judged.findings
    assert [row[1:3] for row in grid.rows] == [["<i>x</i>", "undecided"], ["tiny-rn", "supported"]]


def test_the_table_of_findings_is_text_that_the_page_leads_to(judged):
    found = Elements(render(judged).decode())
    links = {x["href"] for _, x in found.tags if x.get("href", "")[:1] == "#"}
    assert "#findings" in links
    assert "i" not in {tag for tag, _ in found.tags}
    assert {"supported", "A <i>Paper</i>: findings"} <= {text.strip() for text in found.texts}


def test_a_page_whose_boards_no_finding_is_about_has_no_findings(tmp_path):
    write(tmp_path, board(result("a", score())))
    known = {"ours": findings(tmp_path / "findings", FINDINGS)}
    assert read_page(tmp_path, CATALOG, known).findings == []


def test_models_by_tasks_come_first_without_controls(tmp_path):
    control = result("c", score(0.5, chance=0.5), provenance={"control": True})
    rows = [result("a", score(1.0, chance=0.5)), result("b", score(0.75, chance=0.5)), control]
    write(tmp_path, board(*rows), board(*rows, task="u"))
    content = render(read_page(tmp_path, CATALOG))
    found = Elements(content.decode())
    ids = [given["id"] for _, given in found.tags if "id" in given]
    assert ids.index("overview") < ids.index("data-0")
    cells = [given.get("class") for tag, given in found.tags if tag == "td" and "class" in given]
    assert [one for one in cells if one in ("h0", "h2", "h5")] == ["h5", "h5", "h2", "h2"]
    (pivot,) = read_page(tmp_path, CATALOG).overview
    assert ([*pivot.models], [*pivot.controls]) == (["a", "b"], [])


def test_the_page_says_the_day_of_its_newest_row_and_the_digest_of_its_boards(tmp_path):
    rows = [
        result(m, score(), run={"finished": f"2026-0{i}-02T10:00:00Z"})
        for i, m in enumerate("ab", 1)
    ]
    first = page(tmp_path, board(*rows))
    assert first.date == "2026-02-02"
    assert first.digest == page(tmp_path, board(*rows)).digest
    assert first.digest != page(tmp_path, board(rows[0])).digest
    texts = " ".join(Elements(render(first).decode()).texts)
    assert "newest row of 2026-02-02" in texts
    assert first.digest in texts


def test_controls_stand_folded_below_the_models(tmp_path):
    rows = [result("a", score(0.4)), result("c", score(0.9), provenance={"control": True})]
    found = Elements(rendered(tmp_path, *rows))
    ids = [given["id"] for tag, given in found.tags if tag == "table" and "id" in given]
    assert ids == ["task-t-table-1", "task-t-table-1-controls"]
    assert "controls" in [given.get("class") for tag, given in found.tags if tag == "details"]


def test_the_head_of_standings_is_short_for_every_leader(tmp_path):
    leader = "timm:resnet10t[weights=r10.pt]"
    write(tmp_path, board(*(measured(tmp_path, m, [v] * 9) for m, v in ((leader, 1), ("b", 0)))))
    heads = Elements(render(read_page(tmp_path, CATALOG)).decode()).texts
    assert "against the leader" in heads
    assert f"against {leader}" not in heads


def test_what_the_catalog_says_of_no_model_has_no_column(tmp_path):
    assert page(tmp_path, board(result("hf:mine", score()))).facts == []
    assert "parameters" in page(tmp_path, board(result("tiny-clip", score()))).facts


def test_models_are_a_table_of_what_the_catalog_says(tmp_path):
    text = rendered(tmp_path, result("tiny-clip", score()))
    models = text[text.index('<section class="models"') :].partition("</section>")[0]
    assert "7,935" in models
    assert "TokenEncoder" in models
    assert "Apache-2.0" in models


def test_an_id_of_a_row_names_task_and_model_and_the_set_where_there_are_several(tmp_path):
    rows = [
        result("a", comparable="sha256:0123456789"),
        result("a", comparable="sha256:22"),
        result("b"),
    ]
    (section,) = page(tmp_path, board(*rows)).sections
    assert [row_id(row, section) for row in rows] == ["row-t.a.01234567", "row-t.a.22", "row-t.b"]


def test_names_that_a_page_cannot_hold_get_ids_of_their_own():
    hostile, other = model_id("<script>"), model_id("(script)")
    assert hostile != other
    assert not set(hostile + other) & set("<>()\"' ")


def test_a_label_has_the_unit_and_the_conditions_that_are_not_the_tables():
    assert label(score(), {"shots": 5}) == "accuracy, %"
    assert label(score(unit="correlation"), {}) == "accuracy (shots 5)"


def test_a_link_leads_to_arxiv_alone():
    assert arxiv_links("arXiv:2104.08313, section 3") == ["https://arxiv.org/abs/2104.08313"]
    assert len(arxiv_links("after arXiv:1905.10650 and arXiv:2304.14767")) == 2
    assert arxiv_links("javascript:alert(1)") == []
