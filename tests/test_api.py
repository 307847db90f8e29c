"""vlbench as a notebook uses it: every function of `import vlbench`."""

import logging

import numpy as np
import pytest
import torch
from PIL import Image

import vlbench
from vlbench import api
from vlbench.catalog.catalog import load_catalog
from vlbench.engine import devices
from vlbench.errors import CannotDo, DataError, SpecError, TooFewRows, UnknownNameError
from vlbench.probes.generalization.linear import LinearTraining
from vlbench.results import Outcome, Score
from vlbench.run.extraction import Features
from vlbench.run.item_images import data_of
from vlbench.run.options import Options

MODEL, TASK = "tiny-rn", "few_shot_digits"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Features of the images of a task, and boards of two models on it."""
    folder = tmp_path_factory.mktemp("digits")
    options = {"cache_dir": folder / "cache", "output": folder / "results", "limit": None}
    vlbench.evaluate(["raw-pixels", "constant"], "few_shot_digits", progress=False, **options)
    found = vlbench.features("raw-pixels", "few_shot_digits", cache_dir=folder / "cache")
    return folder, found


def test_all_names_are_there_and_notebooks_complete_them():
    assert {*dir(vlbench)} == {*vlbench.__all__}
    assert all(getattr(vlbench, name) for name in vlbench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        vlbench.nothing  # noqa: B018 - that it raises is the point


def test_tasks_are_listed_by_glob_and_by_tag_and_models_that_can_be_had():
    assert vlbench.list_tasks("few_shot_dig*") == ["few_shot_digits"]
    assert "foils_scenes" in vlbench.list_tasks("foils")
    assert "tiny-rn" in vlbench.list_models()
    assert "tsm" not in vlbench.list_models()


def test_a_loaded_model_is_its_adapter():
    model = vlbench.load_model("tiny-clip")
    assert model.encode_texts(["a dog", "a cat"]).shape[0] == 2


def test_features_have_the_ids_and_the_classes_of_the_tasks_images(digits):
    _, found = digits
    assert found.vectors.dtype == np.float32
    assert len(found.ids) == len(found.labels) == len(found.vectors)
    assert {*found.labels} == {*map(str, range(10))} or len({*found.labels}) == 10
    assert repr(found).startswith(f"<features of {len(found.ids)} examples, ")


def test_features_of_images_in_memory_are_those_of_the_same_files(tmp_path):
    pixels = [np.full((8, 8, 3), level, np.uint8) for level in (0, 90, 250)]
    for i, one in enumerate(pixels):
        (tmp_path / "images" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(tmp_path / "images" / "ab"[i % 2] / f"{i}.png")
    folder = vlbench.features("raw-pixels", tmp_path / "images", cache_dir=None)
    memory = vlbench.features("raw-pixels", pixels, labels=["a", "b", "a"], cache_dir=None)
    assert folder.ids == ["a/0.png", "a/2.png", "b/1.png"]
    assert folder.labels == ["a", "a", "b"]
    assert np.array_equal(folder.vectors, memory.vectors[[0, 2, 1]])
    assert memory.labels == ["a", "b", "a"]


@pytest.mark.parametrize("chosen", [{"split": "val"}, {"column": "caption"}, {"limit": 2}])
def test_a_choice_of_rows_is_refused_for_a_folder(chosen, tmp_path):
    with pytest.raises(UnknownNameError, match=r"choose rows of a task, and .* is a folder"):
        vlbench.features("raw-pixels", tmp_path, cache_dir=None, **chosen)


def test_texts_have_features_too():
    found = vlbench.features("tiny-clip", texts=np.array(["a dog", "a cat"]), cache_dir=None)
    assert found.vectors.shape[0] == 2
    assert found.labels is None


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"source": "nowhere"}, UnknownNameError, "no task or folder is named 'nowhere'"),
        ({}, UnknownNameError, "give images, a folder or a task's name, or `texts`"),
        (
            {"texts": ["a"]},
            CannotDo,
            "raw-pixels does not implement TextEncoder: it has no encode_texts",
        ),
        ({"source": TASK, "column": "label"}, CannotDo, "a column of values has no features"),
        ({"source": TASK, "split": "tset"}, UnknownNameError, "no split is named 'tset'; did you"),
        ({"source": TASK, "labels": ["a"]}, UnknownNameError, "`labels` are for images in memory"),
        ({"source": []}, DataError, "the list of images is empty"),
        ({"texts": []}, DataError, "the list of texts is empty"),
        ({"source": ["a.png"]}, DataError, r"image 0, 'a\.png', is a path; open it with PIL"),
        ({"source": __file__}, UnknownNameError, r"test_api\.py is a file; name a folder of"),
    ],
)
def test_what_has_no_features_says_why(asked, error, message):
    with pytest.raises(error, match=message):
        vlbench.features("raw-pixels", cache_dir=None, **asked)


def test_a_probe_of_ones_own_arrays_scores_as_the_task_does(digits):
    _, found = digits
    outcome = vlbench.probe("clustering", found.vectors, found.labels, seed=0)
    assert 0.1 < outcome.scores[0].value <= 1
    assert repr(outcome).startswith("<")
    few = vlbench.probe("few_shot", np.eye(4)[[0, 1] * 6], ["x", "y"] * 6, shots=[1], trials=2)
    assert [(s.value, s.n) for s in few.scores if s.metric == "accuracy"] == [(1.0, 6)]


def test_a_probe_takes_a_test_set_of_ones_own():
    one, other = np.eye(3)[[0, 1, 0, 1]], np.eye(3)[[1, 0, 0]]
    found = vlbench.probe(
        "few_shot", one, [7, 9, 7, 9], test=other, test_labels=[9, 7, 9], shots=[1], trials=1
    )
    assert found.scores[0].value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (("zero_shot", {}), CannotDo, "zero_shot needs more than features"),
        (("few_shots", {}), UnknownNameError, "no probe is named 'few_shots'"),
        (("few_shot", {"test": [[1.0]]}), UnknownNameError, "give the labels of `test`"),
        (
            ("knn", {"test": [[1.0, 2.0]], "test_labels": ["a"]}),
            SpecError,
            "`test` has 2 features a row, and `features` 1",
        ),
    ],
)
def test_a_probe_that_cannot_run_on_arrays_says_why(asked, error, message):
    name, more = asked
    with pytest.raises(error, match=message):
        vlbench.probe(name, [[1.0], [2.0]], ["a", "b"], **more)


@pytest.mark.parametrize("label", [None, float("nan"), [1, 0]])
def test_a_label_that_is_neither_a_text_nor_a_number_is_refused(label):
    with pytest.raises(DataError, match=r"label 1 is .*; a label is a text or a number"):
        vlbench.probe("clustering", [[1.0], [2.0]], ["a", label])


def test_features_with_their_ids_are_no_array():
    extracted = Features(["x", "y"], np.eye(2, dtype=np.float32))
    with pytest.raises(SpecError, match="give the `vectors`"):
        vlbench.probe("clustering", extracted, ["a", "b"])


def test_a_probes_parameters_are_built_as_those_of_a_task():
    arrays = np.eye(4)[[0, 1] * 6], ["x", "y"] * 6
    found = vlbench.probe("transfer", *arrays, training={"optimizer": "lbfgs"})
    built = vlbench.probe("transfer", *arrays, training=LinearTraining(optimizer="lbfgs"))
    assert found.scores == built.scores
    assert vlbench.probe("few_shot", *arrays, shots=(1, 2), trials=1).scores
    with pytest.raises(SpecError, match=r"transfer: 'training\.optimiser' is unknown; did you"):
        vlbench.probe("transfer", *arrays, training={"optimiser": "lbfgs"})


REAL = {
    "bfloat16": torch.Tensor.bfloat16,
    "double": torch.Tensor.double,
    "gradient": torch.Tensor.requires_grad_,
    "negative": lambda x: torch.complex(x, -x).conj().imag,
    "array": torch.Tensor.numpy,
    "list": torch.Tensor.tolist,
}


@pytest.mark.parametrize("kind", REAL)
def test_a_probe_takes_tensors_for_what_they_show(kind):
    # Exact in bfloat16.
    features, labels = (
        torch.eye(4)[[0, 1, 3] * 4] * 8 + torch.arange(48).reshape(12, 4) / 8,
        [*"xyz"] * 4,
    )
    given, few = REAL[kind](features.clone()), {"shots": [1], "trials": 2}
    tests = [{}, {"test": given, "test_labels": labels}]
    plain = [{}, {"test": features.numpy(), "test_labels": labels}]
    for test, same in zip(tests, plain, strict=True):
        found = vlbench.probe("few_shot", given, labels, **few, **test)
        expected = vlbench.probe("few_shot", features.numpy(), labels, **few, **same)
        assert found.scores == expected.scores


def test_a_probe_refuses_complex_features():
    with pytest.raises(SpecError, match="must be real numbers, not complex"):
        vlbench.probe("few_shot", torch.ones(4, 2).cfloat(), [*"abab"], shots=[1])


def test_a_class_of_one_example_has_no_halves():
    with pytest.raises(TooFewRows, match="class b has one example; two halves need two"):
        vlbench.probe("few_shot", np.eye(3), ["a", "a", "b"], shots=[1])


def test_boards_give_rows_frames_a_pivot_and_items(digits):
    folder, _ = digits
    boards = vlbench.load(folder / "results")
    assert repr(boards) == f"<1 boards with 2 rows in {folder / 'results'}>"
    assert [row.model for row in boards.rows] == ["constant", "raw-pixels"]
    pivot = boards.pivot()
    assert pivot.loc["raw-pixels", TASK] == boards.rows[1].primary_score.value
    items = boards.items(TASK, "raw-pixels")
    assert {"id", "credit"} <= {*items.columns}
    assert "<td>raw-pixels</td>" in boards._repr_html_()
    with pytest.raises(UnknownNameError, match="did you mean raw-pixels"):
        boards.items(TASK, "raw-pixel")
    with pytest.raises(UnknownNameError, match="no boards in"):
        vlbench.load(folder / "cache")


def test_a_notebook_shows_a_card_of_each_item_with_its_image(digits, tmp_path):
    folder, _ = digits
    boards = vlbench.load(folder / "results")
    viewer = boards.view_items(TASK, "raw-pixels", wrong=True)
    viewer.save(tmp_path / "wrong.html")
    page = (tmp_path / "wrong.html").read_text("utf-8")
    credit = boards.items(TASK, "raw-pixels")
    credit = credit[(credit["metric"] == "accuracy") & (credit["at"] == '{"shots": 5}')]
    wrong = credit.groupby("id")["credit"].mean() < 1
    assert page.count('"id": ') == wrong.sum() > 0
    assert viewer._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    both = boards.view_items(TASK, "raw-pixels", against="constant").page.decode()
    assert both.count('"id": ') == len(wrong)
    options = {"against": "constant", "wrong": True}
    page = boards.view_items(TASK, "raw-pixels", **options).page.decode()
    assert page.count('"id": ') == wrong.sum()
    with pytest.raises(UnknownNameError, match="few_shot_digits"):
        boards.view_items("few_shot_digit", "raw-pixels")


def test_two_models_are_compared_by_their_items(digits):
    folder, _ = digits
    found = vlbench.compare("raw-pixels", "constant", TASK, output=folder / "results")
    (row,) = found.to_dict("records")
    assert row["difference"] == pytest.approx(row["raw-pixels"] - row["constant"])
    assert row["ci95_low"] < row["difference"] < row["ci95_high"]
    assert row["p_holm"] < 0.05


def test_a_matrix_is_square_and_has_names(tmp_path, monkeypatch):
    from vlbench.api import Rdm

    square = np.array([[0.0, 2.0], [2.0, 0.0]])
    made = Rdm(["a", "b"], square, ["x", "x"])
    monkeypatch.setattr(api, "extract_rdm", lambda *_, **__: made)
    found = vlbench.rdm("tiny-rn", "rsa_scenes", cache_dir=tmp_path)
    assert found.loc["a", "b"] == 2.0
    assert [*found.columns] == ["a", "b"]


def test_a_matrix_of_a_folder_has_no_class_of_an_image_outside_the_folders_of_classes(tmp_path):
    for place in ("cat", "cat/day", "dog/day", "."):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for i in range(2):
            Image.new("RGB", (4, 4), (i, len(place), 0)).save(tmp_path / place / f"{i}.png")
    with pytest.raises(DataError, match=r"^0\.png is in no folder of a class"):
        vlbench.rdm("raw-pixels", str(tmp_path), cache_dir=None)
    for i in range(2):
        (tmp_path / f"{i}.png").unlink()
    assert [*vlbench.rdm("raw-pixels", str(tmp_path), cache_dir=None).columns] == ["cat", "dog"]


def test_a_task_that_makes_no_matrix_is_refused_before_it_runs():
    with pytest.raises(
        UnknownNameError, match="rows of few_shot_digits have no matrix; rows of rsa"
    ):
        vlbench.rdm("raw-pixels", TASK, cache_dir=None)


@pytest.mark.parametrize(
    ("model", "kind"), [({}, "dict"), (len, "len"), (torch.nn.Linear(1, 1), "Linear")]
)
def test_what_is_no_model_is_told_what_it_lacks(model, kind):
    if kind == "len":
        model = lambda pixels: pixels  # noqa: E731 - a function as a user passes one
        kind = "function"
    with pytest.raises(
        UnknownNameError, match=f"a {kind} is not a model: it has none of the methods"
    ):
        vlbench.evaluate(model, TASK, cache_dir=None)


def test_a_module_that_begins_a_capability_is_told_the_rest():
    class Half(torch.nn.Module):
        def encode_images(self, pixels):
            return pixels.flatten(1)

    with pytest.raises(UnknownNameError, match=r"for ImageEncoder, preprocess\(.*is missing"):
        vlbench.evaluate(Half(), TASK, cache_dir=None)


CELL = """
class Cell:
    def preprocess(self, image):
        import torchvision.transforms.functional as f
        return f.to_tensor(image.resize((4, 4)))
    def encode_images(self, pixels):
        return pixels.flatten(1) * {factor}
"""


def test_a_cell_that_is_edited_and_run_again_gives_new_numbers_and_that_is_said_once(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(api, "_SAID", set())
    lengths = []
    with caplog.at_level(logging.WARNING, "vlbench"):
        for factor in (1, 2, 2):
            cell = {"__name__": "__main__"}
            exec(CELL.format(factor=factor), cell)  # noqa: S102 - as a notebook runs a cell
            found = vlbench.features(cell["Cell"](), TASK, cache_dir=tmp_path)
            lengths.append(float(np.linalg.norm(found.vectors)))
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert lengths[2] == lengths[1]
    assert sum("not defined in a file" in message for message in caplog.messages) == 1
    assert not [*tmp_path.glob("features/**/*.*")]


def test_progress_is_shown_where_it_is_asked_for_and_not_in_a_pipe(capsys, tmp_path):
    vlbench.evaluate("constant", TASK, cache_dir=tmp_path)
    assert capsys.readouterr().out == ""
    vlbench.evaluate("constant", TASK, cache_dir=tmp_path, progress=True)
    assert "constant · few_shot_digits: ok" in capsys.readouterr().out


def test_the_cache_is_on_as_on_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path))
    vlbench.features("raw-pixels", TASK)
    assert [*tmp_path.glob("features/**/*")]


def test_whatever_runs_a_model_sets_its_device_up(monkeypatch):
    found = []
    monkeypatch.setattr(devices, "set_up", found.append)
    vlbench.features("raw-pixels", [np.zeros((8, 8, 3), np.uint8)], cache_dir=None)
    vlbench.evaluate("raw-pixels", TASK)
    assert found == [torch.device("cpu")] * 2


def test_results_show_themselves_in_a_line_and_as_a_table():
    results = vlbench.evaluate("constant", TASK, cache_dir=None)
    assert repr(results[0]).startswith("<few_shot_digits by constant, ok: accuracy, shots 5: 0.1")
    assert "<td>constant</td>" in results._repr_html_()
    assert results.frame().equals(vlbench.frame(results))


def test_a_fraction_above_one_is_refused_and_other_units_are_not():
    with pytest.raises(ValueError, match="is 64, and a fraction is 1 at most"):
        Score("dimensions", 64, 1)
    assert Score("dimensions", 64, 1, unit="numbers").value == 64
    assert Score("ratio", 1.5, 1, range=(0, 2)).value == 1.5
    assert repr(Outcome([])) == "<0 scores; no score>"


def test_features_of_layers_stand_by_their_names():
    pixels = [np.full((8, 8, 3), level, np.uint8) for level in (0, 250)]
    found = vlbench.features("tiny-rn", pixels, layers="all", cache_dir=None)
    assert list(found.layers)[-1] == "output"
    assert np.array_equal(found.vectors, found.layers["output"])
    assert repr(found) == f"<features of 2 examples, 128 numbers each, {len(found.layers)} layers>"


@pytest.mark.parametrize(
    "door",
    [
        lambda **words: vlbench.evaluate("raw-pixels", "few_shot_digits", **words),
        lambda **words: vlbench.features("raw-pixels", "few_shot_digits", **words),
        lambda **words: vlbench.rdm("raw-pixels", "few_shot_digits", **words),
    ],
)
def test_own_data_that_no_task_reads_are_refused(door, tmp_path):
    with pytest.raises(UnknownNameError, match="no task here reads one folder per class"):
        door(images=tmp_path)
    with pytest.raises(UnknownNameError, match="there is no folder"):
        door(images=tmp_path / "absent")
    with pytest.raises(UnknownNameError, match="none of the tasks reads them"):
        door(questions=tmp_path / "mine.csv")
    with pytest.raises(UnknownNameError, match="must be the name of a selected task"):
        door(data_dir={"few_shot_digts": tmp_path})


def test_images_of_some_tasks_leave_those_of_other_tasks_readable(tmp_path):
    options = Options(images=tmp_path, cache_dir=tmp_path)
    data = data_of(load_catalog(), "few_shot_digits", options)  # as for a page of several tasks
    assert len(data.splits["test"]["image"]) > 0
