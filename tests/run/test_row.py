import shutil
from pathlib import Path

import pytest
from fakes import ConstantModel
from runs import board, evaluate
from sources import TASK, write

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import shipped_source
from vlbench.cli import main
from vlbench.errors import IdentityClash, OutputError
from vlbench.metrics.items import Examples, item_table
from vlbench.report.texts import number
from vlbench.results import Score
from vlbench.run.row import shown_arguments, shown_weights, with_width


def test_every_key_of_a_row_is_there(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert set(row) == {
        *("model", "status", "reason", "comparable", "request", "scores", "counts"),
        *("artifacts", "notes", "provenance", "run"),
    }
    counts = {"n": 9, "expected": 9, "ties": 0, "truncated_texts": 0, "clusters": 9}
    assert row["counts"] == counts | {"choices": 18}


def test_the_title_of_a_users_own_task_goes_with_its_board(source, tmp_path, capsys):
    write(source / "tasks/few_shot_colours.yaml", f"title: Three colours\n{TASK}")
    evaluate(source, output=tmp_path / "boards")
    for given in (["show"], ["export", "--format", "md"], ["export", "--format", "md", "--pivot"]):
        assert main(["leaderboard", *given, "--output", str(tmp_path / "boards")]) == 0
        assert "Three colours" in capsys.readouterr().out, given


def test_shipped_tasks_have_their_titles_from_their_files():
    titled = [spec for spec in load_catalog().tasks.values() if spec.title]
    assert titled
    assert {spec.source for spec in titled} == {shipped_source()}


ALL_TIED = "18 of 18 choices are tied; a tied choice scores at chance"


def test_a_row_whose_choices_are_mostly_tied_notes_it(source):
    (tied,) = evaluate(source, model=ConstantModel())
    assert (tied.notes[0], tied.is_mostly_tied) == (ALL_TIED, True)
    (told,) = evaluate(source)
    assert (list(told.notes), told.is_mostly_tied) == ([], False)


POINTS = """\
from vlbench.results import Outcome, Score

def points(model, data, engine) -> Outcome:
    ends = {"sure": (0.5, 0.5), "anything": (-0.1, 1.0), "told": (0.2, 0.6)}
    return Outcome([Score(name, 0.5, 9, ci95=ci95) for name, ci95 in ends.items()])
"""


def test_a_row_names_intervals_that_say_nothing(source):
    write(source / "tasks" / "mine.py", POINTS)
    text = TASK.replace("probe: few_shot", 'probe: "mine:points"').replace(
        "{metric: accuracy, at: {shots: 1}}", "{metric: told}"
    )
    write(source / "tasks" / "b.yaml", text.replace("params: {shots: [1], trials: 2}\n", ""))
    (row,) = evaluate(source, tasks="b")
    assert [score.ci95 for score in row.scores][1:] == [(0.0, 1.0), (0.2, 0.6)]
    # Of 9 items that are all alike, .283 may be otherwise: .717^9 = .05.
    assert row.scores[0].ci95 == pytest.approx((0.5 - 0.283 / 2, 0.5 + 0.283 / 2), abs=1e-3)
    assert list(row.notes) == [
        "anything: the interval is the whole range: there are too few items or seeds"
    ]


UNITS = """\
from vlbench.results import Outcome, Score

def units(model, data, engine) -> Outcome:
    said = [Score("said", 0.5, 9, unit="fraction"), Score("guessed", 0.5, 9, chance=0.5)]
    return Outcome([*said, Score("rho", 0.966, 9, chance=0.0), Score("tau", -0.5, 9)])
"""


def test_a_number_of_ones_own_probe_is_a_percentage_only_as_a_fraction(source):
    write(source / "tasks" / "mine.py", UNITS)
    text = TASK.replace("probe: few_shot", 'probe: "mine:units"').replace(
        "{metric: accuracy, at: {shots: 1}}", "{metric: rho}"
    )
    write(source / "tasks" / "b.yaml", text.replace("params: {shots: [1], trials: 2}\n", ""))
    (row,) = evaluate(source, tasks="b")
    shown = {score.metric: number(score.value, score.unit) for score in row.scores}
    assert shown == {"said": "50.0 %", "guessed": "50.0 %", "rho": "0.966", "tau": "-0.5"}
    assert {type(score.unit) for score in row.scores} == {str}
    assert all(score.is_possible for score in row.scores)


def test_the_scores_of_shipped_probes_are_fractions_by_default(source):
    (row,) = evaluate(source)
    assert {(score.unit, type(score.unit)) for score in row.scores} == {("fraction", str)}


def test_all_but_run_is_the_same_on_a_rerun(source, tmp_path):
    rows = []
    for name in ("one", "two"):
        evaluate(source, output=tmp_path / name, cache_dir=tmp_path / f"cache of {name}")
        rows.append(board(tmp_path / name)["rows"][0] | {"run": {}})
    assert rows[0] == rows[1]


def test_no_local_path_enters_a_row(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    assert str(tmp_path) not in (tmp_path / "boards" / "few_shot_colours.json").read_text()


def test_no_folder_of_this_machine_enters_a_reason(source, tmp_path):
    adapters = source / "model_adapters" / "colours.py"
    message = "raise RuntimeError('no file /home/alice/secret/weights.bin')"
    adapters.write_text(
        adapters.read_text().replace('raise RuntimeError("the model broke")', message)
    )
    (result,) = evaluate(source, model="fails", output=tmp_path / "boards")
    assert result.reason.startswith("RuntimeError: no file weights.bin (colours.py:")


def test_what_an_adapter_does_not_take_of_a_task_is_noted(source):
    write(source / "tasks" / "b.yaml", TASK + "model: {resize: 8, shift: 1, crop: 8}\n")
    (result,) = evaluate(source, tasks="b")
    assert list(result.notes) == [
        "the adapter has no argument `resize`: its own preprocessing is used",
        "the adapter has no argument `crop`: its own preprocessing is used",
    ]


def test_an_adapter_object_takes_nothing_of_a_task_and_the_row_notes_it(source):
    write(source / "tasks" / "b.yaml", TASK + "model: {crop: 8}\n")
    (result,) = evaluate(source, model=ConstantModel(), tasks="b")
    assert list(result.notes) == [
        ALL_TIED,
        "the adapter is an object made without `crop`: its own preprocessing is used",
    ]


def test_a_lone_surrogate_in_a_note_or_a_reason_loses_no_row(source, tmp_path):
    adapters = source / "model_adapters" / "colours.py"
    adapters.write_text(adapters.read_text().replace("the model broke", "broke \\ud800"))
    evaluate(source, model="fails", output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert row["reason"].startswith("RuntimeError: broke \ufffd (colours.py:")


def test_rows_that_two_splits_share_are_counted(source):
    images = source / "images"
    shutil.copy(images / "train/red/0.png", images / "test/red/again.png")
    shutil.copy(images / "train/red/0.png", images / "test/blue/and again.png")
    (result,) = evaluate(source)
    # Test has 11 images now, and train 9.
    assert list(result.notes) == [
        (
            "data: 1 images of test are copies of other images under "
            "other names; scores with items have the intervals of distinct images"
        ),
        "data: 1 of 9 rows of train are also in test",
    ]
    assert (result.counts["copies"], result.counts["shared_rows"]) == (1, 1)


def test_what_the_data_leave_out_is_counted(source):
    for name in ("a.heic", "b.heic", "notes.txt"):
        (source / "images/test/red" / name).touch()
    (result,) = evaluate(source)
    assert result.counts["dropped"] == 3
    assert list(result.notes) == [
        "left out: 2 files (.heic) that are not images of a class",
        "left out: 1 files (.txt) that are not images of a class",
    ]


def test_a_row_shows_the_file_names_of_paths_and_of_those_within_a_list(tmp_path):
    (tmp_path / "a.pt").touch()
    shown = shown_arguments({"weights": str(tmp_path / "a.pt"), "other": tmp_path / "b", "size": 8})
    assert shown == {"weights": "a.pt", "other": "b", "size": 8}
    assert str(tmp_path) not in repr(shown_arguments({"files": [str(tmp_path / "a.pt"), tmp_path]}))


def test_a_row_shows_no_path_within_a_mapping(tmp_path):
    assert str(tmp_path) not in repr(shown_arguments({"files": {"a": str(tmp_path / "a.pt")}}))


def test_a_row_shows_no_path_to_what_is_not_there(tmp_path):
    assert str(tmp_path) not in repr(shown_arguments({"weights": str(tmp_path / "gone.pt")}))


def test_a_row_shows_no_folder_of_a_relative_path_to_what_is_not_there():
    assert shown_arguments({"weights": Path("alice/gone.pt")}) == {"weights": "gone.pt"}


def test_random_weights_are_shown_with_their_seed():
    assert shown_weights({"weights": "random", "init_seed": 3}, "sha256:x") == "random:3"
    assert shown_weights({"weights": "random"}, "sha256:x") == "random:0"
    assert shown_weights({"weights": "openai"}, "sha256:x") == "sha256:x"
    assert shown_weights({}, "sha256:x") == "sha256:x"


def test_a_row_says_what_an_adapter_settled_itself(source):
    adapter = source / "model_adapters" / "colours.py"
    settles = "self.shift = shift\n        self.settled = {'resize': 232}"
    adapter.write_text(adapter.read_text().replace("self.shift = shift", settles))
    (row,) = evaluate(source)
    assert row.provenance["params"] == {"weights": "1.0", "shift": 0.0, "resize": 232}


def test_a_row_of_what_knows_nothing_says_so(source):
    class Control(ConstantModel):
        is_control = True

    (control,) = evaluate(source, model=Control(), name="control")
    (model,) = evaluate(source)
    assert (control.is_control, model.is_control) == (True, False)


def test_a_changed_image_makes_rows_that_are_not_comparable(source, tmp_path):
    output = tmp_path / "boards"
    evaluate(source, output=output)
    image = source / "images" / "train" / "red" / "0.png"
    image.write_bytes((source / "images" / "train" / "red" / "1.png").read_bytes())
    evaluate(source, output=output)
    assert len({row["comparable"] for row in board(output)["rows"]}) == 2


def test_other_weights_under_the_same_name_stop_the_run(source, tmp_path):
    output = tmp_path / "boards"
    evaluate(source, name="mine", output=output)
    with pytest.raises(IdentityClash, match="'mine' is already on it with other weights"):
        evaluate(source, name="mine", model_args={"weights": "2.0"}, output=output)
    evaluate(source, name="mine", model_args={"weights": "2.0"}, output=output, overwrite=True)
    assert len(board(output)["rows"]) == 1


def test_another_class_of_the_same_file_under_the_same_name_stops_the_run(source, tmp_path):
    evaluate(source, name="mine", output=tmp_path / "boards")
    with pytest.raises(IdentityClash, match="'mine' is already on it with other adapter"):
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
    with pytest.raises(OutputError, match=r"cannot write boards to .*: it is a file"):
        evaluate(source, model="will-not-load", output=tmp_path / "file")


def test_of_two_versions_started_together_the_second_is_refused(source, tmp_path):
    class Rival(ConstantModel):
        def encode_images(self, pixels):
            evaluate(source, name="mine", output=tmp_path / "boards")
            return super().encode_images(pixels)

    with pytest.raises(IdentityClash, match="'mine' is already on it with other"):
        evaluate(source, model=Rival(), name="mine", output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert row["provenance"]["adapter"].startswith("MeanColour")


LIMITS = [
    (0.0, (-1.0, 1.0), -0.00498, 0.00498),
    (1.0, (0.0, 1.0), 1 - 0.00498, 1.0),
    (0.0, (-10.0, 10.0), -0.0498, 0.0498),
]


@pytest.mark.parametrize(("value", "limits", "low", "high"), LIMITS)
def test_of_600_equal_answers_about_3_in_600_may_be_others(value, limits, low, high):
    found = with_width(Score("m", value, 600, stderr=0.0, ci95=(value, value), range=limits))
    assert found.ci95 == pytest.approx((low, high), abs=1e-5)
    assert found.stderr == pytest.approx((high - low) / 2 / 1.96, abs=1e-4)


def test_equal_answers_in_clusters_count_by_cluster():
    ids = [str(i) for i in range(600)]
    examples = Examples(ids, ids, [f"image {i % 3}" for i in range(600)])
    items = item_table(examples, "m", {}, [1] * 600)
    score = Score("m", 1.0, 600, stderr=0.0, ci95=(1.0, 1.0), range=(0.0, 1.0))
    # Three images that are all right leave up to 1 - .05^(1/3) of the others unseen.
    assert with_width(score, items).ci95 == pytest.approx((0.05 ** (1 / 3), 1))


def test_equal_answers_without_a_range_have_no_interval():
    found = with_width(Score("m", 3.0, 600, stderr=0.0, ci95=(3.0, 3.0), unit="words"))
    assert (found.stderr, found.ci95) == (None, None)


def test_a_row_says_what_the_models_line_says_of_tasks_like_it(source):
    notes = "notes: {all: it is small, ImageEncoder: it sees colours, TextEncoder: it is mute}"
    line = f'mean-colour: {{adapter: "colours:MeanColour", {notes}}}\n'
    (source / "model_adapters" / "models.yaml").write_text(line)
    (row,) = evaluate(source)
    assert row.notes == ["it is small", "it sees colours"]
