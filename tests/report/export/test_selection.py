import argparse
from importlib import import_module
from pkgutil import iter_modules

import pytest
from planted_boards import board, counts, result, score, write
from planted_exports import referring, selection

from vlbench.commands.leaderboard.export import add_options, answer
from vlbench.report import export
from vlbench.report.export import heads, higher_is_better, left_out_lines, texts


def models(table):
    return [entry.row.model for entry in table.entries]


def test_the_best_is_first_and_a_row_without_the_primary_score_last(tmp_path):
    rows = [result("none", score(1.0, "other")), result("low", score(0.1)), result("up", score())]
    (table,) = selection(tmp_path, board(*rows)).tables["t"]
    assert models(table) == ["up", "low", "none"]


def test_where_lower_is_better_the_lowest_is_first(tmp_path):
    rows = [result(m, score(v, higher_is_better=False)) for m, v in [("big", 0.9), ("tiny", 0.1)]]
    (table,) = selection(tmp_path, board(*rows)).tables["t"]
    assert models(table) == ["tiny", "big"]


def test_rows_that_may_not_be_compared_are_sets_of_their_own(tmp_path):
    rows = [result(m, score(), comparable=c) for m, c in zip("abcd", "1122", strict=True)]
    first, second = selection(tmp_path, board(*rows)).tables["t"]
    assert (models(first), models(second)) == (["a", "b"], ["c", "d"])
    assert second.title == "t (version 1), on c, d; not comparable with a, b"


def test_skipped_failed_partial_and_random_rows_are_listed_apart(tmp_path):
    rows = [
        result("s", status="skipped", reason="no text"),
        result("s2", status="skipped", reason="no text"),
        result("f", status="failed", reason="broke\nbadly"),
        result("p", score(), counts=counts(1, 2)),
        result("r", score(), provenance={"weights": "random:0"}),
    ]
    found = selection(tmp_path, board(*rows))
    assert (found.tables, found.entries) == ({"t": []}, [])
    assert left_out_lines(found.left_out) == [
        "t: left out (skipped, no text): s, s2",
        "t: left out (failed, broke badly): f",
        "t: left out (partial, 1 official row absent): p",
        "t: left out (random weights): r",
    ]


def test_a_published_value_stands_beside_its_score(tmp_path):
    row = result("m", score(0.5, "other"), score(0.5, stderr=0.125))
    (entry,) = selection(tmp_path, board(row), catalog=referring(0.25)).entries
    assert entry.published[0] is None
    assert entry.reference == (0.25, "Table 1", 0.25, 2.0)


def test_a_row_without_the_primary_score_has_no_reference(tmp_path):
    row = result("m", score(0.5, "other"))
    (entry,) = selection(tmp_path, board(row), catalog=referring()).entries
    assert entry.reference is None


def only(folder, row, **rest):
    (table,) = selection(folder, board(row), **rest).tables["t"]
    return table, table.entries[0]


def test_a_row_has_all_that_it_takes_to_judge_its_score(tmp_path):
    shown = score(0.5, stderr=0.125, ci95=(0.25, 0.75), chance=0.1, floors={"pixels": 0.2}, n=7)
    table, entry = only(tmp_path, result("m", shown), catalog=referring(0.25))
    assert dict(zip(heads(table), texts(entry), strict=True)) == {
        "model": "m",
        "accuracy (shots 5)": "50.0 %",
        "95 % interval": "25.0 to 75.0",
        "n": "7",
        "chance": "10.0 %",
        "highest floor": "20.0 % pixels",
        "against the leader": "-",
        "published": "25.0 %, Table 1 (ours +25.0 points, +2.0 SE)",
    }


def test_a_score_of_ties_is_marked(tmp_path):
    _, entry = only(tmp_path, result("m", score(), counts={**counts(), "ties": 51}))
    assert texts(entry)[1] == "50.0 % (mostly ties)"


def test_a_published_value_without_our_error_stands_alone(tmp_path):
    _, entry = only(tmp_path, result("m", score()), catalog=referring(0.25))
    assert texts(entry)[7] == "25.0 %, Table 1 (ours +25.0 points)"


def test_a_row_without_the_primary_score_is_dashes(tmp_path):
    table, entry = only(tmp_path, result("m", score(0.5, "other")))
    assert texts(entry) == ["m", *["-"] * 7]
    assert higher_is_better(table) is None


def test_the_better_direction_is_that_of_the_score(tmp_path):
    table, _ = only(tmp_path, result("m", score(higher_is_better=False)))
    assert higher_is_better(table) is False


def test_who_was_never_compared_is_not_the_best(tmp_path):
    _, entry = only(tmp_path, result("m", score()))
    assert (entry.is_best, entry._replace(standing="clear leader").is_best) == (False, True)


FORMATS = sorted(one.name for one in iter_modules(export.__path__))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_one_text_or_the_files_of_a_folder(name):
    module = import_module(f"vlbench.report.export.{name}")
    assert hasattr(module, "text") != hasattr(module, "files")


def test_the_command_offers_every_format_and_one_that_joins(monkeypatch, tmp_path):
    (tmp_path / "shout.py").write_text("def text(selection): return f'{len(selection.entries)}!'")
    places = [*export.__path__, str(tmp_path)]
    monkeypatch.setattr(export, "__path__", places)
    monkeypatch.setattr(export.__spec__, "submodule_search_locations", places)
    write(tmp_path / "boards", board(result("m", score())))
    parser = argparse.ArgumentParser()
    add_options(parser)
    (option,) = [one for one in parser._actions if one.dest == "format"]
    assert set(option.choices) == {*FORMATS, "shout"}
    given = parser.parse_args(["--format", "shout", "--output", str(tmp_path / "boards")])
    given.include_path = []
    assert answer(given).shown == ["1!"]
