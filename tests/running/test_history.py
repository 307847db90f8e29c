import json
import sqlite3

import pytest
import torch
from runs import evaluate, planned
from sources import make_source

from vlbench.engine.settings import ComputeSettings
from vlbench.running.history import LOADING, History, Seen, Took, place_of, work_of

CPU = ComputeSettings(torch.device("cpu"))


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def steps(cache):
    """Return place, work, model, seconds, memory and growth of the store, as they were added."""
    with sqlite3.connect(cache / "history.sqlite") as base:
        return base.execute("SELECT * FROM steps ORDER BY rowid").fetchall()


def test_the_least_and_the_most_of_all_earlier_runs_are_known(tmp_path):
    history = History(tmp_path, "here")
    for took in (Took(2.0, 300.0, 5.0), Took(8.0, 200.0, 0.0), Took(3.0, 250.0, 1.0)):
        history.add("m", "w", took)
    history.add("other", "w", Took(1.0, 1.0, 1.0))
    assert history.seen() == {
        "w": {"m": Seen(2.0, 8.0, 300.0, 5.0), "other": Seen(1.0, 1.0, 1.0, 1.0)}
    }


def test_what_was_taken_in_another_place_is_not_known_here(tmp_path):
    History(tmp_path, "there").add("m", "w", Took(2.0, 300.0, 5.0))
    assert History(tmp_path, "here").seen() == {}


def test_reading_what_is_not_there_makes_nothing(tmp_path):
    assert History(tmp_path / "cache", "here").seen() == {}
    assert not (tmp_path / "cache").exists()


def test_a_broken_database_is_an_empty_history_and_is_named(tmp_path, caplog):
    (tmp_path / "history.sqlite").write_text("not a data base" * 100)
    history = History(tmp_path, "here")
    history.add("m", "w", Took(2.0, 300.0, 5.0))
    assert history.seen() == {}
    assert "history.sqlite tells of no earlier run (file is not a database)" in caplog.text


def test_a_folder_that_cannot_be_made_costs_the_history_alone(tmp_path):
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file", "here")
    history.add("m", "w", Took(2.0, 300.0, 5.0))
    assert history.seen() == {}


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
    monkeypatch.setattr("vlbench.running.history.torch.get_num_threads", lambda: 77)
    assert json.loads(place_of(CPU, 1))[1] == 77
    monkeypatch.undo()
    monkeypatch.setattr("vlbench.running.history.hardware", lambda _: "another processor")
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
