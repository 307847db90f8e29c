from planted_boards import board, counts, result, score
from planted_exports import referring, selection

from vlbench.leaderboard.export.cells import cells, heads, higher_is_better, is_best


def only(folder, row, **rest):
    (part,) = selection(folder, board(row), **rest).parts
    return part, part.entries[0]


def test_a_row_has_all_that_it_takes_to_judge_its_score(tmp_path):
    shown = score(0.5, stderr=0.125, ci95=(0.25, 0.75), chance=0.1, floors={"pixels": 0.2}, n=7)
    part, entry = only(tmp_path, result("m", shown), catalog=referring(0.25))
    assert dict(zip(heads(part), cells(entry), strict=True)) == {
        "model": "m",
        "accuracy (shots 5)": "50.0 %",
        "95 % interval": "25.0 to 75.0",
        "n": "7",
        "chance": "10.0 %",
        "highest floor": "20.0 % pixels",
        "published": "25.0 %, Table 1 (ours +2.0 SE)",
        "against the leader": "-",
    }


def test_a_score_of_ties_is_marked(tmp_path):
    _, entry = only(tmp_path, result("m", score(), counts={**counts(), "ties": 51}))
    assert cells(entry)[1] == "50.0 % (mostly ties)"


def test_a_published_value_without_our_error_stands_alone(tmp_path):
    _, entry = only(tmp_path, result("m", score()), catalog=referring(0.25))
    assert cells(entry)[6] == "25.0 %, Table 1"


def test_a_row_without_the_primary_score_is_dashes(tmp_path):
    part, entry = only(tmp_path, result("m", score(0.5, "other")))
    assert cells(entry) == ["m", *["-"] * 7]
    assert higher_is_better(part) is None


def test_the_better_direction_is_that_of_the_score(tmp_path):
    part, _ = only(tmp_path, result("m", score(higher_is_better=False)))
    assert higher_is_better(part) is False


def test_who_was_never_compared_is_not_the_best(tmp_path):
    _, entry = only(tmp_path, result("m", score()))
    assert (is_best(entry), is_best(entry._replace(standing="best"))) == (False, True)
