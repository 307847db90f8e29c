import pytest
from runs import planned, ran
from sources import TASK, make_source, write

from vlbench.running.estimates import Step, estimated, total
from vlbench.running.history import LOADING, Seen, work_of

FIRST, SECOND = Seen(2.0, 8.0, 300.0, 5.0), Seen(1.0, 3.0, 900.0, 0.0)


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
    assert estimated(jobs, {}) == steps
    assert total(steps) is None


def test_a_models_own_runs_come_before_those_of_others(where):
    (job,) = jobs_of(["mean-colour"], ["few_shot_colours"], where)
    known = {work_of(job): {"mean-colour": FIRST, "another": SECOND}, LOADING: {"another": SECOND}}
    assert estimated([job], known) == [
        Step("mean-colour", LOADING, None),
        Step("mean-colour", "few_shot_colours", FIRST),
    ]


def test_a_task_is_estimated_from_all_other_models_that_did_it(where):
    (job,) = jobs_of(["mean-colour"], ["few_shot_colours"], where)
    known = {work_of(job): {"one": FIRST, "another": SECOND}}
    step = Step("mean-colour", "few_shot_colours", Seen(1.0, 8.0, 900.0, 5.0), others=2)
    assert estimated([job], known)[1] == step


def test_runs_of_another_task_tell_nothing_of_this_one(where):
    one, other = jobs_of(["mean-colour"], ["few_shot_colours", "b"], where)
    steps = estimated([one, other], {work_of(one): {"mean-colour": FIRST}})
    assert [step.seen for step in steps] == [None, FIRST, None]


def test_a_model_loads_once_for_all_of_its_tasks(where):
    jobs = jobs_of(["mean-colour", "fails"], ["few_shot_colours", "b"], where)
    whats = [(step.model, step.what) for step in estimated(jobs, {})]
    assert whats == [
        (model, what)
        for model in ("mean-colour", "fails")
        for what in (LOADING, "few_shot_colours", "b")
    ]


def test_what_is_kept_or_skipped_takes_nothing(where):
    ran(["mean-colour"], ["few_shot_colours"], **where)
    jobs = jobs_of(["mean-colour", "words"], ["few_shot_colours"], where)
    assert [job.status for job in jobs] == ["kept", "skipped"]
    assert estimated(jobs, {}) == []


def test_seconds_and_disk_add_up_and_the_highest_peak_of_memory_counts():
    steps = [Step("m", LOADING, SECOND), Step("m", "t", FIRST), Step("m", "u", None)]
    assert total(steps) == Seen(3.0, 11.0, 900.0, 5.0)
