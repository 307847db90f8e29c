from vlbench.leaderboard.page.values import Chart, Curve, Figure, Page, Paper, Reason, Table, Task


def test_a_table_counts_the_columns_that_are_visible_at_first():
    table = Table("t", "", "", [], ["a", "b", "c"], 2, [], has_notes=True)
    assert table.visible == 5


def test_a_task_counts_its_models_without_a_score():
    empty = dict.fromkeys(Task._fields, ())
    reasons = [Reason("skipped", "", ["a", "b"]), Reason("failed", "", ["c"])]
    assert Task(**empty | {"reasons": reasons}).unscored == 3


def test_a_figure_knows_whether_chance_is_drawn():
    drawn = Chart("", "", "", [], [], "M0 0", [Curve("", "", "", "")])
    assert Figure([drawn], [], 0).has_chance
    assert not Figure([drawn._replace(chance="")], [], 0).has_chance


def test_a_page_counts_its_tasks_and_names_every_capability_once():
    papers = [Paper("", "", "", [1, 2]), Paper("", "", "", [3])]
    page = Page("", papers, [], [], {"a": ["X", "Y"], "b": ["X"]}, is_brief=False)
    assert (page.size, page.offered) == (3, ["X", "Y"])
