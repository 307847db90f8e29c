from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_boards import board, measured, result, score, with_items, write

from vlbench.errors import UnknownNameError
from vlbench.metrics.items import DIGITS, Examples, item_table
from vlbench.metrics.paired import compare_items, holm
from vlbench.report.comparing import compare_models

A, B, C = ([1] * 30, [1] * 20 + [0] * 10, [0] * 12 + [1] * 18)


@pytest.fixture
def output(tmp_path):
    rows = [measured(tmp_path, model, credit) for model, credit in zip("abc", (A, B, C), strict=1)]
    other = measured(tmp_path, "a", A, task="u"), measured(tmp_path, "b", C, task="u")
    return write(tmp_path, board(*rows), board(*other, task="u"))


def test_two_models_are_compared_on_each_board_that_has_both(output):
    found = compare_models(output, ["a", "b"]).compared
    assert [(one.task, one.models) for one in found] == [("t", ("a", "b")), ("u", ("a", "b"))]
    expected = compare_items(A, B, np.arange(30))
    near = {"ci95": pytest.approx(expected.ci95), "detectable": pytest.approx(expected.detectable)}
    assert found[0].comparison == expected._replace(**near)
    assert [one.value for one in found[0].scores] == pytest.approx([1, 2 / 3])


def test_of_three_models_each_two_are_compared(output):
    found = compare_models(output, ["c", "b", "a", "b"]).compared
    assert [(one.task, *one.models) for one in found] == [
        ("t", "c", "b"), ("t", "c", "a"), ("t", "b", "a"),
    ]  # fmt: skip


def test_holms_rule_is_over_all_pairs_and_tasks(output):
    found = compare_models(output, ["a", "b", "c"], ["t"]).compared
    assert [one.p_holm for one in found] == holm([one.comparison.p for one in found])
    assert min(one.p_holm for one in found) == 3 * min(one.comparison.p for one in found)


def test_only_the_tasks_that_are_named_are_compared(output):
    assert [one.task for one in compare_models(output, ["a", "b"], ["u"]).compared] == ["u"]


def test_rows_of_other_data_are_refused(tmp_path):
    a, b = (
        measured(tmp_path, model, A, comparable=model, provenance={"data": model})
        for model in ("a", "b")
    )
    found = compare_models(write(tmp_path, board(a, b)), ["a", "b"])
    assert found.refused == [
        "t: the rows of a, b are not comparable: their data differ (a on a, b on b)"
    ]
    assert found.compared == []


def test_rows_of_other_parameters_are_refused(tmp_path):
    rows = [
        measured(tmp_path, model, A, comparable=model, provenance={"data": 1, "companions": {}})
        for model in ("a", "b")
    ]
    found = compare_models(write(tmp_path, board(*rows)), ["a", "b"])
    assert "their parameters of the task or regions differ" in found.refused[0]


def test_a_model_with_rows_in_two_sets_is_compared_in_the_set_that_is_shared(tmp_path):
    sets = [("a", "x"), ("a", "y"), ("b", "y")]
    rows = [result(m, score(0.5), comparable=key) for m, key in sets]
    rows[1:] = [measured(tmp_path, m, A, comparable="y") for m in "ab"]
    (found,) = compare_models(write(tmp_path, board(*rows)), ["a", "b"]).compared
    assert (found.task, found.models) == ("t (a, b)", ("a", "b"))


def test_on_a_named_task_the_reason_of_a_model_without_scores_is_said(tmp_path):
    skipped = result("b", status="skipped", reason="it has no Detector", comparable="")
    other = board(result("c", score()), task="u")
    output = write(
        tmp_path, board(measured(tmp_path, "a", A), skipped, result("c", score())), other
    )
    assert compare_models(output, ["a", "b"], ["t"]).refused == [
        "t: b has no scores: skipped: it has no Detector"
    ]
    assert compare_models(output, ["c", "a"], ["u"]).refused == ["u: a has no row"]


def test_a_row_of_an_older_version_is_not_compared(tmp_path):
    output = write(tmp_path, board(result("a", score()), task="t", version=2), board(task="u"))
    (output / "archive").mkdir()
    old = write(tmp_path / "old", board(result("b", score()), result("a", score())))
    (old / "t.json").rename(output / "archive" / "t.v1.json")
    write(output, board(result("b", score()), task="w"))
    found = compare_models(output, ["a", "b"], ["t"]).refused
    assert found == ["t: b has scores of version 1; the other models have version 2"]


def test_rows_without_items_are_named_by_model(tmp_path):
    rows = [measured(tmp_path, "a", A), result("b", score()), result("c", score())]
    found = compare_models(write(tmp_path, board(*rows)), ["a", "b", "c"])
    assert (found.compared, found.refused, found.lacking) == ([], [], {"b": ["t"], "c": ["t"]})


def test_a_model_without_items_leaves_the_others_to_be_compared(output):
    rows = [measured(output, "a", A), measured(output, "b", B), result("c", score())]
    found = compare_models(write(output, board(*rows)), ["a", "b", "c"], ["t"])
    assert [one.models for one in found.compared] == [("a", "b")]
    assert found.lacking == {"c": ["t"]}


def test_an_item_that_only_one_has_refuses_the_pair_and_no_other(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("a", A), ("b", B), ("c", C[:-1]))]
    found = compare_models(write(tmp_path, board(*rows)), ["a", "b", "c"])
    assert [one.models for one in found.compared] == [("a", "b")]
    assert found.refused == [
        "t, accuracy (shots 5): a has the item '29.png', but c does not",
        "t, accuracy (shots 5): b has the item '29.png', but c does not",
    ]


def test_a_file_of_items_that_was_changed_is_refused(output):
    (output / "artifacts" / "t" / "b" / "items.parquet").write_bytes(b"")
    found = compare_models(output, ["a", "b"], ["t"])
    assert "t: artifacts/t/b/items.parquet is not the file that" in found.refused[0]


def test_a_row_without_the_primary_score_is_refused(tmp_path):
    lone = with_items(
        tmp_path, result("b", score(1.0, "other")),
        item_table(Examples(["x"], ["y"]), "other", {"shots": 5}, [1]),
    )  # fmt: skip
    output = write(tmp_path, board(measured(tmp_path, "a", A), lone))
    assert compare_models(output, ["a", "b"]).refused == [
        "t, accuracy (shots 5): b has no such score"
    ]


def test_all_scores_that_both_have_items_of_are_compared(tmp_path):
    examples = Examples(["x", "y"], ["1", "2"])
    at = {"shots": 5}
    rows = [
        with_items(
            tmp_path,
            result(model, score(0.5), score(0.5, "accuracy_cosine"), score(0.5, "reliability")),
            *(
                item_table(examples, metric, at, credit)
                for metric in ("accuracy", "accuracy_cosine")
            ),
        )
        for model, credit in (("a", [1, 0]), ("b", [0, 1]))
    ]
    found = compare_models(write(tmp_path, board(*rows)), ["a", "b"], all_scores=True)
    assert [one.scores[0].metric for one in found.compared] == ["accuracy", "accuracy_cosine"]
    assert found.refused == []


ABSENT = [
    (["a"], [], "only a to compare; name two models or more"),
    (["a", "a"], [], "only a to compare"),
    (["a", "bb"], [], "no model on the boards in .* is named 'bb'"),
    (["a", "b"], ["v"], "no board v in "),
]


@pytest.mark.parametrize(("models", "tasks", "why"), ABSENT)
def test_names_that_are_not_there_are_named(output, models, tasks, why):
    with pytest.raises(UnknownNameError, match=why):
        compare_models(output, models, tasks)


def test_models_that_share_no_board_and_a_folder_without_boards_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="no board at all in "):
        compare_models(tmp_path, ["a", "b"])
    boards = board(result("a", score())), board(result("b", score()), task="u")
    with pytest.raises(UnknownNameError, match=r"no board in .* has scores of each of a, b"):
        compare_models(write(tmp_path, *boards), ["a", "b"])


def test_a_score_that_is_no_mean_over_examples_is_told_apart_from_what_is_refused(output):
    other = score(0.3, metric="word_pair_pearson")
    both = [measured(output, m, A) for m in ("a", "b")]
    rows = [replace(row, scores=[*row.scores, other]) for row in both]
    primary = {"metric": "word_pair_pearson", "at": {"shots": 5}}
    found = compare_models(write(output, board(*rows, primary=primary)), ["a", "b"], ["t"])
    assert (found.compared, found.refused) == ([], [])
    assert found.no_means[0] == (
        "t, word_pair_pearson (shots 5): a has no items of this score, which is "
        "not a mean over examples"
    )


def test_rows_whose_digests_an_older_vlbench_wrote_longer_are_compared(tmp_path):
    digests = [f"{i:0{DIGITS}x}abcd" for i in range(30)]
    ids = [f"{i}.png" for i in range(30)]
    old = measured(tmp_path, "a", A, examples=Examples(ids, digests))
    new = measured(tmp_path, "b", B, examples=Examples(ids, [one[:DIGITS] for one in digests]))
    assert len(compare_models(write(tmp_path, board(old, new)), ["a", "b"]).compared) == 1


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of shipped boards: a, which the output has otherwise, and d."""
    folder = tmp_path / "shipped"
    rows = [measured(folder, "a", C), measured(folder, "d", C)]
    other = measured(folder, "d", C, task="only_shipped")
    write(folder, board(*rows), board(other, task="only_shipped"))
    monkeypatch.setattr("vlbench.report.rows.shipped_boards", lambda: folder)
    return folder


@pytest.mark.usefixtures("shipped")
def test_a_model_that_the_output_lacks_is_one_of_the_shipped_boards(output):
    found = compare_models(output, ["a", "d"])
    (one,) = found.compared
    assert (one.task, found.lent) == ("t", ["d"])
    assert [score.value for score in one.scores] == pytest.approx([1, 0.6])
    assert compare_models(output, ["a", "b"]).lent == []


@pytest.mark.usefixtures("shipped")
def test_two_shipped_models_are_compared_where_there_is_no_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = compare_models(Path("results"), ["a", "d"])
    assert ([one.task for one in found.compared], found.lent) == (["t"], ["a", "d"])


@pytest.mark.usefixtures("shipped")
def test_a_named_folder_that_is_not_there_is_not_replaced_by_the_shipped_boards(tmp_path):
    with pytest.raises(UnknownNameError, match=r"no board at all in .*absent"):
        compare_models(tmp_path / "absent", ["a", "d"])


NOT_COMPARABLE = [
    ({"comparable": "other"}, "the rows of a, d are not comparable"),
    ({"version": 7}, "d has scores of version 7; the other models have version 1"),
]


@pytest.mark.parametrize(("about", "why"), NOT_COMPARABLE)
def test_shipped_rows_that_are_not_comparable_are_refused(output, shipped, about, why):
    row = measured(shipped, "d", C, **about)
    write(shipped, board(row, version=about.get("version", 1)))
    (refused,) = compare_models(output, ["a", "d"], ["t"]).refused
    assert why in refused
