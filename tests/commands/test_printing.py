import logging
import sys
from dataclasses import replace
from functools import partial
from io import StringIO

import pytest
from rich.console import Console
from runs import planned, ran
from sources import TASK, write

from vlbench.commands.printing import open_bar, print_plan, print_report
from vlbench.commands.streams import news
from vlbench.engine.progress import Bar
from vlbench.results import Result

FEW = """\
from dataclasses import replace
from pathlib import Path

from vlbench.data.image_folder import image_folder

def few(*, root: Path):
    return replace(image_folder(root=root), expected={"test": 9000})
"""


def printed(report, *values):
    console = Console(file=StringIO(), width=200)
    report(console, *values)
    return console.file.getvalue()


def test_the_plan_tells_absent_data_once_with_all_tasks_that_lack_them(source):
    for name in ("b", "c"):
        write(source / "tasks" / f"{name}.yaml", TASK.replace("../images", "../nowhere"))
    (source / "images/test/red/0.heic").touch()
    plan = planned(["mean-colour", "words"], ["ours"], include_path=[source])
    text = printed(partial(print_plan, verbose=True), plan)
    assert "left out of the data of few_shot_colours: 1 files (.heic) that are not images" in text
    assert text.count("nowhere") == 1
    assert "unavailable: b, c:" in text
    assert text.startswith("plan: 1 run, 2 missing data, 3 skipped\n")


def test_a_plan_says_how_many_rows_partial_data_lack(source):
    write(source / "tasks/few.py", FEW)
    write(
        source / "tasks/b.yaml", TASK.replace("vlbench.data.image_folder:image_folder", "few:few")
    )
    text = printed(print_plan, planned(["mean-colour"], ["b"], include_path=[source]))
    assert "partial data of b: test lacks 8,9" in text


def test_a_plan_counts_what_does_not_run_and_verbose_says_why(source):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../nowhere"))
    plan = planned(["mean-colour", "words"], ["ours"], include_path=[source])
    text = printed(print_plan, plan)
    assert text == (
        "plan: 1 run, 1 missing data, 2 skipped; -v says why\n"
        "run\n  mean-colour: few_shot_colours\n"
    )
    text = printed(partial(print_plan, verbose=True), plan)
    assert "skipped: the model has no ImageEncoder\n  words: b, few_shot_colours\n" in text


def test_models_with_the_same_tasks_share_a_line_of_the_plan(source):
    text = printed(print_plan, planned(["mean-colour", "fails"], ["ours"], include_path=[source]))
    assert text == "plan: 2 run\nrun\n  mean-colour, fails: few_shot_colours\n"


def test_a_plan_says_why_a_row_is_computed_again(source, tmp_path):
    where = {"include_path": [source], "output": tmp_path / "boards"}

    def told(**options):
        plan = planned(["mean-colour"], ["few_shot_colours"], **where, **options)
        return printed(print_plan, plan).splitlines()[3:]

    assert told() == []
    ran(["mean-colour"], ["few_shot_colours"], **where)
    names = "  mean-colour: few_shot_colours"
    assert told(overwrite=True) == ["run: --overwrite", names]
    with (source / "model_adapters/colours.py").open("a") as file:
        file.write("CHANGED = 1\n")
    assert told() == ["run: parameters, weights or code have changed since the row", names]
    (source / "images/train/red/0.png").unlink()
    assert told() == ["run: the data are not the data of the row", names]
    task = source / "tasks/few_shot_colours.yaml"
    task.write_text(task.read_text().replace("version: 1", "version: 2"))
    assert told() == ["run: the row is of version 1 of the task", names]


def test_a_plan_of_absent_data_alone_has_no_table(source):
    tag = TASK.replace("../images", "../nowhere").replace("[ours]", "[gone]")
    write(source / "tasks" / "b.yaml", tag)
    text = printed(print_plan, planned(["mean-colour"], ["gone"], include_path=[source]))
    assert text.startswith("plan: 1 missing data\nunavailable: b:")


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
    monkeypatch.setattr("vlbench.engine.progress.monotonic", lambda: next(clock))
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


def test_the_reason_of_several_failures_is_told_with_the_first():
    text = StringIO()
    with Bar(Console(file=text, width=200)) as bar:
        for task, reason in (("one", "broken"), ("two", "broken"), ("three", "other")):
            bar.done(replace(DONE, task=task, reason=reason, run={}))
    assert text.getvalue().splitlines() == [
        "a[b=c] · one: failed: broken",
        "a[b=c] · two: failed: as on one",
        "a[b=c] · three: failed: other",
    ]


def test_tasks_that_a_model_skips_for_one_reason_stand_in_one_line():
    text = StringIO()
    with Bar(Console(file=text, width=200)) as bar:
        for task, why in (("t", "no eyes"), ("u", "no ears"), ("v", "no eyes")):
            bar.done(replace(DONE, task=task, status="skipped", reason=why, notes=[], run={}))
        assert text.getvalue() == ""
    lines = ["a[b=c] · t, v: skipped: no eyes", "a[b=c] · u: skipped: no ears"]
    assert text.getvalue().splitlines() == lines


def test_what_the_plan_told_as_skipped_is_not_told_again_and_results_are_numbered(source):
    write(source / "tasks" / "b.yaml", TASK)
    plan = planned(["words", "mean-colour"], ["ours"], include_path=[source])
    text = StringIO()
    with open_bar(Console(file=text, width=200), plan) as bar:
        for job in plan.jobs:
            names = {"model": job.model.name, "task": job.task.spec.name}
            status = "skipped" if job.status == "skipped" else "ok"
            bar.done(replace(DONE, **names, status=status, reason=job.reason))
    assert text.getvalue().splitlines() == [
        "[1/2] mean-colour · b: ok in 2.3 s",
        "[2/2] mean-colour · few_shot_colours: ok in 2.3 s",
    ]


def test_the_report_of_many_tasks_is_models_by_tasks(source, tmp_path):
    for name in "bcd":
        write(source / "tasks" / f"{name}.yaml", TASK)
    where = {"include_path": [source], "output": tmp_path / "my boards"}
    plan = planned(["mean-colour", "fails"], ["ours"], **where)
    lines = printed(print_report, plan, ran(["mean-colour", "fails"], ["ours"], **where)).split(
        "\n"
    )
    (row,) = [line for line in lines if "mean-colour" in line]
    assert row.split() == ["mean-colour", *["100.0", "%"] * 4]
    assert not [line for line in lines if "fails" in line]
    assert lines[-3].startswith(f"4 boards in {tmp_path}/my boards; ")
    assert lines[-3].endswith(f"vlbench leaderboard show b --output '{tmp_path}/my boards'")
    assert lines[-2] == f"next: vlbench leaderboard build --output '{tmp_path}/my boards'"


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
