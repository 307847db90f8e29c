import pytest
from fakes import ConstantModel
from runs import evaluate, primary
from sources import make_source

import vlbench


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_a_model_and_a_task_of_a_users_own_run(source):
    (result,) = evaluate(source)
    assert (result.status, primary(result)) == ("ok", [1.0])


def test_an_adapter_object_runs_without_a_line_of_yaml():
    (result,) = vlbench.evaluate(ConstantModel(), "few_shot_digits")
    assert result.model == "ConstantModel"
    assert primary(result) == pytest.approx([0.1, 0.1, 0.1])
