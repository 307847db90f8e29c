import random
from dataclasses import replace
from pathlib import Path

import pytest
from planted_boards import board, result, score
from planted_splits import dealt, joined_at_once, joined_by_turns, ran, universe, without

from vlbench.leaderboard.merging.unions import Source, newest_keepers, union


def sources(*boards):
    return [Source(Path(f"{i}"), Path(f"{i}/{b.task}.json"), b) for i, b in enumerate(boards)]


def rows(*boards, file="t.json"):
    return [
        (row.model, row.comparable, row.reason)
        for row in union(sources(*boards)).boards[file].results
    ]


def conflicts(*boards):
    return union(sources(*boards)).conflicts


def test_a_thousand_random_splits_in_random_order_give_the_same_bytes():
    rng, rows = random.Random(0), universe()  # noqa: S311 - splits
    splits = [dealt(rows, rng) for _ in range(1000)]
    (whole,) = {tuple(sorted(joined_at_once(one).items())) for one in splits}
    assert [name for name, _ in whole] == ["archive/t.v1.json", "t.json", "u.json"]
    assert {tuple(sorted(joined_by_turns(one).items())) for one in splits[:50]} == {whole}


def test_rows_are_sorted_by_model_and_comparable():
    ones = [result(m, score(), comparable=c) for m, c in ("by", "ay", "bx", "ax")]
    assert rows(*map(board, ones)) == [
        ("a", "x", ""),
        ("a", "y", ""),
        ("b", "x", ""),
        ("b", "y", ""),
    ]


def test_of_equal_rows_the_one_that_was_finished_first_stands():
    found = union(sources(*(board(ran("m", hour)) for hour in (2, 1, 3)))).boards["t.json"]
    assert [row.run["finished"][:13] for row in found.results] == ["2026-01-01T01"]
    assert found.results[0].provenance["libraries"] == {"torch": "2.8"}


def test_a_row_without_scores_makes_room_for_any_with_them():
    assert rows(board(without("m", "why")), board(result("m", score()))) == [("m", "a", "")]


def test_of_two_reasons_the_same_one_stands_in_either_order():
    one, other = board(without("m", "one")), board(without("m", "other"))
    assert rows(one, other) == rows(other, one) == [("m", "", "one")]


def test_older_versions_go_to_the_archive():
    old, new = board(result("m", score(), version=1)), board(result("n", score()), version=2)
    assert rows(old, new, file="archive/t.v1.json") == [("m", "a", "")]
    assert rows(old, new) == [("n", "a", "")]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"scores": [score(0.6)]}, "scores"),
        ({"request": "r2"}, "request"),
        ({"notes": ["n"]}, "notes"),
        ({"artifacts": {"items": {"file": "f", "sha256": "s"}}}, "artifacts"),
        ({"provenance": {"weights": "sha256:other"}}, "provenance"),
    ],
)
def test_other_values_under_one_identity_name_both_files(other, what):
    one = result("{0}", score())
    (conflict,) = conflicts(board(one), board(replace(one, **other)))
    words = f"0/t.json and 1/t.json contradict each other in the {what} of"
    assert conflict.startswith(words + " '{0}'; ")
    assert conflict.endswith("keep one of them, or run one again under a --name of its own")


def test_boards_of_one_version_with_other_heads_contradict_each_other():
    other = board(result("m", score()), primary={"metric": "recall", "at": {}})
    (conflict,) = conflicts(board(result("n", score())), other)
    assert "0/t.json and 1/t.json contradict each other in the primary of t (version 1)" in conflict
    assert conflict.endswith("raise the version in one of them")


def kept(sha256, **rest):
    return result("m", score(), artifacts={"items": {"file": "f", "sha256": sha256}}, **rest)


def test_the_newest_version_has_the_files_that_an_older_one_kept():
    boards = [board(kept("2"), version=2), board(kept("1"), version=1)]
    keepers, disputed = newest_keepers(boards)
    assert (keepers["f"].sha256, disputed) == ("2", [])


def test_two_rows_of_a_version_that_keep_other_files_in_one_place_are_told():
    _, (disputed,) = newest_keepers([board(kept("1"), kept("2", comparable="b"))])
    assert disputed.startswith("t (version 1): two rows of 'm' keep different files as f; keep one")
