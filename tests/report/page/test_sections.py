from pathlib import Path

import pytest
from planted_boards import board, counts, measured, result, score, write

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import TaskSpec, load_tasks
from vlbench.catalog.strict_yaml import Document
from vlbench.report.leaders import Leaders
from vlbench.report.page.page import badges, read_page, value_of
from vlbench.report.page.sections import Section, all_notes_of, columns_of
from vlbench.report.table import cells, tables_of
from vlbench.report.texts import bare_number


def tables(*rows, leaders=None, spec=None):
    return tables_of(board(*rows), {"a": leaders} if leaders else {}, spec)


def shown(table):
    """The texts of a table's columns, row by row."""
    columns = columns_of(table)
    beside = [cells(entry, bare_number) for entry in table.entries]
    return columns.heads, [[own[head] for head in columns.heads] for own in beside]


def test_a_partial_row_and_random_weights_are_marked():
    rows = [
        result("a", score(0.9), counts=counts(500, 1000)),
        result("b", score(0.8), provenance={"weights": "random:0"}),
        result("c", score(), comparable="c"),
    ]
    (table,) = tables(*rows)
    told = [["partial: 500 rows absent"], ["random weights"], ["not comparable"]]
    assert [badges(entry) for entry in table.entries] == told


def test_a_score_of_ties_is_marked_and_none_is_a_dash():
    row = result("a", score(), counts={**counts(), "ties": 51})
    assert value_of(row.scores[0], row) == "50.0 (mostly ties)"
    assert value_of(None) == "-"


def test_counts_that_n_does_not_say_are_notes():
    more = {**counts(), "clusters": 100, "ties": 6, "truncated_texts": 0}
    assert all_notes_of(result("a", score(), notes=["x"], counts=more)) == ["x", "ties: 6"]


def test_models_with_the_same_reason_stand_together_the_failed_ones_first():
    rows = [result(m, status="skipped", reason="no eyes") for m in "ab"]
    rows.append(result("c", status="failed"))
    section = Section("t", board(*rows), [], {}, None, "")
    assert section.reasons == {("failed", ""): ["c"], ("skipped", "no eyes"): ["a", "b"]}


LEADERS = Leaders("a", ["b"], {"c": "no items"}, {"b": 0.5, "d": 0.01})


def test_scores_under_the_same_conditions_are_visible_and_all_others_can_be():
    found = score(), score(metric="other", at={"shots": 1}), score(metric="accuracy_cosine")
    (table,) = tables(result("a", *found))
    columns = columns_of(table)
    assert columns.heads == ["95 % interval"]
    assert [one.metric for one in columns.others] == ["accuracy_cosine", "other"]
    assert columns.visible == 4


def test_what_is_the_same_for_all_stands_once_and_what_varies_has_a_column():
    rows = [result("a", score(chance=0.1, n=10)), result("b", score(chance=0.1, n=2000))]
    (table,) = tables(*rows)
    assert columns_of(table).facts == ["chance 10.0"]
    assert shown(table) == (["95 % interval", "n"], [["", "10"], ["", "2,000"]])


def test_models_that_were_not_tested_are_named_with_the_reason():
    (table,) = tables(result("a", score()), leaders=LEADERS)
    assert columns_of(table).facts == ["n 100", "not tested: c: no items"]


def test_a_column_says_how_models_stand_against_the_leader():
    (table,) = tables(result("a", score()), result("b", score(0.4)), leaders=LEADERS)
    heads = ["95 % interval", "against the leader"]
    assert shown(table) == (heads, [["", "leader"], ["", "tied"]])
    (bare,) = tables(result("a", score()), leaders=LEADERS._replace(p={}))
    assert columns_of(bare).heads == ["95 % interval"]


def test_a_published_number_is_told_with_its_distance_in_standard_errors():
    one = {"model": "a", "metric": "accuracy", "at": {"shots": 5}, "value": 0.6, "where": "page 1"}
    spec = TaskSpec("t", Path(), Document(Path("a.yaml"), {}, {}), reference=[one])
    (table,) = tables(result("a", score(0.5, stderr=0.05)), spec=spec)
    told = "60.0, page 1 (ours -10.0 points, -2.0 SE)"
    assert shown(table) == (["95 % interval", "published"], [["", told]])


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


def section(folder):
    (folder / "t.yaml").write_text(TASK)
    (spec,) = load_tasks(folder / "t.yaml", folder)
    return Section("t", board(), [], {}, spec, "")


def test_the_comments_of_a_task_are_its_departures(tmp_path):
    told = ["Departure: ours instead of theirs.", "The paper gives no seed."]
    assert section(tmp_path).departures == told


SETS = """\
# Departure: of all sets.
probe: few_shot
# Only if nothing changes it.
params: {seed: 0}
sets:
  # Departure: of one set.
  one: {version: 1}
  two:
    # Departure: of the other set.
    params: {seed: 1}
"""


DEPARTURES = [
    ("one", ["of all sets.", "Only if nothing changes it.", "of one set."]),
    ("two", ["of all sets.", "of the other set."]),
]


@pytest.mark.parametrize(("name", "told"), DEPARTURES)
def test_the_comments_of_a_set_are_those_of_its_keys(tmp_path, name, told):
    shared = "data: {loader: 'x:y'}\nversion: 2\nprimary: {metric: accuracy}\n"
    (tmp_path / "t.yaml").write_text(shared + SETS)
    (spec,) = (
        task for task in load_tasks(tmp_path / "t.yaml", tmp_path) if task.name == f"t_{name}"
    )
    departures = Section("t", board(), [], {}, spec, "").departures
    assert [line.removeprefix("Departure: ") for line in departures] == told


def test_the_settings_name_no_folder_of_the_machine(tmp_path):
    text = section(tmp_path).settings
    assert "root: pictures" in text
    assert "ada" not in text
    assert "description" not in text


def test_a_task_that_no_catalog_knows_has_neither():
    unknown = Section("t", board(), [], {}, None, "")
    assert (unknown.departures, unknown.settings, unknown.title) == ([], "", "T")


def test_each_image_stands_once_in_the_strip_with_its_first_item(tmp_path):
    write(tmp_path, board(*(measured(tmp_path, model, [0] * 9) for model in "ab")))
    (section,) = read_page(tmp_path, load_catalog()).sections
    assert section.strip == []
    images = {f"{i}.png": address for i, address in enumerate("xxyzyuvwq")}
    ids = [item.id for item in section._replace(thumbnails=images).strip]
    assert ids == ["0.png", "2.png", "3.png", "5.png", "6.png", "7.png"]
