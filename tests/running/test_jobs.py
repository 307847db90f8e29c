import pytest
from runs import evaluate
from sources import TASK, make_source, write


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
