import logging
import sys
from dataclasses import replace
from functools import partial
from io import StringIO

import pytest
from rich.console import Console
from runs import planned, ran
from sources import TASK, make_source, write

from vlbench.commands.reports import Bar, print_plan, print_report
from vlbench.commands.streams import news
from vlbench.results import Result


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
    (source / "images/test/red/0.heic").touch()
    text = printed(print_plan, planned(["mean-colour", "words"], ["ours"], include_path=[source]))
    assert "left out of the data of few_shot_colours: 1 files (.heic) that are no images" in text
    assert text.count("nowhere") == 1
    assert "unavailable: b, c:" in text
    assert text.startswith("plan: 1 run, 2 want data, 3 skipped\n")
    # What is skipped is counted here, and told as it comes.
    assert "words" not in text


def test_a_dry_run_lists_what_is_skipped(source):
    plan = planned(["mean-colour", "words"], ["ours"], include_path=[source])
    text = printed(partial(print_plan, skipped=True), plan)
    assert "words" in text
    assert "skipped  the model has no ImageEncoder" in text


def test_a_plan_of_absent_data_alone_has_no_table(source):
    tag = TASK.replace("../images", "../nowhere").replace("[ours]", "[gone]")
    write(source / "tasks" / "b.yaml", tag)
    text = printed(print_plan, planned(["mean-colour"], ["gone"], include_path=[source]))
    assert text.startswith("plan: 1 want data\nunavailable: b:")


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


DONE = Result(
    task="few_shot", version=1, paper="", primary={"metric": "accuracy", "at": {}}, model="a[b=c]",
    status="failed", reason="class 'x' has 1 example", run={"seconds": 2.345},
)  # fmt: skip


def shown(*, terminal):
    text = StringIO()
    with Bar(Console(file=text, force_terminal=terminal, width=200)) as bar:
        bar.begin("a[b=c]", "few_shot")
        bar.start("encode_images on images", 10)
        bar.advance(4)
        bar.done(DONE)
    return text.getvalue()


def test_off_a_terminal_a_result_is_one_line_and_a_pass_none():
    line = "a[b=c] · few_shot: failed in 2.3 s: class 'x' has 1 example\n"
    assert shown(terminal=False).strip() == line.strip()


def test_off_a_terminal_a_long_pass_has_a_line_a_minute_with_the_time_left(monkeypatch):
    clock = iter([0.0, 30.0, 90.0, 100.0, 300.0])
    monkeypatch.setattr("vlbench.commands.reports.monotonic", lambda: next(clock))
    text = StringIO()
    with Bar(Console(file=text, force_terminal=False, width=200)) as bar:
        bar.begin("a", "t")
        bar.start("training", 40)
        for _ in range(4):
            bar.advance(10)
    assert text.getvalue() == "a · t: training: 20 of 40, 2 min left\n"


def test_on_a_terminal_a_pass_is_a_bar_with_how_much_is_done():
    text = shown(terminal=True)
    assert "encode_images on images" in text
    assert "4/10" in text


def test_a_row_that_a_limit_leaves_out_says_how_many_rows_there_must_be():
    text = StringIO()
    notes = ["class 'x' has 1 example; a split needs 9 rows or more"]
    with Bar(Console(file=text, width=200)) as bar:
        bar.done(replace(DONE, status="skipped", reason="limit", notes=notes, run={}))
    assert text.getvalue() == f"a[b=c] · few_shot: skipped: limit: {notes[0]}\n"


def test_tasks_that_a_model_skips_for_one_reason_stand_in_one_line():
    text = StringIO()
    with Bar(Console(file=text, width=200)) as bar:
        for task, why in (("t", "no eyes"), ("u", "no ears"), ("v", "no eyes")):
            bar.done(replace(DONE, task=task, status="skipped", reason=why, notes=[], run={}))
        assert text.getvalue() == ""
    lines = ["a[b=c] · t, v: skipped: no eyes", "a[b=c] · u: skipped: no ears"]
    assert text.getvalue().splitlines() == lines


@pytest.mark.parametrize("same_terminal", [True, False])
def test_news_on_the_terminal_of_the_bars_come_from_their_console(monkeypatch, same_terminal):
    screen, stderr = StringIO(), StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: same_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    with news(), Bar(Console(file=screen, force_terminal=True)):
        logging.getLogger("vlbench.data").info("drawing")
    assert stderr.getvalue() == ("" if same_terminal else "vlbench: drawing\n")
    assert ("vlbench: drawing" in screen.getvalue()) == same_terminal


def test_a_process_whose_console_is_quiet_keeps_its_standard_error(monkeypatch):
    stderr = StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stderr)
    with Bar(Console(force_terminal=True, quiet=True)):
        sys.stderr.write("a warning\n")
    assert stderr.getvalue() == "a warning\n"
