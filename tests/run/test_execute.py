import os
import re
import shutil
import time

import pytest
from runs import evaluate, ran
from sources import TASK, make_source, write
from thread_counts import threads_now, two_threads

from vlbench.cli import main
from vlbench.run import execute
from vlbench.run.execute import Report
from vlbench.system.files import MARK, sweep


def test_a_probe_that_raises_is_a_failed_row_with_the_line(source, tmp_path):
    (result,) = evaluate(source, model="fails", output=tmp_path)
    assert result.status == "failed"
    assert result.reason.startswith("RuntimeError: the model broke (colours.py:")


THREADS = """
from threadpoolctl import threadpool_info
from vlbench.results import Outcome, Score

def own(model, data, engine, *, fails: bool):
    before = _now()
    passes = engine.features(model.encode_images, data.splits["test"]["image"]).unique().tolist()
    seen = f"{before}, {passes}, {_now()}"
    if fails:
        raise RuntimeError(seen)
    return Outcome([Score("accuracy", 0.5, 9)], notes=[seen])

def _now():
    return {one["num_threads"] for one in threadpool_info()}
"""


@pytest.mark.parametrize("fails", [True, False])
def test_a_probe_has_one_thread_and_its_passes_have_all(source, fails):
    write(source / "tasks" / "mine.py", THREADS)
    task = TASK.replace("few_shot\n", '"mine:own"\n').replace(", at: {shots: 1}", "")
    task = task.replace("{shots: [1], trials: 2}", f"{{fails: {str(fails).lower()}}}")
    write(source / "tasks" / "b.yaml", task)
    file = source / "model_adapters" / "colours.py"
    planted = "return torch.full((len(pixels), 1), float(torch.get_num_threads()))"
    file.write_text(file.read_text().replace("return pixels.mean(", f"{planted}; pixels.mean(", 1))
    with two_threads():
        (result,) = evaluate(source, tasks="b", batch_size=4)
        assert "{1}, [2.0], {1}" in "".join([result.reason, *result.notes])
        assert (result.status == "failed", threads_now()) == (fails, {2})


@pytest.mark.parametrize("line", ["return to_tensor(", "return pixels.mean(", "self.shift ="])
def test_an_adapter_that_would_end_the_program_fails_with_its_line(source, line, capsys):
    file = source / "model_adapters" / "colours.py"
    file.write_text(file.read_text().replace(line, f"raise SystemExit(0); {line}", 1))
    words = ["--model=mean-colour", "--tasks=few_shot_colours", f"--include-path={source}"]
    assert main([*words, f"--output={source / 'boards'}"]) == 1
    told = r"SystemExit: 0 \(colours.py:\d+\) would end the program; raise another error"
    assert re.search(told, "".join(capsys.readouterr()))


ENDING = [
    ({"few_shot\n": '"mine:ends"\n'}, "model, data, engine, *, shots: list[int], trials: int"),
    ({"vlbench.data.image_folder:image_folder": "mine:ends"}, "root: str"),
]


@pytest.mark.parametrize(("own", "signature"), ENDING)
def test_a_probe_or_a_loader_that_would_end_the_program_is_a_failed_row(source, own, signature):
    write(source / "tasks" / "mine.py", f"def ends({signature}):\n    exit(0)\n")
    ((shipped, mine),) = own.items()
    write(source / "tasks" / "b.yaml", TASK.replace(shipped, mine))
    (result,) = evaluate(source, tasks="b")
    assert result.status == "failed"
    assert result.reason.startswith("SystemExit: 0 (mine.py:2) would end the program")


def test_a_model_that_does_not_load_has_failed_results_and_no_row(source, tmp_path):
    (result,) = evaluate(source, model="will-not-load", output=tmp_path / "boards")
    assert (result.status, "no weights here" in result.reason) == ("failed", True)
    assert not (tmp_path / "boards" / "few_shot_colours.json").exists()


NEEDS = "with the same fractions of classes, a split needs"


def test_too_few_rows_because_of_limit_are_skipped_not_failed(source):
    write(
        source / "tasks" / "b.yaml",
        TASK.replace("shots: [1]", "shots: [3]").replace("shots: 1", "shots: 3"),
    )
    (result,) = evaluate(source, tasks="b", limit=6)
    assert (result.status, result.reason) == ("skipped", "limit")
    assert result.notes == [f"class 'blue' has 2 examples, 3 shots asked; {NEEDS} 9 rows or more"]


def test_too_few_examples_fail_and_name_the_class(source):
    write(source / "tasks" / "b.yaml", TASK.replace("shots: [1]", "shots: [1, 4]"))
    (result,) = evaluate(source, tasks="b")
    assert (result.status, result.reason) == (
        "failed",
        f"class 'blue' has 3 examples, 4 shots asked; {NEEDS} 12 rows or more",
    )


def test_a_truncated_image_fails_the_task_and_is_named(source):
    image = source / "images" / "test" / "red" / "0.png"
    image.write_bytes(image.read_bytes()[:-30])
    (result,) = evaluate(source)
    assert result.status == "failed"
    assert "test/red/0.png" in result.reason


def test_a_split_that_is_missed_later_is_absent_data_not_a_failure(source, monkeypatch):
    monkeypatch.setattr("vlbench.run.job.require_splits", lambda *_: None)
    shutil.rmtree(source / "images" / "train")
    report = ran(["mean-colour"], ["few_shot_colours"], include_path=[source])
    assert report.results == []
    assert "the split 'train' (the data have test) not found" in report.absent["few_shot_colours"]


TWO_DAYS = 172_800


def part(folder, name, age):
    file = write(folder / "ab" / name, "half of it")
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_parts_older_than_a_day_are_swept_and_nothing_else(tmp_path):
    old, young = part(tmp_path, ".part-old", TWO_DAYS), part(tmp_path, ".part-young", 60)
    whole = part(tmp_path, "000000.pt", TWO_DAYS)
    sweep(tmp_path)
    assert [file.exists() for file in (old, young, whole)] == [False, True, True]


def test_a_folder_is_swept_once_a_day(tmp_path):
    sweep(tmp_path)
    old = part(tmp_path, ".part-old", TWO_DAYS)
    sweep(tmp_path)
    assert old.exists()
    os.utime(tmp_path / MARK, (0, 0))
    sweep(tmp_path)
    assert not old.exists()


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    sweep(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("folder", ["boards", "cache/features"])
def test_the_next_run_sweeps_what_a_killed_one_left(tmp_path, folder):
    old = part(tmp_path / folder, ".part-old", TWO_DAYS)
    places = {"output": tmp_path / "boards", "cache_dir": tmp_path / "cache"}
    evaluate(make_source(tmp_path / "ours"), **places)
    assert not old.exists()


def test_a_primary_that_is_no_score_fails_and_says_which_there_are(source):
    write(source / "tasks" / "b.yaml", TASK.replace("{shots: 1}", "{shots: 1, k: 2}"))
    (result,) = evaluate(source, tasks="b")
    assert "must match exactly one score, but matches 0 of: " in result.reason
    assert "accuracy at {'shots': 1}, accuracy_cosine at {'shots': 1}" in result.reason


COUNTED = """\
from vlbench.capabilities import ImageEncoder
from vlbench.results import Outcome, Score

def counted(model: ImageEncoder, data, engine, *, log: str):
    def say(_):
        with open(log, "a") as lines:
            lines.write("computed")
        return [0.0]

    engine.map(say, data.splits["test"]["image"].select([0]), key={"what": "mapped"})
    engine.once({"what": "built"}, lambda: {"value": say(None)})
    return Outcome(scores=[Score("counted", 1.0, 2)])
"""


def test_a_primary_that_is_mended_finds_what_was_computed_before(source, tmp_path):
    log = tmp_path / "log"
    write(source / "tasks" / "counted.py", COUNTED)
    task = TASK[: TASK.index("params")].replace("few_shot", "counted:counted")
    for metric, status in [("cuonted", "failed"), ("counted", "ok")]:
        ending = f"params: {{log: {log}}}\nprimary: {{metric: {metric}}}"
        write(source / "tasks" / "c.yaml", task + ending)
        (result,) = evaluate(source, tasks="c", cache_dir=tmp_path / "cache")
        assert result.status == status
    assert log.read_text() == "computed" * 2


NAMED = """\
from vlbench.capabilities import ImageEncoder
from vlbench.results import Outcome, Score

def names(model: ImageEncoder, data, engine, *, others: list[ImageEncoder]):
    told = [engine.name_of(one) for one in (model, *others)]
    return Outcome(scores=[Score("named", 1.0, 2)], notes=told)
"""


def test_a_probe_is_told_the_names_of_the_model_and_its_companions(source):
    write(source / "tasks" / "named.py", NAMED)
    params = "params: {others: [mean-colour, will-load]}\nprimary: {metric: named}"
    before = TASK[TASK.index("params") :]
    task = TASK.replace(before, params).replace("few_shot", "named:names")
    write(source / "tasks" / "c.yaml", task)
    models = (source / "model_adapters" / "models.yaml").read_text()
    second = 'will-load: {adapter: "colours:MeanColour", params: {shift: 1.0}}\n'
    write(source / "model_adapters" / "models.yaml", models + second)
    (result,) = evaluate(source, tasks="c", model_args={"shift": 0.5})
    assert result.notes == ["mean-colour[shift=0.5]", "mean-colour", "will-load"]


def test_two_reports_share_nothing():
    one, two = Report(), Report()
    one.absent["a task"] = "no data"
    assert two == Report()


def test_a_row_that_cannot_be_made_is_a_failed_row(source, monkeypatch):
    def broken(*_):
        raise ValueError("no row of this")

    monkeypatch.setattr(execute, "make_row", broken)
    (result,) = evaluate(source)
    assert (result.status, result.reason.partition(" (")[0]) == (
        "failed",
        "ValueError: no row of this",
    )
