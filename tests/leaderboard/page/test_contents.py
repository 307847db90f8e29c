import json

import pytest
from planted_boards import board, result, score, write

from vlbench.catalog.catalog import load_catalog
from vlbench.errors import SpecError
from vlbench.leaderboard.page import contents
from vlbench.leaderboard.page.contents import read_page

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
    with pytest.raises(SpecError, match=r"t\.json: task: is absent"):
        read_page(tmp_path, CATALOG)
