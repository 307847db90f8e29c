import pytest
from runs import board, evaluate

from vlbench.catalog.catalog import load_catalog
from vlbench.errors import SpecError, UnknownNameError
from vlbench.run.model import resolve_model
from vlbench.run.options import Options
from vlbench.system.digests import digest


def test_overrides_are_part_of_the_name(source):
    (result,) = evaluate(source, model_args={"weights": "2.0", "shift": 1})
    assert result.model == "mean-colour[shift=1,weights=2.0]"


def test_another_dtype_is_part_of_the_name(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (result,) = evaluate(source, output=tmp_path / "boards", dtype="bfloat16")
    assert result.model == "mean-colour[dtype=bfloat16]"
    assert len(board(tmp_path / "boards")["rows"]) == 2


NAMES, PRINTED = ["a\x1b[31m", "a\nb", "x" * 201, ""], "1 to 200 printable characters"
REFUSED = [
    ({"model_args": {"wieghts": "2.0"}}, SpecError, "'wieghts' is unknown; did you mean 'weights'"),
    ({"model": "gone"}, UnknownNameError, "gone is unavailable: its weights were withdrawn"),
    ({"model": "mean-color"}, UnknownNameError, "did you mean mean-colour"),
    *(
        ({"name": name}, UnknownNameError, f"is not a name for a model; use {PRINTED}")
        for name in NAMES
    ),
    ({"name": "\ud800"}, SpecError, r"'name' must be a text or null, not '\\ud800'"),
    ({"model_args": {"weights": "1" * 200}}, UnknownNameError, f"{PRINTED}; give another --name"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_model_or_name_that_cannot_be_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        evaluate(source, **options)


def test_a_name_may_look_like_a_formula(source, tmp_path):
    evaluate(source, name=r"$\frac{$", output=tmp_path / "boards")
    assert board(tmp_path / "boards")["rows"][0]["model"] == r"$\frac{$"


def test_a_file_that_is_the_default_of_an_argument_counts_by_its_content(tmp_path):
    weights = tmp_path / "weights.pt"
    text = f"def __init__(self, weights={str(weights)!r}, pooling='mean'): ..."
    (tmp_path / "reader.py").write_text(f"class Reader:\n    {text}\n")
    model = resolve_model(load_catalog(()), f"{tmp_path}/reader.py:Reader", Options())
    weights.write_text("trained")
    before = digest(model.contents)
    weights.write_text("trained for longer")
    assert digest(model.contents) != before
    assert [*model.contents] == ["weights"]
