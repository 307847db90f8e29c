from types import SimpleNamespace

import pytest
import torch
from runs import evaluate
from sources import TASK, write

from vlbench.engine import NoProgress
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.run.history import History
from vlbench.run.machine import Machine, Report


def test_a_primary_that_is_no_score_fails_and_says_which_there_are(source):
    write(source / "tasks" / "b.yaml", TASK.replace("{shots: 1}", "{shots: 2}"))
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
    seen = history.costs().get("w", {}).values()
    assert [one.most_stored_mb for one in seen] == stored
    assert all(0 <= one.least_seconds < 5 < one.most_memory_mb for one in seen)


def test_two_reports_share_nothing():
    one, two = Report(), Report()
    one.absent["a task"] = "no data"
    assert two == Report()
