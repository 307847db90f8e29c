import pytest
from fakes import ConstantModel
from runs import evaluate, planned
from sources import TASK, write

from vlbench.errors import DataError, SpecError, UnknownNameError


def test_data_that_a_named_task_lacks_stop_the_run(source):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "$VLBENCH_DATA/nowhere"))
    with pytest.raises(DataError, match=r"b: .*nowhere"):
        evaluate(source, tasks="b")


def test_data_that_a_selected_task_lacks_are_listed(source):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../nowhere"))
    found = planned(["mean-colour"], ["ours"], include_path=[source])
    assert [job.status for job in found.jobs] == ["unavailable", "run"]


def test_all_problems_stand_in_one_message(source):
    write(source / "tasks" / "b.yaml", TASK.replace("trials", "trails"))
    write(source / "tasks" / "c.yaml", TASK.replace("few_shot", "few_shots", 1))
    with pytest.raises(SpecError) as caught:
        evaluate(source, tasks="b,c")
    assert "did you mean 'trials'" in str(caught.value)
    assert "few_shots" in str(caught.value)


REFUSED = [
    ("mean-colour", {"data_dir": {"few_shot_color": "x"}}, "did you mean few_shot_colours"),
    ("mean-colour", {"device": "meta"}, "no device 'meta' here"),
    ("mean-colour,words", {"name": "both"}, "--name is for one model, not 2"),
    (ConstantModel, {}, "give a model's name with arguments, or an object"),
    (ConstantModel(), {"model_args": {"size": 3}}, "or an object"),
    ([ConstantModel(), ConstantModel()], {}, "two models would have rows named ConstantModel"),
]


@pytest.mark.parametrize(("model", "options", "message"), REFUSED)
def test_a_command_that_makes_no_sense_is_refused(source, model, options, message):
    with pytest.raises(UnknownNameError, match=message):
        evaluate(source, model=model, **options)
