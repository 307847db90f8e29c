import pytest
from fakes import ConstantModel
from runs import board, evaluate
from sources import make_source

from vlbench.errors import IdentityClash, OutputError


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_other_weights_under_the_same_name_stop_the_run(source, tmp_path):
    output = tmp_path / "boards"
    evaluate(source, name="mine", output=output)
    with pytest.raises(IdentityClash, match="'mine' stands there with other weights"):
        evaluate(source, name="mine", model_args={"weights": "2.0"}, output=output)
    evaluate(source, name="mine", model_args={"weights": "2.0"}, output=output, overwrite=True)
    assert len(board(output)["rows"]) == 1


def test_another_class_of_the_same_file_under_the_same_name_stops_the_run(source, tmp_path):
    evaluate(source, name="mine", output=tmp_path / "boards")
    with pytest.raises(IdentityClash, match="'mine' stands there with other adapter"):
        evaluate(source, model="fails", name="mine", output=tmp_path / "boards")


def test_a_failure_never_replaces_an_ok_row(source, tmp_path):
    evaluate(source, name="mine", output=tmp_path / "boards")
    evaluate(source, model="fails", name="mine", output=tmp_path / "boards", overwrite=True)
    assert [row["status"] for row in board(tmp_path / "boards")["rows"]] == ["ok"]


def test_limit_draws_a_part_and_writes_no_board(source, tmp_path):
    (result,) = evaluate(source, limit=6, output=tmp_path / "boards")
    assert (result.status, result.counts["n"]) == ("ok", 6)
    assert not (tmp_path / "boards").exists()


def test_an_output_that_cannot_be_written_is_found_before_anything_runs(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write boards to"):
        evaluate(source, model="will-not-load", output=tmp_path / "file")


def test_of_two_versions_started_together_the_second_is_refused(source, tmp_path):
    class Rival(ConstantModel):
        def encode_images(self, pixels):
            evaluate(source, name="mine", output=tmp_path / "boards")
            return super().encode_images(pixels)

    with pytest.raises(IdentityClash, match="'mine' stands there with other"):
        evaluate(source, model=Rival(), name="mine", output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert row["provenance"]["adapter"].startswith("MeanColour")
