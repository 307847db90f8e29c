from io import StringIO

import pytest
from rich.console import Console
from runs import planned, ran
from sources import TASK, make_source, write

from vlbench.commands.reports import print_plan, print_report


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def printed(report, *values):
    console = Console(file=StringIO(), width=200)
    report(console, *values)
    return console.file.getvalue()


def test_the_plan_tells_absent_data_once_with_all_tasks_that_lack_them(source):
    for name in ("b", "c"):
        write(source / "tasks" / f"{name}.yaml", TASK.replace("../images", "../nowhere"))
    text = printed(print_plan, planned(["mean-colour", "words"], ["ours"], include_path=[source]))
    assert text.count("nowhere") == 1
    assert "unavailable: b, c:" in text
    assert "words" in text


def test_a_plan_of_absent_data_alone_has_no_table(source):
    tag = TASK.replace("../images", "../nowhere").replace("[ours]", "[gone]")
    write(source / "tasks" / "b.yaml", tag)
    text = printed(print_plan, planned(["mean-colour"], ["gone"], include_path=[source]))
    assert text.startswith("unavailable: b:")


def test_the_report_has_a_table_for_each_task_that_scored(source):
    models, where = ["mean-colour", "fails"], {"include_path": [source]}
    plan = planned(models, ["few_shot_colours"], **where)
    text = printed(print_report, plan, ran(models, ["few_shot_colours"], **where))
    assert "100.0 %" in text
    assert "fails" not in text


def test_a_limited_run_prints_numbers_and_that_no_board_was_written(source):
    options = {"include_path": [source], "limit": 6}
    plan = planned(["mean-colour"], ["few_shot_colours"], **options)
    text = printed(print_report, plan, ran(["mean-colour"], ["few_shot_colours"], **options))
    assert "100.0 %" in text
    assert text.rstrip().endswith("no board was written because of --limit 6")


def test_a_limit_that_leaves_too_few_rows_writes_no_board_either(source):
    options = {"include_path": [source], "limit": 2}
    plan = planned(["mean-colour"], ["few_shot_colours"], **options)
    text = printed(print_report, plan, ran(["mean-colour"], ["few_shot_colours"], **options))
    assert text == "no board was written because of --limit 2\n"
