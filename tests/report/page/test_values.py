from vlbench.report.page import values
from vlbench.report.page.values import Page, Paper, Reason, Table, Task


def test_a_table_counts_the_columns_that_are_visible_at_first():
    table = Table("t", "", "", [], ["a", "b", "c"], 2, [], has_notes=True)
    assert table.visible == 5


def test_a_task_counts_its_models_without_a_score():
    empty = dict.fromkeys(Task._fields, ())
    reasons = [Reason("skipped", "", ["a", "b"]), Reason("failed", "", ["c"])]
    assert Task(**empty | {"reasons": reasons}).unscored == 3


def test_a_page_counts_its_tasks_and_names_every_capability_once():
    papers = [Paper("", "", "", [1, 2]), Paper("", "", "", [3])]
    page = Page("", papers, [], [], {"a": ["X", "Y"], "b": ["X"]}, is_brief=False)
    assert (page.size, page.offered) == (3, ["X", "Y"])


def test_an_id_of_a_row_names_task_and_model():
    assert values.row_id("few_shot", "tiny-clip") == "row-few_shot.tiny-clip"
    assert values.row_id("t", "m", "sha256:0123456789") == "row-t.m.01234567"


def test_names_that_a_page_cannot_hold_get_ids_of_their_own():
    hostile, other = values.model_id("<script>"), values.model_id("(script)")
    assert hostile != other
    assert not set(hostile + other) & set("<>()\"' ")


def test_numbers_stand_without_their_unit():
    assert [values.figure_of(0.5314), values.figure_of(-0.0092, "correlation")] == [
        "53.1",
        "-0.0092",
    ]
    assert values.figure_of(1234.56, "words") == "1235"


def test_a_label_has_the_conditions_and_the_unit():
    assert values.metric_label("accuracy", {"shots": 5}) == "accuracy (shots 5), %"
    assert values.metric_label("r", {}, "correlation") == "r"


def test_a_link_leads_to_arxiv_alone():
    assert values.arxiv_link("arXiv:2104.08313, section 3") == "https://arxiv.org/abs/2104.08313"
    assert values.arxiv_link("javascript:alert(1)") == ""
