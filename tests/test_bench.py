import os
import random
import subprocess
import sys

import huggingface_hub
import numpy as np
import pytest
import torch
from fakes import ConstantModel
from runs import evaluate, primary

import vlbench
from vlbench.run.options import Keywords, Options
from vlbench.system import hub


def test_a_model_and_a_task_of_a_users_own_run(source):
    (result,) = evaluate(source)
    assert (result.status, primary(result)) == ("ok", [1.0])


def test_an_adapter_object_runs_without_a_line_of_yaml():
    (result,) = vlbench.evaluate(ConstantModel(), "few_shot_digits")
    assert result.model == "ConstantModel"
    assert primary(result) == pytest.approx([0.1, 0.1, 0.1])


def test_a_frame_has_one_row_a_score_with_its_conditions_as_columns(source):
    results = [*evaluate(source), *evaluate(source, model="words")]
    frame = vlbench.frame(results)
    (first, skipped) = results
    scored = frame[frame.model == "mean-colour"]
    assert scored.value.tolist() == [score.value for score in first.scores]
    assert scored.shots.tolist() == [score.at["shots"] for score in first.scores]
    (primary,) = scored[scored.is_primary].to_dict("records")
    assert first.primary_score is not None
    assert primary["value"] == first.primary_score.value
    assert (primary["ci95_low"], primary["ci95_high"]) == first.primary_score.ci95
    (row,) = frame[frame.model == "words"].to_dict("records")
    assert (row["status"], row["reason"]) == ("skipped", skipped.reason)
    assert skipped.primary_score is None


def test_the_keywords_of_evaluate_are_the_options():
    assert Keywords.__annotations__.keys() == Options.__dataclass_fields__.keys()


def test_a_run_while_the_hub_is_away_leaves_the_process_as_it_was(source, monkeypatch):
    for name in (*hub.VARIABLES, hub.UNREACHED):
        monkeypatch.setenv(name, "")  # so that what the run sets is undone after the test
        monkeypatch.delenv(name)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    before = random_states()
    evaluate(source)
    assert not any(name in os.environ for name in (*hub.VARIABLES, hub.UNREACHED))
    assert not huggingface_hub.constants.HF_HUB_OFFLINE
    assert random_states() == before


def random_states():
    of_numpy = np.random.get_state()  # noqa: NPY002 - that of the libraries
    return random.getstate(), of_numpy[1].tolist(), torch.get_rng_state().tolist()


def test_what_is_imported_for_a_function_leaves_the_random_state_as_it_was():
    code = "import random, vlbench; s = random.getstate(); vlbench.evaluate"
    subprocess.run([sys.executable, "-c", f"{code}; assert random.getstate() == s"], check=True)
