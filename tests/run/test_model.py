import pytest
from runs import board, evaluate

from vlbench.errors import SpecError, UnknownNameError


def test_overrides_are_part_of_the_name(source):
    (result,) = evaluate(source, model_args={"weights": "2.0", "shift": 1})
    assert result.model == "mean-colour[shift=1,weights=2.0]"


def test_an_override_that_the_adapter_lacks_is_refused(source):
    with pytest.raises(SpecError, match="'wieghts' is unknown; did you mean 'weights'"):
        evaluate(source, model_args={"wieghts": "2.0"})


def test_a_model_that_is_unavailable_says_why(source):
    with pytest.raises(UnknownNameError, match="gone is unavailable: its weights were withdrawn"):
        evaluate(source, model="gone")


def test_a_model_name_with_one_letter_wrong_gets_a_suggestion(source):
    with pytest.raises(UnknownNameError, match="did you mean mean-colour"):
        evaluate(source, model="mean-color")


def test_another_dtype_is_part_of_the_name(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (result,) = evaluate(source, output=tmp_path / "boards", dtype="bfloat16")
    assert result.model == "mean-colour[dtype=bfloat16]"
    assert len(board(tmp_path / "boards")["rows"]) == 2


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", "\ud800", "x" * 201, ""])
def test_a_name_that_cannot_be_printed_is_refused(source, name):
    with pytest.raises(
        UnknownNameError, match=r"is no name for a model; wanted are 1 to 200 print"
    ):
        evaluate(source, name=name)


def test_overrides_that_make_no_name_ask_for_one(source):
    with pytest.raises(
        UnknownNameError, match="1 to 200 printable characters; give another --name"
    ):
        evaluate(source, model_args={"weights": "1" * 200})


def test_a_name_may_look_like_a_formula(source, tmp_path):
    evaluate(source, name=r"$\frac{$", output=tmp_path / "boards")
    assert board(tmp_path / "boards")["rows"][0]["model"] == r"$\frac{$"
