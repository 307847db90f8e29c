import json
import shutil

import pytest
from fakes import ConstantModel, Reader
from sources import TASK, make_source, write

import vlbench
from vlbench.bench import plan, run
from vlbench.errors import (
    DataError,
    IdentityClash,
    OutputError,
    SpecError,
    UnknownNameError,
    VlbenchError,
)
from vlbench.planning.options import Options


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def evaluate(source, model="mean-colour", tasks="few_shot_colours", **options):
    return vlbench.evaluate(model, tasks, include_path=[source], **options)


def board(folder, task="few_shot_colours"):
    return json.loads((folder / f"{task}.json").read_text())


def primary(result):
    return [s.value for s in result.scores if s.metric == "accuracy"]


def test_a_model_and_a_task_of_a_users_own_run(source):
    (result,) = evaluate(source)
    assert (result.status, primary(result)) == ("ok", [1.0])


def test_every_key_of_a_row_is_there(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert set(row) == {
        *("model", "status", "reason", "comparable", "request", "scores", "counts"),
        *("artifacts", "notes", "provenance", "run"),
    }
    assert row["counts"] == {"n": 9, "expected": 9, "ties": 0, "truncated_texts": 0, "clusters": 9}


def test_all_but_run_is_the_same_on_a_rerun(source, tmp_path):
    rows = []
    for name in ("one", "two"):
        evaluate(source, output=tmp_path / name, cache_dir=tmp_path / f"cache of {name}")
        rows.append(board(tmp_path / name)["rows"][0] | {"run": {}})
    assert rows[0] == rows[1]


def test_no_local_path_enters_a_row(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    assert str(tmp_path) not in (tmp_path / "boards" / "few_shot_colours.json").read_text()


def test_a_row_of_the_same_request_is_kept_and_no_model_loads(source, tmp_path):
    options = Options(include_path=[source], output=tmp_path / "boards")
    run(plan(["mean-colour"], ["few_shot_colours"], options))
    again = plan(["mean-colour"], ["few_shot_colours"], options)
    assert [cell.status for cell in again.cells] == ["kept"]
    (before,) = json.loads((tmp_path / "boards" / "few_shot_colours.json").read_text())["rows"]
    (result,) = run(again).results
    assert json.loads(json.dumps(result.row())) == before


def test_overwrite_runs_what_a_board_holds(source, tmp_path):
    evaluate(source, output=tmp_path)
    assert [r.status for r in evaluate(source, output=tmp_path, overwrite=True)] == ["ok"]


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


def test_overrides_are_part_of_the_name(source):
    (result,) = evaluate(source, model_args={"weights": "2.0", "shift": 1})
    assert result.model == "mean-colour[shift=1,weights=2.0]"


def test_an_override_that_the_adapter_lacks_is_refused(source):
    with pytest.raises(SpecError, match="unknown 'wieghts'; did you mean 'weights'"):
        evaluate(source, model_args={"wieghts": "2.0"})


def test_a_changed_image_makes_rows_that_are_not_comparable(source, tmp_path):
    output = tmp_path / "boards"
    evaluate(source, output=output)
    image = source / "images" / "train" / "red" / "0.png"
    image.write_bytes((source / "images" / "train" / "red" / "1.png").read_bytes())
    evaluate(source, output=output)
    assert len({row["comparable"] for row in board(output)["rows"]}) == 2


def test_a_model_that_cannot_is_skipped_before_it_loads(source, tmp_path):
    (result,) = evaluate(source, model="words", output=tmp_path)
    assert (result.status, result.reason) == ("skipped", "the model has no ImageEncoder")
    assert board(tmp_path)["rows"][0]["status"] == "skipped"


def test_without_takes_a_capability_away(source):
    models = source / "model_adapters" / "models.yaml"
    models.write_text('blind: {adapter: "colours:MeanColour", without: [ImageEncoder]}')
    (result,) = evaluate(source, model="blind")
    assert result.reason == "the model has no ImageEncoder"


def test_a_probe_that_raises_is_a_failed_row_with_the_line(source, tmp_path):
    (result,) = evaluate(source, model="fails", output=tmp_path)
    assert result.status == "failed"
    assert result.reason.startswith("RuntimeError: the model broke (colours.py:")


def test_a_failure_never_replaces_an_ok_row(source, tmp_path):
    evaluate(source, name="mine", output=tmp_path / "boards")
    evaluate(source, model="fails", name="mine", output=tmp_path / "boards", overwrite=True)
    assert [row["status"] for row in board(tmp_path / "boards")["rows"]] == ["ok"]


def test_a_model_that_does_not_load_has_failed_results_and_no_row(source, tmp_path):
    (result,) = evaluate(source, model="will-not-load", output=tmp_path / "boards")
    assert (result.status, "no weights here" in result.reason) == ("failed", True)
    assert not (tmp_path / "boards" / "few_shot_colours.json").exists()


def test_a_model_that_is_unavailable_says_why(source):
    with pytest.raises(UnknownNameError, match="gone is unavailable: its weights were withdrawn"):
        evaluate(source, model="gone")


def test_a_model_name_with_one_letter_wrong_gets_a_suggestion(source):
    with pytest.raises(UnknownNameError, match="did you mean mean-colour"):
        evaluate(source, model="mean-color")


def test_data_that_a_named_task_lacks_stop_the_run(source):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "$VLBENCH_DATA/nowhere"))
    with pytest.raises(DataError, match=r"b: .*nowhere"):
        evaluate(source, tasks="b")


def test_data_that_a_selected_task_lacks_are_listed(source):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../nowhere"))
    planned = plan(["mean-colour"], ["ours"], Options(include_path=[source]))
    assert [cell.status for cell in planned.cells] == ["unavailable", "run"]


def test_data_dir_says_where_data_lie(source, monkeypatch):
    monkeypatch.delenv("VLBENCH_DATA", raising=False)
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "$VLBENCH_DATA/images"))
    for where in ({"": source}, {"image_folder": source / "images"}, {"b": source / "images"}):
        assert [r.status for r in evaluate(source, tasks="b", data_dir=where)] == ["ok"]


def test_limit_draws_a_part_and_writes_no_board(source, tmp_path):
    (result,) = evaluate(source, limit=6, output=tmp_path / "boards")
    assert (result.status, result.counts["n"]) == ("ok", 6)
    assert not (tmp_path / "boards").exists()


def test_too_few_rows_because_of_limit_are_skipped_not_failed(source):
    write(
        source / "tasks" / "b.yaml",
        TASK.replace("shots: [1]", "shots: [3]").replace("shots: 1", "shots: 3"),
    )
    (result,) = evaluate(source, tasks="b", limit=6)
    assert (result.status, result.reason) == ("skipped", "limit")


def test_too_few_examples_fail_and_name_the_class(source):
    write(source / "tasks" / "b.yaml", TASK.replace("shots: [1]", "shots: [1, 4]"))
    (result,) = evaluate(source, tasks="b")
    assert (result.status, result.reason) == (
        "failed",
        "class 'blue' has 3 examples, 4 shots asked",
    )


def test_a_truncated_image_fails_the_task_and_is_named(source):
    image = source / "images" / "test" / "red" / "0.png"
    image.write_bytes(image.read_bytes()[:-30])
    (result,) = evaluate(source)
    assert result.status == "failed"
    assert "test/red/0.png" in result.reason


def test_a_primary_that_is_no_score_fails_and_says_which_there_are(source):
    write(source / "tasks" / "b.yaml", TASK.replace("{shots: 1}", "{shots: 2}"))
    (result,) = evaluate(source, tasks="b")
    assert "is 0 of the scores" in result.reason


def test_a_parameter_of_the_wrong_type_names_file_and_line(source):
    write(source / "tasks" / "b.yaml", TASK.replace("trials: 2", "trials: two"))
    with pytest.raises(SpecError, match=r"b\.yaml:6: 'trials' must be int, not 'two'"):
        evaluate(source, tasks="b")


def test_all_problems_stand_in_one_message(source):
    write(source / "tasks" / "b.yaml", TASK.replace("trials", "trails"))
    write(source / "tasks" / "c.yaml", TASK.replace("few_shot", "few_shots", 1))
    with pytest.raises(SpecError) as caught:
        evaluate(source, tasks="b,c")
    assert "did you mean 'trials'" in str(caught.value)
    assert "few_shots" in str(caught.value)


def test_an_adapter_object_runs_without_a_line_of_yaml():
    (result,) = vlbench.evaluate(ConstantModel(), "few_shot_digits")
    assert result.model == "ConstantModel"
    assert primary(result) == pytest.approx([0.1, 0.1, 0.1])


def test_an_output_that_cannot_be_written_is_found_before_anything_runs(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write boards to"):
        evaluate(source, model="will-not-load", output=tmp_path / "file")


def test_a_name_is_for_one_model(source):
    with pytest.raises(UnknownNameError, match="--name is for one model, not 2"):
        evaluate(source, model="mean-colour,words", name="both")


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


def test_a_loader_or_probe_of_a_sources_own_is_found_beside_its_task(source):
    write(
        source / "tasks" / "mine.py",
        "from vlbench.results import Outcome, Score\n"
        "def half(model, data, engine, *, value: float = 0.5):\n"
        "    return Outcome(scores=[Score(metric='half', value=value, n=1)])\n",
    )
    text = TASK.replace("probe: few_shot", 'probe: "mine:half"').replace(
        "{shots: [1], trials: 2}", "{value: 1}"
    )
    write(
        source / "tasks" / "b.yaml",
        text.replace("{metric: accuracy, at: {shots: 1}}", "{metric: half}"),
    )
    (result,) = evaluate(source, tasks="b")
    assert [score.value for score in result.scores] == [1.0]


def test_a_split_that_a_task_asks_for_in_vain_is_absent_data_not_a_failure(source):
    shutil.rmtree(source / "images" / "train")
    planned = plan(["mean-colour"], ["few_shot_colours"], Options(include_path=[source]))
    report = run(planned)
    assert report.results == []
    assert "the split 'train' (there is test) is absent" in report.absent["few_shot_colours"]


class Signed(Reader):
    """Multiplies the pixels by a sign that is no weight."""

    def __init__(self, sign):
        self.sign = sign

    def encode_images(self, pixels):
        return self.sign * pixels.flatten(1)


def test_an_object_that_differs_in_a_plain_attribute_is_not_kept_for_another(tmp_path):
    options = Options(output=tmp_path / "boards", cache_dir=tmp_path / "cache")
    run(plan([Signed(1.0)], ["few_shot_digits"], options))
    statuses = [plan([Signed(x)], ["few_shot_digits"], options).cells[0].status for x in (1.0, 0.0)]
    assert statuses == ["kept", "run"]


def test_an_object_that_nothing_vouches_for_is_never_kept(tmp_path):
    options = Options(output=tmp_path / "boards")
    model = Signed(1.0)
    model.clean = lambda text: text
    run(plan([model], ["few_shot_digits"], options))
    assert plan([model], ["few_shot_digits"], options).cells[0].status == "run"


REGIONS = """\
import torch
from vlbench.capabilities import Picture, Regions
from vlbench.data.records import Column, Data, Split, value_column


def load(*, regions: str | None = None) -> Data:
    boxes = torch.zeros(1, 4)
    known = Regions(boxes, torch.zeros(1, int(regions or 0)), None, None, (8, 8))
    pictures = Column(f"pictures {regions}", "picture", [Picture(None, known)] * 2, range(2))
    return Data(splits={"test": Split({"picture": pictures, "label": value_column([0, 1])})})


def width(model, data, engine):
    from vlbench.results import Outcome, Score
    seen = data.splits["test"]["picture"][0].regions.vectors.shape[1]
    return Outcome(scores=[Score(metric="width", value=float(seen), n=2, unit="wide")])
"""
REGION_TASK = """\
version: 1
probe: "theirs:width"
data: {loader: "theirs:load", regions: {narrow: "3", wide: "5"}}
primary: {metric: width}
"""


@pytest.fixture
def regional(tmp_path):
    folder = make_source(tmp_path / "regional", widths=REGION_TASK)
    write(folder / "tasks" / "theirs.py", REGIONS)
    lines = {"a": "narrow, width: 3", "b": "wide, width: 5", "c": "wide, width: 7", "d": "odd"}
    models = [
        f"{k}: {{adapter: 'colours:Words', regions: {{kind: {v}}}}}" for k, v in lines.items()
    ]
    write(folder / "model_adapters" / "models.yaml", "\n".join(models))
    return folder


def test_a_model_gets_the_regions_of_its_kind(regional):
    found = [evaluate(regional, model, "widths")[0] for model in ("a", "b")]
    assert [result.scores[0].value for result in found] == [3.0, 5.0]
    assert found[0].comparable != found[1].comparable


def test_a_model_whose_kind_of_regions_a_task_lacks_is_skipped(regional):
    (result,) = evaluate(regional, "d", "widths")
    assert result.status == "skipped"
    assert result.reason == "the model reads regions of kind odd; the task has narrow, wide"


def test_regions_of_another_width_are_an_error_that_names_both(regional):
    with pytest.raises(SpecError, match="region vectors are 5 wide, c reads 7"):
        evaluate(regional, "c", "widths")


PARTNERS = """\
from vlbench.capabilities import TextEncoder
from vlbench.results import Outcome, Score


def count(model, data, engine, *, one: TextEncoder, more: list[TextEncoder]) -> Outcome:
    made = [type(partner).__name__ for partner in (one, *more)]
    return Outcome(scores=[Score(metric="partners", value=float(made.count("Words")), n=3)])
"""
PARTNER_TASK = """\
version: 1
probe: "partners:count"
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
params: {one: words, more: [words, words]}
primary: {metric: partners}
"""


def test_companions_are_named_in_yaml_and_come_as_adapters(source):
    write(source / "tasks" / "partners.py", PARTNERS)
    write(source / "tasks" / "three.yaml", PARTNER_TASK)
    (result,) = evaluate(source, tasks="three")
    assert result.scores[0].value == 3.0
    assert list(result.provenance["companions"]) == ["words"]


def test_a_companion_that_cannot_is_an_error_of_the_file(source):
    write(source / "tasks" / "partners.py", PARTNERS)
    write(source / "tasks" / "three.yaml", PARTNER_TASK.replace("one: words", "one: mean-colour"))
    with pytest.raises(SpecError, match=r"three\.yaml:4: mean-colour has no TextEncoder"):
        evaluate(source, tasks="three")


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


def test_another_dtype_is_part_of_the_name(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (result,) = evaluate(source, output=tmp_path / "boards", dtype="bfloat16")
    assert result.model == "mean-colour[dtype=bfloat16]"
    assert len(board(tmp_path / "boards")["rows"]) == 2


def test_a_changed_checkpoint_of_a_bare_name_is_not_kept(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = Options(include_path=[source], model_args={"weights": "ck"}, output=tmp_path / "b")
    statuses = []
    for content in ("one", "other"):
        (tmp_path / "ck").write_text(content)
        statuses.append(plan(["mean-colour"], ["few_shot_colours"], options).cells[0].request)
    assert statuses[0] != statuses[1]


def test_a_companion_of_other_arguments_is_not_comparable(source):
    write(source / "tasks" / "partners.py", PARTNERS.replace("TextEncoder", "ImageEncoder"))
    task = PARTNER_TASK.replace("one: words, more: [words, words]", "one: a, more: [a]")
    write(source / "tasks" / "three.yaml", task)
    found = []
    for shift in (1, 2):
        line = f"a: {{adapter: 'colours:MeanColour', params: {{shift: {shift}}}}}\n"
        write(source / "model_adapters" / "models.yaml", line)
        (result,) = evaluate(source, model="a", tasks="three")
        found.append(result.comparable)
    assert found[0] != found[1]


def test_a_loader_that_raises_fails_its_own_tasks_alone(source):
    write(source / "tasks" / "theirs.py", "def load():\n    raise ValueError('no such year')\n")
    write(source / "tasks" / "b.yaml", TASK.replace(LOADER, '"theirs:load"'))
    results = evaluate(source, tasks="few_shot_colours,b")
    assert {r.task: r.status for r in results} == {"few_shot_colours": "ok", "b": "failed"}


def test_a_loader_that_returns_no_data_is_an_error_of_the_file(source):
    write(source / "tasks" / "theirs.py", "def load():\n    return {}\n")
    write(source / "tasks" / "b.yaml", TASK.replace(LOADER, '"theirs:load"'))
    with pytest.raises(SpecError, match="theirs:load returned a dict, not Data"):
        evaluate(source, tasks="b")


LOADER = '"vlbench.data.image_folder:image_folder", root: ../images'


def test_no_folder_of_this_machine_enters_a_reason(source, tmp_path):
    adapters = source / "model_adapters" / "colours.py"
    message = "raise RuntimeError('no file /home/alice/secret/weights.bin')"
    adapters.write_text(
        adapters.read_text().replace('raise RuntimeError("the model broke")', message)
    )
    (result,) = evaluate(source, model="fails", output=tmp_path / "boards")
    assert result.reason.startswith("RuntimeError: no file weights.bin (colours.py:")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("mean-colour", {"data_dir": {"few_shot_color": "x"}}, "did you mean few_shot_colours"),
        ("mean-colour", {"device": "meta"}, "no device 'meta' here"),
        (ConstantModel, {}, "give a model's name with its arguments, or an object"),
        (ConstantModel(), {"model_args": {"size": 3}}, "or an object made with them"),
        ([ConstantModel(), ConstantModel()], {}, "two models would have rows named ConstantModel"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(source, model, options, message):
    with pytest.raises(UnknownNameError, match=message):
        evaluate(source, model=model, **options)


def test_a_probe_that_lacks_an_argument_is_an_error_of_the_file(source):
    write(source / "tasks" / "theirs.py", "def probe(data, engine):\n    return None\n")
    text = TASK.replace("probe: few_shot", 'probe: "theirs:probe"')
    write(source / "tasks" / "b.yaml", text.replace("{shots: [1], trials: 2}", "{}"))
    with pytest.raises(SpecError, match=r"b\.yaml:2: a probe takes model, data, engine"):
        evaluate(source, tasks="b")
