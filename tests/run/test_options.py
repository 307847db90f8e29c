from pathlib import Path
from typing import Any, Literal

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


def test_evaluate_takes_folders_as_texts_and_auto(source, tmp_path):
    options = {"output": str(tmp_path / "boards"), "cache_dir": str(tmp_path / "cache")}
    words = {"include_path": str(source), "data_dir": str(source), "batch_size": "auto"}
    (result,) = vlbench.evaluate("mean-colour", "few_shot_colours", **options, **words)
    assert result.status == "ok"
    assert result.run["batch_size"] in {8, 16, 32, 64, 128, 256}


REFUSED = [
    ({"device": "gpu"}, VlbenchError, "no device 'gpu' here: give auto, cpu, cuda"),
    ({"dtype": "int8"}, VlbenchError, "no dtype is named 'int8'"),
    ({"limt": 5}, UnknownNameError, "no option is named 'limt'; did you mean limit"),
    ({"limit": 0}, UnknownNameError, "limit must be 1 or more, not 0"),
    ({"batch_size": -1}, UnknownNameError, "batch_size must be 1 or more, not -1"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_an_option_that_is_none_or_makes_no_sense_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        evaluate(source, **options)


def test_entry_points_are_read_once_for_options_and_once_for_companions(monkeypatch):
    scans = []
    monkeypatch.setattr("vlbench.run.options.trusted_packages", lambda: scans.append(1))
    options = Options()
    for _ in range(3):
        assert options.trusted is options.of_companion.trusted
    assert len(scans) == 2


def test_an_argument_without_a_value_is_an_empty_text():
    words = model_args("member=,k=1,none=null")
    assert {key: word.as_annotated(Any) for key, word in words.items()} == {
        "member": "",
        "k": 1,
        "none": None,
    }


READ_AS = [
    *((text, str, text) for text in ("2.10", "0012345", "true", "null", "9" * 40)),
    ("null", str | None, None),
    ("9" * 40, str | None, "9" * 40),
    ("2.10", str | None, "2.10"),
    ("2.10", Path, "2.10"),
    ("5", int | str, 5),
    ("5", float, 5),
    ("true", bool, True),
    ("2.5", int, 2.5),
    ("2", Literal["2", "3"], "2"),
    ("grid", Any, "grid"),
]


@pytest.mark.parametrize(("text", "kind", "value"), READ_AS)
def test_an_argument_is_read_as_the_adapters_parameter_has_it(text, kind, value):
    found = model_args(f"k={text}")["k"].as_annotated(kind)
    assert (type(found), found) == (type(value), value)


def test_a_number_that_is_too_large_is_refused():
    with pytest.raises(UnknownNameError, match=r"--model-args: 9+\.\.\. is too large"):
        model_args("k=" + "9" * 40)["k"].as_annotated(int)


def test_a_text_of_digits_reaches_the_adapter_and_the_name_as_given(source):
    (result,) = evaluate(source, model_args="weights=2.10,shift=1")
    assert result.model == "mean-colour[shift=1,weights=2.10]"


def test_a_dtype_among_the_models_arguments_is_the_runs(source):
    for options in ({"dtype": "bfloat16"}, {"model_args": "dtype=bfloat16,shift=0.5"}):
        (result,) = evaluate(source, **options)
        assert result.provenance["dtype"] == "bfloat16"
        assert "dtype=bfloat16" in result.model
    assert Options(model_args={"dtype": "float16"}, dtype="float16").model_args == {}


def test_two_dtypes_are_refused():
    with pytest.raises(UnknownNameError, match="two dtypes: float16, and bfloat16 in the model's"):
        Options(dtype="float16", model_args={"dtype": "bfloat16"})
