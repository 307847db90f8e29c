import pytest
from runs import evaluate
from sources import TASK, write

import vlbench
from vlbench.errors import UnknownNameError, VlbenchError
from vlbench.run.options import Options, model_args


def test_data_dir_says_where_data_lie(source, monkeypatch):
    monkeypatch.delenv("VLBENCH_DATA", raising=False)
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "$VLBENCH_DATA/images"))
    for where in ({"": source}, {"image_folder": source / "images"}, {"b": source / "images"}):
        assert [r.status for r in evaluate(source, tasks="b", data_dir=where)] == ["ok"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "no device 'gpu' here"),
        ({"dtype": "int8"}, "no dtype is named 'int8'"),
    ],
)
def test_a_device_or_dtype_that_is_none_is_refused(source, options, message):
    with pytest.raises(VlbenchError, match=message):
        evaluate(source, **options)


def test_evaluate_takes_folders_as_texts_and_auto(source, tmp_path):
    options = {"output": str(tmp_path / "boards"), "cache_dir": str(tmp_path / "cache")}
    words = {"include_path": str(source), "data_dir": str(source), "batch_size": "auto"}
    (result,) = vlbench.evaluate("mean-colour", "few_shot_colours", **options, **words)
    assert result.status == "ok"
    assert result.run["batch_size"] in {8, 16, 32, 64, 128, 256}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limt": 5}, "no option is named 'limt'; did you mean limit"),
        ({"limit": 0}, "limit must be 1 or more, not 0"),
        ({"batch_size": -1}, "batch_size must be 1 or more, not -1"),
    ],
)
def test_an_option_that_is_none_or_makes_no_sense_is_refused(source, options, message):
    with pytest.raises(UnknownNameError, match=message):
        evaluate(source, **options)


def test_entry_points_are_read_once_for_options_and_once_for_companions(monkeypatch):
    scans = []
    monkeypatch.setattr("vlbench.run.options.trusted_packages", lambda: scans.append(1))
    options = Options()
    for _ in range(3):
        assert options.trusted is options.of_companion.trusted
    assert len(scans) == 2


def test_an_argument_without_a_value_is_an_empty_text():
    assert model_args("member=,k=1,none=null") == {"member": "", "k": 1, "none": None}


def test_a_dtype_among_the_models_arguments_is_the_runs(source):
    for options in ({"dtype": "bfloat16"}, {"model_args": "dtype=bfloat16,shift=0.5"}):
        (result,) = evaluate(source, **options)
        assert result.provenance["dtype"] == "bfloat16"
        assert "dtype=bfloat16" in result.model
    assert Options(model_args={"dtype": "float16"}, dtype="float16").model_args == {}


def test_two_dtypes_are_refused():
    with pytest.raises(UnknownNameError, match="two dtypes: float16, and bfloat16 in the model's"):
        Options(dtype="float16", model_args={"dtype": "bfloat16"})
