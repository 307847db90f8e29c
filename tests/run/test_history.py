import json
import sqlite3

import pytest
import torch
from runs import evaluate, planned, ran
from sources import TASK, make_source, write

from vlbench.engine.devices import ComputeSettings
from vlbench.run.history import (
    LOADING,
    History,
    PastCost,
    Step,
    Took,
    estimate,
    place_of,
    total,
    work_of,
)

CPU = ComputeSettings(torch.device("cpu"))


def steps(cache):
    """Return place, work, model, seconds, memory and growth of the store, as they were added."""
    with sqlite3.connect(cache / "history.sqlite") as base:
        return base.execute("SELECT * FROM steps ORDER BY rowid").fetchall()


def test_the_least_and_the_most_of_all_earlier_runs_are_known(tmp_path):
    history = History(tmp_path, "here")
    for took in (Took(2.0, 300.0, 5.0), Took(8.0, 200.0, 0.0), Took(3.0, 250.0, 1.0)):
        history.add("m", "w", took)
    history.add("other", "w", Took(1.0, 1.0, 1.0))
    assert history.costs() == {
        "w": {"m": PastCost(2.0, 8.0, 300.0, 5.0), "other": PastCost(1.0, 1.0, 1.0, 1.0)}
    }


def test_what_was_taken_in_another_place_is_not_known_here(tmp_path):
    History(tmp_path, "there").add("m", "w", Took(2.0, 300.0, 5.0))
    assert History(tmp_path, "here").costs() == {}


def test_reading_what_is_not_there_makes_nothing(tmp_path):
    assert History(tmp_path / "cache", "here").costs() == {}
    assert not (tmp_path / "cache").exists()


def test_a_broken_database_is_an_empty_history_and_is_named(tmp_path, caplog):
    (tmp_path / "history.sqlite").write_text("not a data base" * 100)
    history = History(tmp_path, "here")
    history.add("m", "w", Took(2.0, 300.0, 5.0))
    assert history.costs() == {}
    assert "history.sqlite tells of no earlier run (file is not a database)" in caplog.text


def test_a_folder_that_cannot_be_made_costs_the_history_alone(tmp_path):
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file", "here")
    history.add("m", "w", Took(2.0, 300.0, 5.0))
    assert history.costs() == {}


@pytest.mark.parametrize(
    ("settings", "processes"),
    [
        (CPU._replace(batch_size=8), 1),
        (CPU._replace(dtype=torch.bfloat16), 1),
        (CPU._replace(batch_size=None), 1),
        (CPU, 2),
    ],
)
def test_other_settings_are_another_place(settings, processes):
    assert place_of(settings, processes) != place_of(CPU, 1)


def test_other_hardware_and_other_threads_are_another_place(monkeypatch):
    before = place_of(CPU, 1)
    monkeypatch.setattr("vlbench.run.history.torch.get_num_threads", lambda: 77)
    assert json.loads(place_of(CPU, 1))[1] == 77
    monkeypatch.undo()
    monkeypatch.setattr("vlbench.run.history.hardware", lambda _: "another processor")
    assert json.loads(before)[0] != json.loads(place_of(CPU, 1))[0] == "another processor"


def test_work_is_the_same_for_all_models_and_other_for_other_rows(source):
    options = {"include_path": [source]}
    models, tasks = ["mean-colour", "fails"], ["few_shot_colours"]
    one, other = planned(models, tasks, **options).jobs
    limited = planned(models, tasks, limit=6, **options).jobs[0]
    assert work_of(one) == work_of(other)
    assert work_of(limited) != work_of(one)


def test_a_new_version_of_a_task_is_other_work(source):
    file = source / "tasks" / "few_shot_colours.yaml"
    before = planned(["mean-colour"], ["few_shot_colours"], include_path=[source]).jobs[0]
    file.write_text(file.read_text().replace("version: 1", "version: 2"))
    after = planned(["mean-colour"], ["few_shot_colours"], include_path=[source]).jobs[0]
    assert work_of(before) != work_of(after)


def test_a_run_remembers_loading_and_each_job_with_what_the_store_grew_by(source, tmp_path):
    cache = tmp_path / "kept"
    (job,) = planned(["mean-colour"], ["few_shot_colours"], include_path=[source]).jobs
    (result,) = evaluate(source, cache_dir=cache)
    loading, done = steps(cache)
    assert [(loading[1], loading[2]), (done[1], done[2])] == [
        (LOADING, "mean-colour"),
        (work_of(job), "mean-colour"),
    ]
    assert done[3] >= result.run["seconds"] > 0
    assert done[4] >= result.run["peak_memory_mb"] - 1
    held = sum(file.stat().st_size for file in (cache / "features").rglob("*.pt"))
    assert (loading[5], done[5]) == (0.0, held / 2**20)
    assert held > 0


def test_features_that_are_there_already_let_the_store_grow_by_nothing(source, tmp_path):
    cache = tmp_path / "kept"
    for _ in range(2):
        evaluate(source, cache_dir=cache)
    assert [step[5] > 0 for step in steps(cache)] == [False, True, False, False]


@pytest.mark.parametrize(("model", "known"), [("fails", [LOADING]), ("will-not-load", [])])
def test_what_failed_is_not_remembered(source, tmp_path, model, known):
    evaluate(source, model=model, cache_dir=tmp_path / "kept")
    there = (tmp_path / "kept" / "history.sqlite").exists()
    assert [step[1] for step in (steps(tmp_path / "kept") if there else [])] == known


FIRST, SECOND = PastCost(2.0, 8.0, 300.0, 5.0), PastCost(1.0, 3.0, 900.0, 0.0)


@pytest.fixture
def where(tmp_path):
    source = make_source(tmp_path / "ours")
    write(source / "tasks" / "b.yaml", TASK.replace("trials: 2", "trials: 3"))
    return {"include_path": [source], "output": tmp_path / "boards"}


def jobs_of(models, tasks, where):
    return planned(models, tasks, **where).jobs


def test_without_an_earlier_run_nothing_is_estimated(where):
    jobs = jobs_of(["mean-colour"], ["few_shot_colours"], where)
    steps = [Step("mean-colour", LOADING, None), Step("mean-colour", "few_shot_colours", None)]
    assert estimate(jobs, {}) == steps
    assert total(steps) is None


def test_a_models_own_runs_come_before_those_of_others(where):
    (job,) = jobs_of(["mean-colour"], ["few_shot_colours"], where)
    known = {work_of(job): {"mean-colour": FIRST, "another": SECOND}, LOADING: {"another": SECOND}}
    assert estimate([job], known) == [
        Step("mean-colour", LOADING, None),
        Step("mean-colour", "few_shot_colours", FIRST),
    ]


def test_a_task_is_estimated_from_all_other_models_that_did_it(where):
    (job,) = jobs_of(["mean-colour"], ["few_shot_colours"], where)
    known = {work_of(job): {"one": FIRST, "another": SECOND}}
    step = Step("mean-colour", "few_shot_colours", PastCost(1.0, 8.0, 900.0, 5.0), others=2)
    assert estimate([job], known)[1] == step


def test_runs_of_another_task_tell_nothing_of_this_one(where):
    one, other = jobs_of(["mean-colour"], ["few_shot_colours", "b"], where)
    steps = estimate([one, other], {work_of(one): {"mean-colour": FIRST}})
    assert [step.past for step in steps] == [None, FIRST, None]


def test_a_model_loads_once_for_all_of_its_tasks(where):
    jobs = jobs_of(["mean-colour", "fails"], ["few_shot_colours", "b"], where)
    whats = [(step.model, step.what) for step in estimate(jobs, {})]
    assert whats == [
        (model, what)
        for model in ("mean-colour", "fails")
        for what in (LOADING, "few_shot_colours", "b")
    ]


def test_what_is_kept_or_skipped_takes_nothing(where):
    ran(["mean-colour"], ["few_shot_colours"], **where)
    jobs = jobs_of(["mean-colour", "words"], ["few_shot_colours"], where)
    assert [job.status for job in jobs] == ["kept", "skipped"]
    assert estimate(jobs, {}) == []


def test_seconds_and_disk_add_up_and_the_highest_peak_of_memory_counts():
    steps = [Step("m", LOADING, SECOND), Step("m", "t", FIRST), Step("m", "u", None)]
    assert total(steps) == PastCost(3.0, 11.0, 900.0, 5.0)
