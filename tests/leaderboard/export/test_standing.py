import pytest
from planted_boards import result, score
from planted_exports import compared

from vlbench.errors import SpecError
from vlbench.leaderboard.export.standing import standings

RANKED = [result("a", score(0.9)), result("b", score(0.8)), result("c", score(0.1))]


def test_a_leader_told_apart_from_all_is_the_best(tmp_path):
    found = standings(compared(tmp_path), RANKED)
    assert found == {"a": "best", "b": "behind", "c": "behind"}


def test_a_leader_that_is_not_told_apart_from_one_only_leads(tmp_path):
    found = standings(compared(tmp_path, tied=["b"]), RANKED)
    assert found == {"a": "leader", "b": "tied", "c": "behind"}


def test_a_leader_that_was_not_tested_against_one_only_leads(tmp_path):
    found = standings(compared(tmp_path, pairs=["b"], untested={"c": "no items"}), RANKED)
    assert found == {"a": "leader", "b": "behind", "c": "untested"}


def test_a_leader_without_a_rival_is_not_the_best(tmp_path):
    assert standings(compared(tmp_path, pairs=[]), RANKED[:1]) == {"a": "leader"}


def test_without_comparisons_nothing_is_known(tmp_path):
    assert standings(tmp_path, RANKED) == {}


@pytest.mark.parametrize("other", [{"comparable": "z"}, {"leader": "b"}, {"pairs": ["b"]}])
def test_comparisons_of_other_rows_tell_nothing(tmp_path, other):
    assert standings(compared(tmp_path, **other), RANKED) == {}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sets": [{"leader": 3}]}', '{"sets": 1}'])
def test_a_file_that_is_none_of_comparisons_is_said(tmp_path, content):
    (tmp_path / "comparisons").mkdir()
    (tmp_path / "comparisons" / "t.json").write_text(content)
    with pytest.raises(SpecError, match=r"t\.json: is no file of comparisons .*build it again"):
        standings(tmp_path, RANKED)
