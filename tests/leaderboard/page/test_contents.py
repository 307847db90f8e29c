import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from planted_boards import board, result, score, write

from vlbench.boards import save_artifacts
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import load_task
from vlbench.errors import SpecError
from vlbench.leaderboard.page import contents
from vlbench.leaderboard.page.contents import (
    departures_of,
    paper_of,
    read_page,
    render,
    settings_of,
    wrong_items,
)
from vlbench.metrics.items import Answers, Examples, item_table

CATALOG = load_catalog()


def page(folder, *boards):
    return read_page(write(folder, *boards), CATALOG)


def tasks(found):
    return {paper.name: [task.name for task in paper.tasks] for paper in found.papers}


def test_boards_stand_under_their_papers_and_those_without_one_last(tmp_path):
    known = board(result("a", score(), paper=""), task="few_shot_digits")
    other = board(result("a", score(), paper=""), task="mine")
    told = {"arXiv:2104.08313": ["few_shot_digits"], "Other tasks": ["mine"]}
    assert tasks(page(tmp_path, other, known)) == told


def test_a_summary_stands_with_the_paper_of_its_tasks(tmp_path):
    write(tmp_path / "summaries", board(result("a", score()), task="rsa_scenes_all"))
    found = page(tmp_path, board(result("a", score()), task="rsa_scenes"))
    assert tasks(found) == {"arXiv:2104.08313": ["rsa_scenes", "rsa_scenes_all"]}
    assert [task.is_summary for task in found.papers[0].tasks] == [False, True]


def test_a_task_has_the_words_of_the_catalog(tmp_path):
    (paper,) = page(tmp_path, board(result("a", score()), task="few_shot_digits")).papers
    assert paper.tasks[0].description.startswith("Few-shot classification")
    assert "few_shot" in paper.tasks[0].tags
    assert paper.tasks[0].link == "https://arxiv.org/abs/2104.08313"


def test_the_page_of_a_large_folder_lists_primary_scores_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MOST_SCORES", 1)
    assert page(tmp_path, board(result("a", score(), score(metric="other")))).is_brief


def test_models_without_any_score_have_a_page_too(tmp_path):
    found = page(tmp_path, board(result("a", status="skipped", reason="no eyes")))
    assert [model.name for model in found.models] == ["a"]


def test_the_data_of_the_rows_are_named_by_content(tmp_path):
    row = result("a", score(), provenance={"data": "digits sha256:1"})
    assert page(tmp_path, board(row)).papers[0].tasks[0].data == ["digits sha256:1"]


def test_a_malformed_board_is_named(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps({"schema": 1}))
    with pytest.raises(SpecError, match=r"t\.json: 'task' is missing"):
        read_page(tmp_path, CATALOG)


TASK = """version: 1
description: Words
# Departure: ours instead
# of theirs.
probe: few_shot
data: {loader: "x:y", root: /home/ada/pictures}
# The paper gives no seed.
params: {seed: 0}
primary: {metric: accuracy}
"""


def spec(folder):
    (folder / "t.yaml").write_text(TASK)
    (found,) = load_task(folder / "t.yaml", folder)
    return found


def test_the_comments_of_a_task_are_its_departures(tmp_path):
    told = ["Departure: ours instead of theirs.", "The paper gives no seed."]
    assert departures_of(spec(tmp_path)) == told


def test_the_settings_name_no_folder_of_the_machine(tmp_path):
    text = settings_of(spec(tmp_path))
    assert "root: pictures" in text
    assert "ada" not in text
    assert "description" not in text


def test_a_task_that_no_catalog_knows_has_neither():
    assert (departures_of(None), settings_of(None)) == ([], "")


def test_a_paper_is_named_without_the_place_in_it():
    assert paper_of("arXiv:2104.08313, section 3.1") == "arXiv:2104.08313"


AT = {"shots": 5}


def row(folder, model, credit, chosen, **rest):
    examples = Examples(["x", "y", "z"], ["1", "2", "3"])
    items = item_table(examples, "accuracy", AT, credit, Answers(["cat", "dog"], chosen, [0, 0, 1]))
    artifacts = save_artifacts(folder, "t", model, {"items": items})
    return result(model, score(), artifacts=artifacts, **rest)


@pytest.fixture
def rows(tmp_path):
    return [
        row(tmp_path, "a", [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0, 1, 1], [0, 1, 0]]),
        row(tmp_path, "b", [1.0, 0.0, 1.0], [0, 1, 1]),
    ]


def test_each_model_counts_once_with_its_mean_over_trials(tmp_path, rows):
    found, problems = wrong_items(tmp_path, board(*rows))
    told = [("y", "0", "cat", "dog (3)"), ("z", "75", "dog", "dog (2), cat (1)")]
    assert [(one.id, one.credit, one.target, one.predictions) for one in found] == told
    assert problems == []


def test_models_that_may_not_be_compared_do_not_count(tmp_path, rows):
    other = row(tmp_path, "c", [0.0, 0.0, 0.0], [1, 1, 0], comparable="b")
    found, _ = wrong_items(tmp_path, board(*rows, other))
    assert [one.models for one in found] == [2, 2]


def test_an_item_that_only_one_model_has_is_left_out(tmp_path, rows):
    items = item_table(Examples(["y"], ["2"]), "accuracy", AT, [0.0])
    artifacts = save_artifacts(tmp_path, "t", "c", {"items": items})
    found, _ = wrong_items(tmp_path, board(*rows, result("c", score(), artifacts=artifacts)))
    assert [one.id for one in found] == ["y"]


def test_items_that_cannot_be_read_are_named_and_the_rest_is_shown(tmp_path, rows):
    (tmp_path / rows[0].artifacts["items"]["file"]).unlink()
    found, problems = wrong_items(tmp_path, board(*rows))
    assert [one.models for one in found] == [1]
    assert problems == [
        f"a: {rows[0].artifacts['items']['file']} is absent; run the task again with --overwrite"
    ]


def test_a_board_without_items_has_none(tmp_path):
    assert wrong_items(tmp_path, board(result("a", score()))) == ([], [])


def test_items_of_other_scores_do_not_count(tmp_path):
    items = item_table(Examples(["y"], ["2"]), "accuracy", {"shots": 1}, [0.0])
    artifacts = save_artifacts(tmp_path, "t", "a", {"items": items})
    assert wrong_items(tmp_path, board(result("a", score(), artifacts=artifacts))) == ([], [])
    assert isinstance(items, pa.Table)


def test_where_lower_is_better_credit_is_what_went_wrong(tmp_path):
    attacked = row(tmp_path, "a", [1.0, 0.0, 1.0], [0, 1, 1])
    lower = replace(attacked, scores=[score(higher_is_better=False)])
    assert [one.id for one in wrong_items(tmp_path, board(lower))[0]] == ["x", "z"]


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
