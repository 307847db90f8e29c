from types import SimpleNamespace

import pytest
import torch
from runs import evaluate
from sources import TASK, make_source, write

from vlbench.engine import NoProgress
from vlbench.engine.settings import ComputeSettings
from vlbench.engine.store import Store
from vlbench.running.history import History
from vlbench.running.jobs import Machine


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_a_primary_that_is_no_score_fails_and_says_which_there_are(source):
    write(source / "tasks" / "b.yaml", TASK.replace("{shots: 1}", "{shots: 2}"))
    (result,) = evaluate(source, tasks="b")
    assert "is 0 of the scores" in result.reason


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


@pytest.mark.parametrize(("is_main", "stored"), [(True, [3.0]), (False, [])])
def test_the_main_process_remembers_what_all_of_them_stored(tmp_path, is_main, stored):
    processes = SimpleNamespace(is_main=is_main, exchange=lambda own: [own, 2 * 2**20])
    history, store = History(tmp_path, "here"), Store(tmp_path)
    settings = ComputeSettings(torch.device("cpu"))
    machine = Machine(settings, store, NoProgress(), processes, history)
    store.grown = 5 * 2**20
    start = machine.now()
    store.grown += 2**20
    machine.remember("m", "w", start)
    seen = history.seen().get("w", {}).values()
    assert [one.most_stored_mb for one in seen] == stored
    assert all(0 <= one.least_seconds < 5 < one.most_memory_mb for one in seen)
